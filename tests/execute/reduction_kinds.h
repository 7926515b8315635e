#pragma once
/// What there is to test of reductions: types of elements as C++ has them, their operators, and the
/// instructions that this machine can combine them with.

#include <cmath>
#include <complex>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/execute/reduction.h"
#include "engine/execute/reduction_kernels.h"

namespace ibcoll {

inline std::vector<const KernelTable*> tables() {
  std::vector<const KernelTable*> all;
  for (const auto* table = usable_kernels(); *table != nullptr; ++table) all.push_back(*table);
  return all;
}

inline const ReductionKernels& kernels_of(const KernelTable& table, ElementType type, Operator op) {
  return table.of[static_cast<int>(type)][static_cast<int>(op)];
}

/// Of 16 bits, as a number that has room for all of it.
template <class Half>
struct HalfFormat;
template <>
struct HalfFormat<float16> {
  static constexpr int kFraction = 10, kBias = 15;
};
template <>
struct HalfFormat<bfloat16> {
  static constexpr int kFraction = 7, kBias = 127;
};
template <class Half>
long double value_of(Half half) {
  constexpr int kFraction = HalfFormat<Half>::kFraction, kBias = HalfFormat<Half>::kBias;
  const int exponent = (half.bits & 0x7fff) >> kFraction;
  const int fraction = half.bits & ((1 << kFraction) - 1);
  const long double sign = half.bits & 0x8000 ? -1 : 1;
  if (exponent == 2 * kBias + 1)
    return fraction != 0 ? std::numeric_limits<long double>::quiet_NaN()
                         : sign * std::numeric_limits<long double>::infinity();
  if (exponent == 0) return sign * std::ldexp(1.0L * fraction, 1 - kBias - kFraction);
  return sign * std::ldexp(1.0L * (fraction + (1 << kFraction)), exponent - kBias - kFraction);
}

template <class T>
constexpr bool kIsPair = false;
template <class T>
constexpr bool kIsPair<indexed<T>> = true;
template <class T>
constexpr bool kIsComplex = false;
template <class T>
constexpr bool kIsComplex<std::complex<T>> = true;
template <class T>
constexpr bool kIsHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// Calls visit(T{}) for the C++ type.
template <class Visit>
void visit_type(ElementType type, Visit&& visit) {
  static const std::map<ElementType, std::function<void(Visit&)>> all = [] {
    std::map<ElementType, std::function<void(Visit&)>> of;
    const auto add = [&of](auto sample) {
      of[static_cast<ElementType>(type_of<decltype(sample)>())] = [sample](Visit& v) { v(sample); };
    };
    add(int8_t{}), add(uint8_t{}), add(int16_t{}), add(uint16_t{});
    add(int32_t{}), add(uint32_t{}), add(int64_t{}), add(uint64_t{});
    add(0.0f), add(0.0), add(0.0L), add(false), add(std::byte{}), add(float16{}), add(bfloat16{});
    add(std::complex<float>()), add(std::complex<double>()), add(std::complex<long double>());
    add(indexed<float>{}), add(indexed<double>{}), add(indexed<long>{}), add(indexed<int>{});
    add(indexed<short>{}), add(indexed<long double>{});
    return of;
  }();
  all.at(type)(visit);
}

/// What MPI allows.
inline std::set<std::string> operators_of(ElementType type) {
  std::set<std::string> all = {"replace", "no_op"};
  const auto add = [&all](std::set<std::string> some) { all.merge(some); };
  if (type <= ElementType::kUint64) {
    add({"sum", "product", "min", "max", "band", "bor", "bxor", "land", "lor", "lxor"});
  } else if (type <= ElementType::kLongDouble || type == ElementType::kFloat16 ||
             type == ElementType::kBfloat16) {
    add({"sum", "product", "min", "max"});
  } else if (type <= ElementType::kLongDoubleComplex) {
    add({"sum", "product"});
  } else if (type == ElementType::kBool) {
    add({"land", "lor", "lxor"});
  } else if (type == ElementType::kByte) {
    add({"band", "bor", "bxor"});
  } else {
    add({"minloc", "maxloc"});
  }
  return all;
}

template <class Visit>
void for_each_reduction(Visit&& visit) {
  for (int t = 0; t < kElementTypes; ++t) {
    for (int o = 0; o < kOperators; ++o) {
      const auto type = static_cast<ElementType>(t);
      const auto op = static_cast<Operator>(o);
      if (operators_of(type).contains(to_string(op))) visit(type, op);
    }
  }
}

}  // namespace ibcoll
