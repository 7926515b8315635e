// Every operator on every type, with the instructions of every kind of processor that this one can
// be: against a plain loop, at any address. Rounding of 16-bit floats, ties, NaN, refusals.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/execute/reduction_kinds.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

/// The nearest one, found by trying both neighbours; halfway the even one.
template <class Half>
Half nearest(long double value) {
  Half low{0}, high{static_cast<uint16_t>(
                   ((2 * HalfFormat<Half>::kBias + 1) << HalfFormat<Half>::kFraction))};
  const bool negative = std::signbit(value);
  const long double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) low = high;
  while (high.bits - low.bits > 1) {
    const Half middle{static_cast<uint16_t>((low.bits + high.bits) / 2)};
    (value_of(middle) <= magnitude ? low : high) = middle;
  }
  // Infinity rounds as if it were the number that would come next.
  const Half before{static_cast<uint16_t>(low.bits - 1)};
  const bool last = std::isinf(value_of(high));
  const long double next = last ? 2 * value_of(low) - value_of(before) : value_of(high);
  const long double to_low = magnitude - value_of(low), to_high = next - magnitude;
  Half result = low;
  if (!std::isinf(magnitude) && (to_high < to_low || (to_high == to_low && low.bits % 2 == 1)))
    result = high;
  if (negative) result.bits |= 0x8000;
  return result;
}

/// One element, as a plain program has it.
template <class T>
T combined(Operator op, T a, T b) {
  if (op == Operator::kReplace) return b;
  if (op == Operator::kNoOp) return a;
  if constexpr (kIsPair<T>) {
    const bool takes_b = op == Operator::kMinLoc ? b.value < a.value : b.value > a.value;
    if (a.value == b.value) a.index = std::min(a.index, b.index);
    return takes_b ? b : a;
  } else if constexpr (kIsHalf<T>) {
    const long double x = value_of(a), y = value_of(b);
    if (op == Operator::kSum) return nearest<T>(x + y);
    if (op == Operator::kProduct) return nearest<T>(x * y);
    return (op == Operator::kMin) == (y < x) ? b : a;
  } else if constexpr (kIsComplex<T>) {
    if (op == Operator::kSum) return a + b;
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  } else if constexpr (std::is_same_v<T, bool>) {
    return op == Operator::kAnd ? a && b : op == Operator::kOr ? a || b : a != b;
  } else {
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::byte>) {
      if (op == Operator::kBitAnd) return static_cast<T>(a & b);
      if (op == Operator::kBitOr) return static_cast<T>(a | b);
      if (op == Operator::kBitXor) return static_cast<T>(a ^ b);
    }
    if constexpr (std::is_integral_v<T>) {
      const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
      if (op == Operator::kSum) return static_cast<T>(x + y);
      if (op == Operator::kProduct) return static_cast<T>(x * y);
      if (op == Operator::kAnd) return static_cast<T>(a != 0 && b != 0);
      if (op == Operator::kOr) return static_cast<T>(a != 0 || b != 0);
      if (op == Operator::kXor) return static_cast<T>((a != 0) != (b != 0));
    }
    if constexpr (!std::is_same_v<T, std::byte>) {
      if (op == Operator::kSum) return static_cast<T>(a + b);
      if (op == Operator::kProduct) return static_cast<T>(a * b);
      return op == Operator::kMin ? std::min(a, b) : std::max(a, b);
    }
    return a;
  }
}

template <class T>
T random_element(std::mt19937_64& random) {
  const uint64_t bits = random();
  T element;
  std::memset(static_cast<void*>(&element), 0, sizeof element);  // padding, too
  if constexpr (kIsPair<T>) {
    element.value = static_cast<decltype(element.value)>(bits % 7) - 3;
    element.index = static_cast<int>(bits >> 40) - 1000;
  } else if constexpr (kIsComplex<T>) {
    const auto part = [&] { return static_cast<int64_t>(random() % 2001 - 1000) / 64.0f; };
    element = T(part(), part());
  } else if constexpr (std::is_floating_point_v<T>) {
    element = static_cast<T>(static_cast<int64_t>(bits)) * static_cast<T>(0x1p-55);
  } else if constexpr (kIsHalf<T>) {
    element.bits = static_cast<uint16_t>(bits);  // any, but no NaN or infinity
    const int exponent = 2 * HalfFormat<T>::kBias + 1;
    if ((element.bits & 0x7fff) >> HalfFormat<T>::kFraction == exponent) element.bits &= 0xbfff;
  } else if constexpr (std::is_same_v<T, bool>) {
    element = bits % 2 != 0;
  } else {
    // As often 0 as not, for the logical operators.
    element = static_cast<T>(bits % 3 == 0 ? 0 : bits >> 8);
  }
  return element;
}

/// Whether the two are alike, as far as anybody can tell: not in padding, and any NaN is one.
template <class T>
bool alike(const T& a, const T& b) {
  if constexpr (kIsPair<T>)
    return a.value == b.value && a.index == b.index;
  else if constexpr (kIsHalf<T>)
    return a.bits == b.bits || (std::isnan(value_of(a)) && std::isnan(value_of(b)));
  else
    return a == b;
}

/// One call of a kernel, at addresses that are `shift` bytes off.
template <class T>
void check_kernel(Operator op, Combine kernel, bool reversed, size_t count, size_t shift) {
  std::mt19937_64 random(count * 16 + shift);
  const size_t bytes = count * sizeof(T);
  std::vector<std::byte> target(bytes + shift + 80, std::byte{0x5a}), source(bytes + 80);
  std::vector<T> want(count);
  std::byte* const to = target.data() + shift;
  std::byte* const from = source.data() + 3 * shift;
  for (size_t i = 0; i < count; ++i) {
    const T a = random_element<T>(random), b = random_element<T>(random);
    std::memcpy(to + i * sizeof(T), &a, sizeof a);
    std::memcpy(from + i * sizeof(T), &b, sizeof b);
    want[i] = reversed ? combined(op, b, a) : combined(op, a, b);
  }
  const std::vector<std::byte> before = source;
  EXPECT_EQ(kernel(to, from, bytes, nullptr), nullptr);
  EXPECT_EQ(source, before);
  for (size_t i = 0; i < count; ++i) {
    T got;
    std::memcpy(static_cast<void*>(&got), to + i * sizeof(T), sizeof got);
    ASSERT_TRUE(alike<T>(got, want[i])) << "element " << i << " of " << count;
  }
  for (size_t i = 0; i < target.size(); ++i) {
    const bool outside = i < shift || i >= shift + bytes;
    ASSERT_TRUE(!outside || target[i] == std::byte{0x5a}) << "byte " << i;
  }
}

TEST(Reductions, AreForTheTypesThatMpiNames) {
  for (int t = 0; t < kElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    EXPECT_EQ(parse_element_type(to_string(type)).value(), type);
    for (int o = 0; o < kOperators; ++o) {
      const auto op = static_cast<Operator>(o);
      EXPECT_EQ(parse_operator(to_string(op)).value(), op);
      const auto found = find_reduction(type, op);
      ASSERT_EQ(found.has_value(), operators_of(type).contains(to_string(op)))
          << to_string(type) << " " << to_string(op);
      EXPECT_EQ(ibcoll_has_operator(static_cast<ibcoll_type>(t), static_cast<ibcoll_operator>(o)),
                found.has_value() ? 1 : 0);
      if (found) {
        visit_type(type, [&](auto sample) { EXPECT_EQ(found->element_bytes, sizeof sample); });
        EXPECT_EQ(found->commutes, op != Operator::kReplace && op != Operator::kNoOp);
        EXPECT_EQ(found->element(), type);
        EXPECT_EQ(found->op(), op);
      }
    }
  }
  EXPECT_EQ(ibcoll_has_operator(IBCOLL_OWN, IBCOLL_SUM), 0);
  EXPECT_EQ(ibcoll_has_operator(IBCOLL_INT32, IBCOLL_FIRST_OWN), 0);
  EXPECT_EQ(ibcoll_has_operator(static_cast<ibcoll_type>(-1), IBCOLL_SUM), 0);
  EXPECT_THAT(find_reduction(ElementType::kBool, Operator::kSum).error().message,
              HasSubstr("operator sum is not for elements of type bool, which take land, lor, "
                        "lxor, replace, no_op"));
  EXPECT_THAT(find_reduction(ElementType::kOwn, Operator::kSum).error().message,
              HasSubstr("operator sum is not for elements of the program's own"));
  EXPECT_THAT(parse_element_type("own").error().message, HasSubstr("unknown element type 'own'"));
}

TEST(Reductions, AreThoseOfAPlainLoopAtAnyAddress) {
  for (const KernelTable* table : tables()) {
    for_each_reduction([table](ElementType type, Operator op) {
      SCOPED_TRACE(fmt::format("{} {} {}", table->name, to_string(type), to_string(op)));
      const ReductionKernels& kernels = kernels_of(*table, type, op);
      for (const size_t count : {0, 1, 3, 1000}) {
        for (const size_t shift : {0, 1, 5}) {
          visit_type(type, [&](auto sample) {
            using T = decltype(sample);
            check_kernel<T>(op, kernels.combine, false, count, shift);
            check_kernel<T>(op, kernels.combine_reversed, true, count, shift);
          });
        }
      }
    });
  }
}

/// All halves, each with some others: infinities, NaN and subnormal ones, too.
template <class Half>
void check_all_halves(ElementType type) {
  std::mt19937_64 random(1);
  std::vector<Half> a(1 << 17), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i].bits = static_cast<uint16_t>(i);
    b[i].bits = static_cast<uint16_t>(i < a.size() / 2 ? random() : random() % 3 + i);
  }
  for (const KernelTable* table : tables()) {
    for (const Operator op : {Operator::kSum, Operator::kProduct, Operator::kMin, Operator::kMax}) {
      std::vector<Half> got = a;
      kernels_of(*table, type, op).combine(got.data(), b.data(), got.size() * 2, nullptr);
      for (size_t i = 0; i < got.size(); ++i) {
        const long double x = value_of(a[i]), y = value_of(b[i]), z = value_of(got[i]);
        const bool extreme = op == Operator::kMin || op == Operator::kMax;
        if (extreme && (std::isnan(x) || std::isnan(y))) continue;  // not defined
        if (extreme) {
          ASSERT_EQ(z, op == Operator::kMin ? std::min(x, y) : std::max(x, y));
          continue;
        }
        const long double exact = op == Operator::kSum ? x + y : x * y;
        if (std::isnan(exact)) {
          ASSERT_TRUE(std::isnan(z));
        } else {
          ASSERT_EQ(got[i].bits, nearest<Half>(exact).bits)
              << table->name << " " << to_string(op) << ": " << x << ", " << y << " gives " << z;
        }
      }
    }
  }
}

TEST(Reductions, HalvesAreRoundedToTheNearest) {
  check_all_halves<float16>(ElementType::kFloat16);
  check_all_halves<bfloat16>(ElementType::kBfloat16);
}

template <class T>
void check_extremes(ElementType type) {
  const auto combine = [&](Operator op, indexed<T> a, indexed<T> b, bool reversed) {
    const Reduction reduction = find_reduction(type, op).value();
    (reversed ? reduction.combine_reversed : reduction.combine)(&a, &b, sizeof a, nullptr);
    return a;
  };
  for (const bool reversed : {false, true}) {
    for (const Operator op : {Operator::kMinLoc, Operator::kMaxLoc}) {
      EXPECT_EQ(combine(op, {5, 9}, {5, 3}, reversed).index, 3);
      EXPECT_EQ(combine(op, {5, -9}, {5, 3}, reversed).index, -9);
      const auto other = combine(op, {5, 1}, {6, 0}, reversed);
      EXPECT_EQ(other.index, op == Operator::kMinLoc ? 1 : 0);
      if constexpr (std::is_floating_point_v<T>) {
        const T nan = std::numeric_limits<T>::quiet_NaN();
        EXPECT_EQ(combine(op, {nan, 7}, {-1, 2}, reversed).index, 7);
        EXPECT_EQ(combine(op, {1, 7}, {nan, 8}, reversed).index, 8);
        EXPECT_EQ(combine(op, {nan, 7}, {nan, 6}, reversed).index, 6);
        EXPECT_EQ(combine(op, {0, 7}, {-T{0}, 6}, reversed).index, 6) << "equal";
      }
    }
  }
}

TEST(Reductions, ExtremesOfEqualValuesHaveTheLowerIndexAndNanGoesFirst) {
  check_extremes<float>(ElementType::kFloatInt);
  check_extremes<double>(ElementType::kDoubleInt);
  check_extremes<long>(ElementType::kLongInt);
  check_extremes<int>(ElementType::kIntInt);
  check_extremes<short>(ElementType::kShortInt);
  check_extremes<long double>(ElementType::kLongDoubleInt);
}

TEST(Reductions, TheLeftOneOfNumbersThatAreAlikeIsTakenEitherWay) {
  const Reduction least = find_reduction(ElementType::kDouble, Operator::kMin).value();
  double target = 0.0, source = -0.0;
  least.combine(&target, &source, sizeof target, nullptr);
  EXPECT_FALSE(std::signbit(target));
  least.combine_reversed(&target, &source, sizeof target, nullptr);
  EXPECT_TRUE(std::signbit(target));
}

TEST(Reductions, TruthIsAnythingButZero) {
  const Reduction conjunction = find_reduction(ElementType::kBool, Operator::kAnd).value();
  std::array<uint8_t, 3> target = {2, 4, 0}, source = {1, 0, 8};
  conjunction.combine(target.data(), source.data(), target.size(), nullptr);
  EXPECT_EQ(target, (std::array<uint8_t, 3>{1, 0, 0}));
}

}  // namespace
}  // namespace ibcoll
