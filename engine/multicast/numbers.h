#pragma once
/// Numbers of variable length in messages: seven bits a byte, the low ones first (LEB128).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll {

inline void append_number(std::vector<std::byte>& out, uint32_t number) {
  for (; number >= 0x80; number >>= 7) out.push_back(static_cast<std::byte>(number | 0x80));
  out.push_back(static_cast<std::byte>(number));
}

/// Bytes that append_number() takes.
inline size_t number_bytes(uint32_t number) {
  size_t bytes = 1;
  for (; number >= 0x80; number >>= 7) ++bytes;
  return bytes;
}

/// Takes a number from the beginning of `in`. Fails (kMismatch) where it is cut off, over `limit`,
/// or longer than it need be; `what` names it in the error.
inline Result<uint32_t> take_number(std::span<const std::byte>& in, uint32_t limit,
                                    const char* what) {
  uint64_t number = 0;
  for (size_t i = 0; i < in.size() && i < 5; ++i) {
    const auto byte = static_cast<uint64_t>(in[i]);
    number |= (byte & 0x7f) << (7 * i);
    if ((byte & 0x80) != 0) continue;
    if (byte == 0 && i > 0) {
      return fail(ErrorCode::kMismatch, "{} is written in {} bytes, longer than need be", what,
                  i + 1);
    }
    if (number > limit) {
      return fail(ErrorCode::kMismatch, "{} is {}: over the limit of {}", what, number, limit);
    }
    in = in.subspan(i + 1);
    return static_cast<uint32_t>(number);
  }
  if (in.size() >= 5) return fail(ErrorCode::kMismatch, "{} is longer than 5 bytes", what);
  return fail(ErrorCode::kMismatch, "the message ends inside {}", what);
}

}  // namespace ibcoll
