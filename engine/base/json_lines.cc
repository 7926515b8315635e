#include "engine/base/json_lines.h"

#include <cerrno>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/output.h"

namespace ibcoll {

void JsonLines::Closer::operator()(std::FILE* stream) const {
  if (stream != stdout) std::fclose(stream);
}

Result<JsonLines> JsonLines::open(const std::string& path) {
  if (path.empty()) return JsonLines();
  if (path == "-") return JsonLines("standard output", stdout);
  std::FILE* stream = std::fopen(path.c_str(), "we");
  if (stream == nullptr) return fail_errno(fmt::format("can't write '{}'", path));
  return JsonLines(path, stream);
}

void JsonLines::write(const nlohmann::ordered_json& object) {
  if (active()) write_lines(json_text(object) + '\n');
}

void JsonLines::write_lines(std::string_view lines) {
  if (!active() || error_ != 0) return;
  const bool written = std::fwrite(lines.data(), 1, lines.size(), stream_.get()) == lines.size();
  if (!written || std::fflush(stream_.get()) != 0) error_ = errno;
}

Status JsonLines::close() {
  std::FILE* stream = stream_.release();
  if (stream == nullptr) return {};
  if (stream != stdout && std::fclose(stream) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0) return {};
  errno = std::exchange(error_, 0);
  return fail_to_write(stream == stdout ? path_ : fmt::format("'{}'", path_));
}

Status write_file(const std::string& path, const std::string& text) {
  std::FILE* stream = std::fopen(path.c_str(), "we");
  if (stream == nullptr) return fail_errno(fmt::format("can't write '{}'", path));
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  const int error = errno;
  if (std::fclose(stream) == 0 && written) return {};
  if (!written) errno = error;
  return fail_errno(fmt::format("can't write '{}'", path));
}

}  // namespace ibcoll
