#pragma once
/// Structs of the C interface that programs of other versions pass, and values of its enums.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/base/result.h"

namespace ibcoll::c_api {

/// No struct will ever be as large: what claims to be was not set.
inline constexpr size_t kMaxStructBytes = 4096;

/// Refuses a struct_size that none of the versions of `Struct` can have; `least`: the first one's.
template <class Struct>
Status check_struct_size(const char* name, size_t size, size_t least = sizeof(size_t)) {
  if (size < least || size > kMaxStructBytes) {
    return fail(ErrorCode::kInvalidArgument,
                "struct_size {} of an {} can't be right: sizeof({}) is {}", size, name, name,
                sizeof(Struct));
  }
  return {};
}

/// What the program means by `given`: itself where it has this version's size, else `copy`, with
/// zero for what it lacks. Refused where it has more than is known here, and that is not zero.
template <class Struct>
Result<const Struct*> of_this_version(const char* name, const Struct* given, Struct& copy,
                                      size_t least = sizeof(size_t)) {
  const size_t size = given->struct_size;
  if (size == sizeof(Struct)) [[likely]] {
    // What fills the struct's last bytes is kept for what comes.
    if constexpr (requires { given->reserved; }) {
      if (given->reserved != 0) [[unlikely]] {
        return fail(ErrorCode::kInvalidArgument, "reserved in an {} is {}: it must be 0", name,
                    given->reserved);
      }
    }
    return given;
  }
  IBCOLL_TRY(check_struct_size<Struct>(name, size, least));
  const auto* bytes = reinterpret_cast<const std::byte*>(given);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] == std::byte{0}) continue;
    return fail(ErrorCode::kInvalidArgument,
                "the {} of {} bytes asks for what this version, where it has {}, does not know",
                name, size, sizeof(Struct));
  }
  copy = {};
  std::memcpy(static_cast<void*>(&copy), given, std::min(size, sizeof(Struct)));
  copy.struct_size = sizeof(Struct);
  return &copy;
}

/// Gives the program as much of `result` as its struct, whose size it has set, has room for. What a
/// newer version has besides is zero.
template <class Struct>
Status fill_in(const char* name, Struct result, Struct& given) {
  const size_t size = given.struct_size;
  IBCOLL_TRY(check_struct_size<Struct>(name, size));
  result.struct_size = size;
  std::memset(static_cast<void*>(&given), 0, size);
  std::memcpy(static_cast<void*>(&given), &result, std::min(size, sizeof result));
  return {};
}

/// A flag of a struct, which has room for more than yes and no.
inline Result<bool> flag(const char* name, int value) {
  if (value == 0 || value == 1) [[likely]]
    return value == 1;
  return fail(ErrorCode::kInvalidArgument, "{} is {}: it must be 0 or 1", name, value);
}

/// The number a program has passed, which need not be one of the enum's.
template <class Enum>
int number_of(const Enum& passed) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number;
  std::memcpy(&number, &passed, sizeof number);
  return number;
}

}  // namespace ibcoll::c_api
