#pragma once
/// The size of memory pages, and rounding to them: 4 KB on x86, up to 64 KB on ARM and POWER.

#include <unistd.h>

#include <cstddef>

namespace ibcoll {

/// Of this system, in bytes.
inline size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
constexpr size_t round_down(size_t bytes, size_t unit) { return bytes / unit * unit; }

struct ByteRange {
  size_t offset = 0, bytes = 0;
  bool operator==(const ByteRange&) const = default;
};

/// The pages of `page` bytes that lie wholly in a range: what can be given back without its
/// neighbours' memory.
constexpr ByteRange pages_within(size_t offset, size_t bytes, size_t page) {
  const size_t begin = round_up(offset, page), end = round_down(offset + bytes, page);
  return {begin, end > begin ? end - begin : 0};
}

/// The pages of `page` bytes that a range touches.
constexpr ByteRange pages_touched(size_t offset, size_t bytes, size_t page) {
  const size_t begin = round_down(offset, page);
  return {begin, bytes == 0 ? 0 : round_up(offset + bytes, page) - begin};
}

}  // namespace ibcoll
