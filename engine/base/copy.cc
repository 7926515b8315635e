#include "engine/base/copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "engine/base/units.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ibcoll {
namespace {

#if defined(__x86_64__)

constexpr size_t kLine = 64;
/// Each copies whole cache lines to a destination on a line boundary.
using StreamLines = void (*)(char* to, const char* from, size_t lines);

__attribute__((target("avx512f"))) void stream_lines_avx512(char* to, const char* from,
                                                            size_t lines) {
  for (; lines != 0; --lines, to += kLine, from += kLine) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
  }
}

__attribute__((target("avx2"))) void stream_lines_avx2(char* to, const char* from, size_t lines) {
  for (; lines != 0; --lines, to += kLine, from += kLine) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), a);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + 32), b);
  }
}

void stream_lines_sse2(char* to, const char* from, size_t lines) {
  for (; lines != 0; --lines, to += kLine, from += kLine) {
    __m128i part[4];
    for (int i = 0; i < 4; ++i)
      part[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, part[i]);
  }
}

StreamLines best_stream_lines() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return stream_lines_avx512;
  if (__builtin_cpu_supports("avx2")) return stream_lines_avx2;
  return stream_lines_sse2;
}

const StreamLines stream_lines = best_stream_lines();

#endif

}  // namespace

void copy_plain(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);  // buffers of no bytes may be null
}

void copy_streaming(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  if (bytes < 4 * kLine) {
    copy_plain(to, from, bytes);
    return;
  }
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from);
  const size_t head = -reinterpret_cast<uintptr_t>(out) % kLine;
  std::memcpy(out, in, head);
  const size_t lines = (bytes - head) / kLine;
  stream_lines(out + head, in + head, lines);
  const size_t done = head + lines * kLine;
  std::memcpy(out + done, in + done, bytes - done);
  _mm_sfence();
#else
  std::memcpy(to, from, bytes);
#endif
}

void copy_rep_movsb(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}

size_t last_level_cache_bytes() {
  // From sysfs and not sysconf: glibc multiplies by the cores of the whole package, which for a
  // virtual machine with two of them gave ten times the cache it has.
  static const size_t bytes = [] {
    size_t last = 0;
    for (int index = 0; index < 8; ++index) {
      std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
      std::string text;
      if (!(file >> text)) break;
      const Result<int64_t> size = parse_size(text);
      if (size) last = std::max(last, static_cast<size_t>(*size));
    }
    return last != 0 ? last : size_t{32} << 20;
  }();
  return bytes;
}

CopyKernel copy_kernel_for(size_t footprint_bytes) {
  const size_t cache = last_level_cache_bytes();
  return footprint_bytes > cache + cache / 2 ? copy_streaming : copy_plain;
}

}  // namespace ibcoll
