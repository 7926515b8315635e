#pragma once
/// Errors as values: `Result<T>` is a T or an `Error`, `Status` is success or an `Error`.

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace ibcoll {

/// What kind of failure it is; the C API's status codes are the same numbers, but for kInput, which
/// is an invalid argument there.
enum class ErrorCode {
  kInvalidArgument = 1,  ///< the caller passed something that can't be right
  kMismatch = 2,         ///< ranks disagree: algorithm, count, order of calls
  kNoMemory = 3,
  kUnsupported = 4,
  kPeerFailed = 5,  ///< a rank died or gave up
  kDeadline = 6,    ///< a wait reached the deadline that was set
  kSystem = 7,      ///< a system call or device failed
  kInvalidProgram = 8,
  kInternal = 9,
  kCancelled = 10,  ///< somebody ended the group
  kBusy = 11,       ///< as much as is allowed is under way: try again later
  kRankDied = 12,   ///< of a Failure only: a rank's process has ended; errors say kPeerFailed
  kInput = 13,      ///< a file can't be read, or what stands in it can't be right
};

/// What is over with an error.
enum class Scope : uint8_t {
  kCall = 1,   ///< nothing but what was asked for
  kGroup = 2,  ///< all calls of the group, on all its ranks
  kJob = 3,    ///< everything
};

/// The name of a code as messages print it, e.g. "invalid argument".
const char* to_string(ErrorCode code);

/// One failure: its kind and one line that says what was wrong, with the value and the limit.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  Scope scope = Scope::kCall;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// An Error with a formatted message, to be returned from a function that returns Result.
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// The same for a failed system call: appends errno's text.
[[nodiscard]] tl::unexpected<Error> fail_errno(const std::string& what);

}  // namespace ibcoll

/// Returns the error of a Result from the calling function, if it has one.
#define IBCOLL_TRY(expression)                                                      \
  do {                                                                              \
    auto&& ibcoll_try_result = (expression);                                        \
    if (!ibcoll_try_result)                                                         \
      return tl::unexpected<::ibcoll::Error>(std::move(ibcoll_try_result).error()); \
  } while (false)

#define IBCOLL_CONCAT_INNER(a, b) a##b
#define IBCOLL_CONCAT(a, b) IBCOLL_CONCAT_INNER(a, b)

/// `IBCOLL_ASSIGN(auto x, f());`: x is f's value, or f's error is returned from the calling
/// function.
#define IBCOLL_ASSIGN(declaration, expression)                       \
  auto IBCOLL_CONCAT(ibcoll_result_, __LINE__) = (expression);       \
  if (!IBCOLL_CONCAT(ibcoll_result_, __LINE__))                      \
    return tl::unexpected<::ibcoll::Error>(                          \
        std::move(IBCOLL_CONCAT(ibcoll_result_, __LINE__)).error()); \
  declaration = std::move(*IBCOLL_CONCAT(ibcoll_result_, __LINE__))
