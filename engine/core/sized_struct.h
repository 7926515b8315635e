#pragma once
/// Structs that a program passes with their size, so that they may grow from version to version.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "engine/base/result.h"

namespace ibcoll::c_api {

/// A copy of what the program has given: members that its version of the struct lacks are zero.
/// Refused, with its value, is a struct_size less than `least`, that of the first version, or of no
/// struct; and a longer one than this library knows whose rest is not zero, since that asks for
/// something.
template <class Struct>
Result<Struct> sized_copy(const Struct& given, size_t least, const char* name) {
  static_assert(std::is_trivially_copyable_v<Struct> && offsetof(Struct, struct_size) == 0);
  constexpr size_t kMost = 4096;
  size_t size = 0;
  std::memcpy(&size, &given, sizeof size);
  if (size < least || size > kMost) {
    return fail(ErrorCode::kInvalidArgument,
                "the struct_size of {} is {}: it was not set to sizeof({}), which is {} here", name,
                size, name, sizeof(Struct));
  }
  const auto* bytes = reinterpret_cast<const char*>(&given);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) {
      return fail(ErrorCode::kUnsupported,
                  "{} has {} bytes and asks for something in byte {}: this library, {} bytes, is "
                  "older than the program",
                  name, size, i, sizeof(Struct));
    }
  }
  Struct copy{};
  std::memcpy(static_cast<void*>(&copy), bytes, std::min(size, sizeof(Struct)));
  return copy;
}

}  // namespace ibcoll::c_api
