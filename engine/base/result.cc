#include "engine/base/result.h"

#include <cerrno>
#include <cstring>

namespace ibcoll {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kMismatch:
      return "ranks disagree";
    case ErrorCode::kNoMemory:
      return "out of memory";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kPeerFailed:
    case ErrorCode::kRankDied:
      return "a rank failed";
    case ErrorCode::kDeadline:
      return "deadline passed";
    case ErrorCode::kSystem:
      return "system error";
    case ErrorCode::kInvalidProgram:
      return "invalid program";
    case ErrorCode::kInternal:
      return "internal error";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kBusy:
      return "busy";
    case ErrorCode::kInput:
      return "bad input";
  }
  return "unknown error";
}

tl::unexpected<Error> fail_errno(const std::string& what) {
  const int error = errno;
  const ErrorCode code =
      error == ENOMEM || error == ENOSPC ? ErrorCode::kNoMemory : ErrorCode::kSystem;
  return fail(code, "{}: {}", what, std::strerror(error));
}

}  // namespace ibcoll
