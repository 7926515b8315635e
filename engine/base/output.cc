#include "engine/base/output.h"

#include <cerrno>
#include <cstdio>

namespace ibcoll {
namespace {

constexpr const char* kReaderGone = "the reader of the output has gone";

int first_error = 0;

}  // namespace

void print_text(fmt::string_view text) {
  if (first_error != 0) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    first_error = errno != 0 ? errno : EIO;
}

Status flush_output() {
  if (first_error == 0 && std::fflush(stdout) != 0) first_error = errno;
  if (first_error == 0) return {};
  errno = first_error;
  return fail_to_write("standard output");
}

bool reader_has_gone(const std::string& message) {
  return message.find(kReaderGone) != std::string::npos;
}

tl::unexpected<Error> fail_to_write(const std::string& path) {
  if (errno == EPIPE) return fail(ErrorCode::kSystem, "{}", kReaderGone);
  return fail_errno(fmt::format("can't write {}", path));
}

}  // namespace ibcoll
