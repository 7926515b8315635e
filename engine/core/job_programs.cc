#include "engine/core/job_programs.h"

#include <charconv>
#include <string_view>

#include "engine/algorithms/imported.h"
#include "engine/core/share.h"

namespace ibcoll {
namespace {

/// Of the text of all schedules: every rank holds it for a while.
constexpr size_t kMostBytes = size_t{64} << 20;

/// Of each schedule a line with its length, then its text.
std::string packed(const std::vector<ProgramFile>& files) {
  std::string text;
  for (const ProgramFile& file : files) text += fmt::format("{}\n{}", file.text.size(), file.text);
  return text;
}

std::vector<ProgramFile> unpacked(std::string_view text) {
  std::vector<ProgramFile> files;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    size_t length = 0;
    std::from_chars(text.data(), text.data() + end, length);
    files.push_back({"rank 0's programs", std::string(text.substr(end + 1, length))});
    text.remove_prefix(end + 1 + length);
  }
  return files;
}

Status add_all(const std::vector<ProgramFile>& files, int most_ranks, Proof proof) {
  for (const ProgramFile& file : files) {
    const Status added = add_imported(file, most_ranks, proof);
    if (!added) return fail(added.error().code, "IBCOLL_PROGRAMS: {}", added.error().message);
  }
  return {};
}

}  // namespace

Status add_programs_of(Bootstrap& bootstrap, const std::string& directory) {
  std::string text;
  Status done;
  if (bootstrap.rank() == 0) {
    const auto files = read_program_files(directory);
    if (files) {
      done = add_all(*files, bootstrap.size(), Proof::kHere);
      text = packed(*files);
    } else {
      done = fail(files.error().code, "IBCOLL_PROGRAMS: {}", files.error().message);
    }
    if (done && text.size() > kMostBytes) {
      done = fail(ErrorCode::kInput, "IBCOLL_PROGRAMS: {}: {} bytes of schedules, more than {}",
                  directory, text.size(), kMostBytes);
    }
  }
  IBCOLL_TRY(share(bootstrap, done));
  IBCOLL_TRY(share(bootstrap, text));
  // A rank may have other programs by these names, from a job that it was in before.
  if (bootstrap.rank() != 0) done = add_all(unpacked(text), bootstrap.size(), Proof::kElsewhere);
  return share(bootstrap, done);
}

}  // namespace ibcoll
