#pragma once
/// What input files hold.

#include <string>

#include "engine/base/result.h"

namespace ibcoll {

inline constexpr size_t kMaxInputBytes = size_t{1} << 30;

/// The content of an input file: a regular file or a pipe (`<(command)`, /dev/stdin) of at most
/// `limit` bytes. Fails with kInput, naming the path, where it can't be read, is something else (a
/// directory, a device, which may have no end), or is larger.
Result<std::string> read_input(const std::string& path, size_t limit = kMaxInputBytes);

/// The result of reading a file's content: what was wrong with the content is an error of kInput,
/// not of the argument that names the file.
template <class T>
Result<T> of_input(Result<T> result) {
  if (!result && result.error().code == ErrorCode::kInvalidArgument)
    result.error().code = ErrorCode::kInput;
  return result;
}

/// The same, with the path before the message.
template <class T>
Result<T> of_input(const std::string& path, Result<T> result) {
  if (!result) result.error().message = fmt::format("{}: {}", path, result.error().message);
  return of_input(std::move(result));
}

}  // namespace ibcoll
