#include "engine/core/job_programs.h"

#include <charconv>
#include <string_view>

#include "engine/algorithms/imported.h"
#include "engine/core/share.h"

namespace ibcoll {
namespace {

/// Files one after the other: of each a line with its length and path, then its text.
std::string packed(const std::vector<ProgramFile>& files) {
  std::string text;
  for (const ProgramFile& file : files)
    text += fmt::format("{} {}\n{}", file.text.size(), file.path, file.text);
  return text;
}

std::vector<ProgramFile> unpacked(std::string_view text) {
  std::vector<ProgramFile> files;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    size_t length = 0;
    const char* const path = std::from_chars(text.data(), text.data() + end, length).ptr + 1;
    ProgramFile& file = files.emplace_back();
    file.path.assign(path, text.data() + end);
    file.text = text.substr(end + 1, length);
    text.remove_prefix(end + 1 + length);
  }
  return files;
}

}  // namespace

Status add_programs_of(Bootstrap& bootstrap, const std::string& directory) {
  std::string text;
  Status done;
  if (bootstrap.rank() == 0) {
    auto files = read_program_files(directory);
    if (files) {
      for (const ProgramFile& file : *files) {
        if (done) done = add_imported(file, bootstrap.size());
      }
      text = packed(*files);
    } else {
      done = tl::unexpected<Error>(files.error());
    }
    if (!done) done = fail(done.error().code, "IBCOLL_PROGRAMS: {}", done.error().message);
  }
  IBCOLL_TRY(share(bootstrap, done));
  IBCOLL_TRY(share(bootstrap, text));
  if (bootstrap.rank() == 0) return {};
  for (const ProgramFile& file : unpacked(text)) IBCOLL_TRY(add_imported(file, bootstrap.size()));
  return {};
}

}  // namespace ibcoll
