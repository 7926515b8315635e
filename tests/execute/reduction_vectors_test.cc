// Whatever instructions combine elements, they give the same bits: as many elements as fill some
// vectors and a few more or less, at any address, of values that instructions like to differ on.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/execute/reduction_kinds.h"

namespace ibcoll {
namespace {

/// Infinities, NaN, zeros, subnormal and great ones, often the same twice.
template <class T>
T any_float(std::mt19937_64& random) {
  using Limits = std::numeric_limits<T>;
  const T some[] = {T(0),
                    Limits::infinity(),
                    Limits::quiet_NaN(),
                    Limits::denorm_min(),
                    Limits::min(),
                    Limits::max(),
                    T(1),
                    T(1) + Limits::epsilon(),
                    Limits::lowest(),
                    T(0x1p-20),
                    T(1) / 3,
                    T(random() % 1000)};
  const T value = some[random() % std::size(some)];
  return random() % 2 == 0 ? value : -value;
}

template <class T>
T any_element(std::mt19937_64& random) {
  T element;
  std::memset(static_cast<void*>(&element), 0, sizeof element);
  if constexpr (kIsPair<T>) {
    using Value = decltype(element.value);
    if constexpr (std::is_floating_point_v<Value>)
      element.value = any_float<Value>(random);
    else
      element.value = static_cast<Value>(random() >> random() % 64);
    element.index = static_cast<int>(random() >> (32 + random() % 32));
    // Padding is nobody's.
    auto* const bytes = reinterpret_cast<unsigned char*>(&element);
    for (size_t i = sizeof(Value); i < offsetof(T, index); ++i)
      bytes[i] = std::is_same_v<Value, long double> ? 0 : static_cast<unsigned char>(random());
    for (size_t i = offsetof(T, index) + sizeof(int); i < sizeof(T); ++i)
      bytes[i] = static_cast<unsigned char>(random());
  } else if constexpr (kIsComplex<T>) {
    using Part = typename T::value_type;
    element = T(any_float<Part>(random), any_float<Part>(random));
  } else if constexpr (std::is_floating_point_v<T>) {
    element = any_float<T>(random);
  } else if constexpr (std::is_same_v<T, bool>) {
    element = random() % 2 != 0;
  } else {  // halves are any bits, too
    const uint64_t bits = random() % 3 == 0 ? random() % 3 : random();
    std::memcpy(static_cast<void*>(&element), &bits, sizeof element);
  }
  return element;
}

/// Bit by bit, but for padding and for which NaN one is.
template <class T>
bool same(const T& a, const T& b) {
  if constexpr (kIsPair<T>) {
    return same(a.value, b.value) && a.index == b.index;
  } else if constexpr (kIsComplex<T>) {
    return same(a.real(), b.real()) && same(a.imag(), b.imag());
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b && std::signbit(a) == std::signbit(b);
  } else if constexpr (kIsHalf<T>) {
    return a.bits == b.bits || (std::isnan(value_of(a)) && std::isnan(value_of(b)));
  } else {
    return a == b;
  }
}

/// How many bytes may be around the elements.
constexpr size_t kRoom = 72;

/// Both on the same elements.
template <class T>
void check_alike(Combine combine, Combine portable, size_t count, size_t shift, uint64_t seed) {
  std::mt19937_64 random(seed);
  const size_t bytes = count * sizeof(T);
  std::vector<std::byte> target(bytes + kRoom), source(bytes + kRoom);
  for (size_t i = 0; i < count; ++i) {
    const T a = any_element<T>(random);
    const T b = random() % 4 == 0 ? a : any_element<T>(random);
    std::memcpy(&target[shift + i * sizeof a], &a, sizeof a);
    std::memcpy(&source[kRoom - 8 - shift + i * sizeof b], &b, sizeof b);
  }
  std::vector<std::byte> want = target;
  combine(&target[shift], &source[kRoom - 8 - shift], bytes, nullptr);
  portable(&want[shift], &source[kRoom - 8 - shift], bytes, nullptr);
  for (size_t i = 0; i < count; ++i) {
    T got, wanted;
    std::memcpy(static_cast<void*>(&got), &target[shift + i * sizeof got], sizeof got);
    std::memcpy(static_cast<void*>(&wanted), &want[shift + i * sizeof wanted], sizeof wanted);
    ASSERT_TRUE(same(got, wanted)) << "element " << i << " of " << count << ", shift " << shift;
  }
  const auto outside = [&](const std::vector<std::byte>& all) {
    std::vector<std::byte> bytes_there(all.begin(), all.begin() + static_cast<long>(shift));
    bytes_there.insert(bytes_there.end(), all.begin() + static_cast<long>(shift + bytes),
                       all.end());
    return bytes_there;
  };
  EXPECT_EQ(outside(target), outside(want));
}

TEST(ReductionVectors, GiveTheBitsThatLoopsForAnyProcessorGive) {
  for (const KernelTable* table : tables()) {
    for_each_reduction([table](ElementType type, Operator op) {
      SCOPED_TRACE(fmt::format("{} {} {}", table->name, to_string(type), to_string(op)));
      const ReductionKernels& some = kernels_of(*table, type, op);
      const ReductionKernels& portable = kernels_of(kPortableKernels, type, op);
      for (const size_t vector : {16, 32, 64, 128, 256, 2048 + 64}) {
        const size_t fill = vector / element_bytes(type);
        for (const size_t count : {fill - 1, fill, fill + 1, 2 * fill + 3}) {
          if (count > 2 * vector) continue;  // fill was 0
          const size_t shift = (count + vector / 16) % 64;
          visit_type(type, [&](auto sample) {
            using T = decltype(sample);
            check_alike<T>(some.combine, portable.combine, count, shift, vector + count);
            check_alike<T>(some.combine_reversed, portable.combine_reversed, count, shift, count);
          });
        }
      }
    });
  }
}

/// Against what docs/api.md says of pairs.
template <class T>
void check_pairs(ElementType type) {
  for (const KernelTable* table : tables()) {
    for (const Operator op : {Operator::kMinLoc, Operator::kMaxLoc}) {
      SCOPED_TRACE(fmt::format("{} {} {}", table->name, to_string(type), to_string(op)));
      std::mt19937_64 random(7);
      std::vector<indexed<T>> target(3000), source(target.size());
      for (size_t i = 0; i < target.size(); ++i) {
        target[i] = any_element<indexed<T>>(random);
        source[i] = any_element<indexed<T>>(random);
        if (i % 3 == 0) source[i].value = target[i].value;
      }
      std::vector<indexed<T>> got = target;
      kernels_of(*table, type, op)
          .combine(got.data(), source.data(), got.size() * sizeof got[0], nullptr);
      for (size_t i = 0; i < got.size(); ++i) {
        const indexed<T>&a = target[i], &b = source[i];
        const bool nan_a = a.value != a.value, nan_b = b.value != b.value;
        bool takes = op == Operator::kMinLoc ? b.value < a.value : b.value > a.value;
        if (nan_a || nan_b) takes = nan_b && !nan_a;
        if (a.value == b.value || (nan_a && nan_b)) takes = b.index < a.index;
        ASSERT_TRUE(same(got[i], takes ? b : a)) << "element " << i;
      }
    }
  }
}

TEST(ReductionVectors, TakeThePairThatTheInterfaceNames) {
  check_pairs<float>(ElementType::kFloatInt);
  check_pairs<double>(ElementType::kDoubleInt);
  check_pairs<long>(ElementType::kLongInt);
  check_pairs<int>(ElementType::kIntInt);
  check_pairs<short>(ElementType::kShortInt);
  check_pairs<long double>(ElementType::kLongDoubleInt);
}

}  // namespace
}  // namespace ibcoll
