#include "engine/execute/same_elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/base/data_hash.h"

namespace ibcoll {
namespace {

/// Whole elements of every type are so long together.
constexpr uint64_t kCompared = 4096;

/// Writes elements as all ranks have them; null: they stand there so already.
using Canonical = void (*)(const std::byte* from, std::byte* to, uint64_t bytes);

/// Bytes of a value that mean something.
template <class T>
constexpr size_t kValueBytes = sizeof(T);
template <>
constexpr size_t kValueBytes<long double> = std::numeric_limits<long double>::digits == 64
                                                ? 10
                                                : sizeof(long double);

template <class T>
void put_value(const std::byte* from, std::byte* to) {
  T value;
  std::memcpy(&value, from, sizeof value);
  if (std::isnan(value)) value = std::numeric_limits<T>::quiet_NaN();
  std::memcpy(to, &value, kValueBytes<T>);
}

template <class T>
void numbers(const std::byte* from, std::byte* to, uint64_t bytes) {
  if constexpr (kValueBytes<T> != sizeof(T)) std::memset(to, 0, bytes);
  for (uint64_t at = 0; at < bytes; at += sizeof(T)) put_value<T>(from + at, to + at);
}

/// A half is a NaN if it is larger than this without its sign: that is infinity.
template <uint16_t kInfinity>
void halves(const std::byte* from, std::byte* to, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += sizeof(uint16_t)) {
    uint16_t bits;
    std::memcpy(&bits, from + at, sizeof bits);
    if ((bits & 0x7fff) > kInfinity) bits = 0x7fff;
    std::memcpy(to + at, &bits, sizeof bits);
  }
}

template <class T>
void pairs(const std::byte* from, std::byte* to, uint64_t bytes) {
  struct Pair {
    T value;
    int index;
  };
  std::memset(to, 0, bytes);
  for (uint64_t at = 0; at < bytes; at += sizeof(Pair)) {
    put_value<T>(from + at, to + at);
    std::memcpy(to + at + offsetof(Pair, index), from + at + offsetof(Pair, index), sizeof(int));
  }
}

/// Whether there may be a NaN among numbers of so many words: it has ones wherever `infinity` has,
/// in the word that is the last one in memory.
template <class Word, size_t kWords = 1>
bool may_have_nan(const std::byte* data, uint64_t bytes, Word infinity) {
  constexpr size_t kVector = 16;
  using Vector [[gnu::vector_size(kVector)]] = Word;
  Vector mask{}, wanted{};  // nothing is found where that is not in the mask
  for (size_t i = 0; i < kVector / sizeof(Word); ++i) {
    const bool last = i % kWords == kWords - 1;
    mask[i] = last ? infinity : Word{0};
    wanted[i] = last ? infinity : Word{1};
  }
  Vector found{};
  const auto look_at = [&](Vector words) {
    found |= reinterpret_cast<Vector>((words & mask) == wanted);
  };
  uint64_t at = 0;
  for (; at + kVector <= bytes; at += kVector) {
    Vector words;
    std::memcpy(&words, data + at, sizeof words);
    look_at(words);
  }
  Vector rest{};
  std::memcpy(&rest, data + at, bytes - at);
  look_at(rest);
  bool any = false;
  for (size_t i = 0; i < kVector / sizeof(Word); ++i) any |= found[i] != 0;
  return any;
}

/// Whether all elements stand there as all ranks have them, as mostly.
bool is_canonical(ElementType type, const std::byte* data, uint64_t bytes) {
  switch (type) {
    case ElementType::kFloat:
    case ElementType::kFloatComplex:
      return !may_have_nan<uint32_t>(data, bytes, 0x7f800000);
    case ElementType::kDouble:
    case ElementType::kDoubleComplex:
      return std::endian::native == std::endian::little &&
             !may_have_nan<uint32_t, 2>(data, bytes, 0x7ff00000);
    case ElementType::kFloat16:
      return !may_have_nan<uint16_t>(data, bytes, 0x7c00);
    case ElementType::kBfloat16:
      return !may_have_nan<uint16_t>(data, bytes, 0x7f80);
    default:
      return false;
  }
}

Canonical canonical_of(const Reduction& reduction) {
  if (reduction.meaning == 0) return nullptr;
  switch (reduction.element()) {
    case ElementType::kFloat:
    case ElementType::kFloatComplex:
      return numbers<float>;
    case ElementType::kDouble:
    case ElementType::kDoubleComplex:
      return numbers<double>;
    case ElementType::kLongDouble:
    case ElementType::kLongDoubleComplex:
      return numbers<long double>;
    case ElementType::kFloat16:
      return halves<0x7c00>;
    case ElementType::kBfloat16:
      return halves<0x7f80>;
    case ElementType::kFloatInt:
      return pairs<float>;
    case ElementType::kDoubleInt:
      return pairs<double>;
    case ElementType::kLongInt:
      return pairs<long>;
    case ElementType::kShortInt:
      return pairs<short>;
    case ElementType::kLongDoubleInt:
      return pairs<long double>;
    default:
      return nullptr;
  }
}

}  // namespace

uint64_t hash_elements(const Reduction& reduction, const std::byte* data, uint64_t bytes) {
  const Canonical canonical = canonical_of(reduction);
  if (canonical == nullptr || is_canonical(reduction.element(), data, bytes))
    return hash_data({const_cast<std::byte*>(data)}, bytes);
  alignas(64) std::byte chunk[kCompared];
  uint64_t hash = 0;
  for (uint64_t at = 0; at < bytes; at += kCompared) {
    const uint64_t piece = std::min(kCompared, bytes - at);
    canonical(data + at, chunk, piece);
    hash = hash_data({chunk}, piece, hash);
  }
  return hash;
}

std::optional<uint64_t> first_difference(const Reduction& reduction, const std::byte* a,
                                         const std::byte* b, uint64_t bytes) {
  const Canonical canonical = canonical_of(reduction);
  alignas(64) std::byte of_a[kCompared], of_b[kCompared];
  for (uint64_t at = 0; at < bytes; at += kCompared) {
    const uint64_t piece = std::min(kCompared, bytes - at);
    const std::byte *x = a + at, *y = b + at;
    if (std::memcmp(x, y, piece) == 0) continue;
    if (canonical != nullptr) {
      canonical(x, of_a, piece);
      canonical(y, of_b, piece);
      x = of_a;
      y = of_b;
    }
    const auto differs = static_cast<uint64_t>(std::mismatch(x, x + piece, y).first - x);
    if (differs != piece) return at + differs / reduction.element_bytes * reduction.element_bytes;
  }
  return std::nullopt;
}

}  // namespace ibcoll
