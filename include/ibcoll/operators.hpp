#pragma once
/// @file
/// Of the C++ interface: what reductions combine, and operators of the program's own. Included by
/// ibcoll.hpp.

#include <array>
#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "ibcoll/basics.hpp"
#include "ibcoll/ibcoll.h"

namespace ibcoll {

/// The bits of an IBCOLL_FLOAT16, for compilers that have no such type.
/// @ingroup cpp
struct float16 {
  uint16_t bits;  ///< sign, 5 of exponent, 10 of fraction
};
/// The bits of an IBCOLL_BFLOAT16.
/// @ingroup cpp
struct bfloat16 {
  uint16_t bits;  ///< the upper half of a float's
};
/// What IBCOLL_MINLOC and IBCOLL_MAXLOC combine, of float, double, long, int, short or long double.
/// @ingroup cpp
template <class T>
struct indexed {
  T value;    ///< which is compared
  int index;  ///< where it is
};

/// @cond
namespace detail {
template <class T>
constexpr ibcoll_type kTypeOf = IBCOLL_OWN;
template <>
inline constexpr ibcoll_type kTypeOf<float> = IBCOLL_FLOAT;
template <>
inline constexpr ibcoll_type kTypeOf<double> = IBCOLL_DOUBLE;
template <>
inline constexpr ibcoll_type kTypeOf<long double> = IBCOLL_LONG_DOUBLE;
template <>
inline constexpr ibcoll_type kTypeOf<std::complex<float>> = IBCOLL_FLOAT_COMPLEX;
template <>
inline constexpr ibcoll_type kTypeOf<std::complex<double>> = IBCOLL_DOUBLE_COMPLEX;
template <>
inline constexpr ibcoll_type kTypeOf<std::complex<long double>> = IBCOLL_LONG_DOUBLE_COMPLEX;
template <>
inline constexpr ibcoll_type kTypeOf<bool> = IBCOLL_BOOL;
template <>
inline constexpr ibcoll_type kTypeOf<std::byte> = IBCOLL_BYTE;
template <>
inline constexpr ibcoll_type kTypeOf<float16> = IBCOLL_FLOAT16;
template <>
inline constexpr ibcoll_type kTypeOf<bfloat16> = IBCOLL_BFLOAT16;
template <>
inline constexpr ibcoll_type kTypeOf<indexed<float>> = IBCOLL_FLOAT_INT;
template <>
inline constexpr ibcoll_type kTypeOf<indexed<double>> = IBCOLL_DOUBLE_INT;
template <>
inline constexpr ibcoll_type kTypeOf<indexed<long>> = IBCOLL_LONG_INT;
template <>
inline constexpr ibcoll_type kTypeOf<indexed<int>> = IBCOLL_INT_INT;
template <>
inline constexpr ibcoll_type kTypeOf<indexed<short>> = IBCOLL_SHORT_INT;
template <>
inline constexpr ibcoll_type kTypeOf<indexed<long double>> = IBCOLL_LONG_DOUBLE_INT;
}  // namespace detail
/// @endcond

/// The ibcoll_type of a C++ type; IBCOLL_OWN, which operators of the program's own are for alone,
/// where the library has none.
/// @ingroup cpp
template <class T>
constexpr ibcoll_type type_of() {
  static_assert(std::is_trivially_copyable_v<T>, "other ranks read and write these bytes");
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8) {
    constexpr int size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6;
    return static_cast<ibcoll_type>(size + (std::is_unsigned_v<T> ? 1 : 0));
  } else {
    return detail::kTypeOf<T>;
  }
}

/// What an operator of the program's own is, beside its function; the same on all ranks.
/// @ingroup cpp
struct operator_options {
  bool commutes = false;    ///< f(a, b) is f(b, a): else ranks are combined in their order
  uint32_t identifier = 0;  ///< tells operators apart, see ibcoll_operator_description; 0: nothing
};

/// An operator of the program's own on elements of type T, which reductions take where they take
/// an ibcoll_operator. Requests that were prepared with it keep what they need of it; else it is
/// freed with the object, which must not outlive the context.
///
/// The function, T(const T& left, const T& right), must be associative. It runs inside of calls, or
/// in the progress thread, and must not call ibcoll. Where it throws, the group is over, and all
/// its ranks get an ibcoll::error (IBCOLL_ERR_CANCELLED) with the exception's text.
/// @ingroup cpp
template <class T>
class own_operator {
  static_assert(std::is_trivially_copyable_v<T>, "other ranks read and write these bytes");

 public:
  /// See ibcoll_operator_create().
  template <class Function>
  own_operator(ibcoll_context* context, Function function, const operator_options& o = {})
      : context_(context) {
    auto kept = std::make_unique<Function>(std::move(function));
    ibcoll_operator_description is = IBCOLL_OPERATOR_DESCRIPTION_INIT;
    is.element_bytes = sizeof(T);
    is.combine = combine<Function, false>;
    is.combine_reversed = combine<Function, true>;
    is.context = kept.get();
    is.release = [](void* unused) { delete static_cast<Function*>(unused); };
    is.identifier = o.identifier;
    is.commutes = o.commutes ? 1 : 0;
    detail::check(ibcoll_operator_create(context, &is, &number_));
    static_cast<void>(kept.release());
  }
  /// The other is none afterwards.
  own_operator(own_operator&& other) noexcept
      : context_(std::exchange(other.context_, nullptr)), number_(other.number_) {}
  /// The two change places.
  own_operator& operator=(own_operator&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(number_, other.number_);
    return *this;
  }
  /// See ibcoll_operator_free().
  ~own_operator() {
    if (context_ != nullptr) ibcoll_operator_free(context_, number_);
  }

  /// What calls take.
  operator ibcoll_operator() const { return number_; }

 private:
  /// Elements need not be aligned.
  static T load(const std::byte* element) {
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), element, sizeof(T));
    return std::bit_cast<T>(bytes);
  }
  /// What it throws the library takes for why it can't be done.
  template <class Function, bool kReversed>
  static const char* combine(void* target, const void* source, size_t elements, void* function) {
    auto& f = *static_cast<Function*>(function);
    auto* to = static_cast<std::byte*>(target);
    const auto* from = static_cast<const std::byte*>(source);
    for (size_t i = 0; i < elements; ++i, to += sizeof(T), from += sizeof(T)) {
      const T a = load(to), b = load(from);
      const T result = kReversed ? f(b, a) : f(a, b);
      std::memcpy(to, &result, sizeof(T));
    }
    return nullptr;
  }

  ibcoll_context* context_;
  ibcoll_operator number_ = IBCOLL_FIRST_OWN;
};

}  // namespace ibcoll
