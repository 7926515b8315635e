#pragma once
/// The loops of all reductions. Several files include this, each compiled with other instructions,
/// and have loops of their own: nothing here, nor what is used here, may be a function that the
/// linker could take from another of them, as inline functions with a name are.

#include <type_traits>

#include "engine/execute/half_floats.h"
#include "engine/execute/reduction_complex.h"
#include "engine/execute/reduction_kernels.h"
#include "engine/execute/reduction_pairs.h"

namespace ibcoll {
namespace {
// Each source has its own, of its instructions. NOLINTBEGIN(misc-definitions-in-headers)

/// Where arithmetic wraps around instead of being undefined, and small types are not promoted to a
/// signed one.
template <class T>
struct Wrapping {
  using Type = T;
};
template <>
struct Wrapping<uint8_t> {
  using Type = uint32_t;
};
template <>
struct Wrapping<uint16_t> {
  using Type = uint32_t;
};

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? b : a;
  }
};
struct BitAnd {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a != 0 && b != 0);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>((a | b) != 0);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>((a != 0) != (b != 0));
  }
};
template <class Op>
struct Reversed {
  template <class T>
  static T apply(T a, T b) {
    return Op::apply(b, a);
  }
};

/// Users' buffers need not be aligned, and hold whatever the users say.
template <class T>
struct Unaligned {
  using Type [[gnu::aligned(1), gnu::may_alias]] = T;
};

/// So many bytes before what is written stands at the beginning of a cache line: vectors that cross
/// lines take twice as long.
template <size_t kElement>
size_t before_line(const void* target, size_t bytes) {
  constexpr size_t kLine = 64, kWorthIt = 2048;
  const size_t gap = (kLine - reinterpret_cast<uintptr_t>(target) % kLine) % kLine;
  return bytes < kWorthIt || gap % kElement != 0 ? 0 : gap;
}

/// Calls `loop` for what stands before a line, and for the rest.
template <size_t kElement, class T>
const char* in_lines(void (*loop)(T*, const T*, size_t), void* target, const void* source,
                     size_t bytes) {
  auto* const to = static_cast<unsigned char*>(target);
  const auto* const from = static_cast<const unsigned char*>(source);
  const size_t head = before_line<kElement>(target, bytes);
  if (head != 0) loop(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), head / sizeof(T));
  loop(reinterpret_cast<T*>(to + head), reinterpret_cast<const T*>(from + head),
       (bytes - head) / sizeof(T));
  return nullptr;
}

template <class T, class Op>
void combine_all(typename Unaligned<T>::Type* __restrict to,
                 const typename Unaligned<T>::Type* __restrict from, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = Op::template apply<T>(to[i], from[i]);
}
template <class T, class Op>
const char* combine(void* target, const void* source, size_t bytes, void*) {
  return in_lines<sizeof(T), typename Unaligned<T>::Type>(combine_all<T, Op>, target, source,
                                                          bytes);
}

/// Bytes, which no instruction of x86 multiplies, as halves of words.
void multiply_all_bytes(unsigned char* __restrict to, const unsigned char* __restrict from,
                        size_t bytes) {
  size_t at = 0;
  for (; at + kVectorBytes <= bytes; at += kVectorBytes) {
    const auto x = load<uint16_t>(to + at), y = load<uint16_t>(from + at);
    store(to + at, (x * y & 0xff) | (x >> 8) * (y & 0xff00));
  }
  for (; at < bytes; ++at) to[at] = Product::apply(to[at], from[at]);
}
const char* multiply_bytes(void* target, const void* source, size_t bytes, void*) {
  return in_lines<1, unsigned char>(multiply_all_bytes, target, source, bytes);
}

template <class T>
const char* multiply_complex(void* target, const void* source, size_t bytes, void*) {
  return in_lines<2 * sizeof(T), unsigned char>(multiply_all<T>, target, source, bytes);
}

/// Halves are combined as floats, which are more than twice as long: rounding twice is rounding
/// once.
template <class Half, class Op>
struct AsFloats {
#ifdef __AVX2__
  static constexpr bool kHasVectors = true;
#else
  static constexpr bool kHasVectors = std::is_same_v<Half, Bfloat16>;
#endif
  static void combine(unsigned char* to, const unsigned char* from) {
    const Widened x = widen(Half{}, to), y = widen(Half{}, from);
    narrow(Half{}, {Op::apply(x.first, y.first), Op::apply(x.second, y.second)}, to);
  }
};
/// Integers do for the least and the greatest ones. `kReversed`: the source stands on the left.
template <class Half, bool kLeast, bool kReversed>
struct Extreme {
  static constexpr bool kHasVectors = true;
  static void combine(unsigned char* to, const unsigned char* from) {
    const auto a = load<int16_t>(kReversed ? from : to), b = load<int16_t>(kReversed ? to : from);
    store(to, select(kLeast ? less(Half{}, b, a) : less(Half{}, a, b), b, a));
  }
};

/// `Wide` combines vectors of halves, `Op` floats.
template <class Half, class Wide, class Op>
void combine_all_halves(unsigned char* __restrict to, const unsigned char* __restrict from,
                        size_t bytes) {
  size_t at = 0;
  if constexpr (Wide::kHasVectors) {
    for (; at + kVectorBytes <= bytes; at += kVectorBytes) Wide::combine(to + at, from + at);
  }
  for (; at < bytes; at += 2) {
    uint16_t x, y;
    __builtin_memcpy(&x, to + at, sizeof x);
    __builtin_memcpy(&y, from + at, sizeof y);
    x = static_cast<uint16_t>(
        Half::from_float(Op::template apply<float>(Half::to_float(x), Half::to_float(y))));
    __builtin_memcpy(to + at, &x, sizeof x);
  }
}
template <class Half, class Wide, class Op>
const char* combine_halves(void* target, const void* source, size_t bytes, void*) {
  return in_lines<2, unsigned char>(combine_all_halves<Half, Wide, Op>, target, source, bytes);
}

template <class T, class Order>
const char* take_extreme(void* target, const void* source, size_t bytes, void*) {
  return in_lines<sizeof(Pair<T>), unsigned char>(extremes_all<T, Order>, target, source, bytes);
}

const char* take_source(void* target, const void* source, size_t bytes, void*) {
  // Parts of no elements have no addresses either, which memcpy must not be given.
  if (bytes > 0) __builtin_memcpy(target, source, bytes);
  return nullptr;
}
const char* keep_target(void*, const void*, size_t, void*) { return nullptr; }

using Row = ReductionKernels[kOperators];

template <class T, class Op>
constexpr ReductionKernels both_ways() {
  return {combine<T, Op>, combine<T, Op>};
}
/// Of numbers that are alike and yet differ, such as 0 and -0, the left one is taken.
template <class T, class Op>
constexpr ReductionKernels each_way() {
  return {combine<T, Op>, combine<T, Reversed<Op>>};
}

constexpr ReductionKernels& at(Row& row, Operator op) { return row[static_cast<int>(op)]; }

constexpr void add_moves(Row& row) {
  at(row, Operator::kReplace) = {take_source, keep_target};
  at(row, Operator::kNoOp) = {keep_target, take_source};
}

constexpr void add_bits(Row& row) {
  // Bit by bit, so all lengths are alike.
  at(row, Operator::kBitAnd) = both_ways<uint8_t, BitAnd>();
  at(row, Operator::kBitOr) = both_ways<uint8_t, BitOr>();
  at(row, Operator::kBitXor) = both_ways<uint8_t, BitXor>();
}

template <class Unsigned>
constexpr void add_logic(Row& row) {
  at(row, Operator::kAnd) = both_ways<Unsigned, And>();
  at(row, Operator::kOr) = both_ways<Unsigned, Or>();
  at(row, Operator::kXor) = both_ways<Unsigned, Xor>();
}

/// `Unsigned`: as long as `T`, which is an integer.
template <class T, class Unsigned>
constexpr void add_integer(Row& row) {
  at(row, Operator::kSum) = both_ways<Unsigned, Sum>();
  at(row, Operator::kProduct) = both_ways<Unsigned, Product>();
  if (sizeof(T) == 1 && kVectorBytes > 16)
    at(row, Operator::kProduct) = {multiply_bytes, multiply_bytes};
  at(row, Operator::kMin) = both_ways<T, Min>();
  at(row, Operator::kMax) = both_ways<T, Max>();
  add_bits(row);
  add_logic<Unsigned>(row);
  add_moves(row);
}

template <class T>
constexpr void add_floating(Row& row) {
  at(row, Operator::kSum) = both_ways<T, Sum>();
  at(row, Operator::kProduct) = both_ways<T, Product>();
  at(row, Operator::kMin) = each_way<T, Min>();
  at(row, Operator::kMax) = each_way<T, Max>();
  add_moves(row);
}

template <class Half, class Op>
constexpr ReductionKernels both_ways_of_halves() {
  return {combine_halves<Half, AsFloats<Half, Op>, Op>,
          combine_halves<Half, AsFloats<Half, Op>, Op>};
}
template <class Half, bool kLeast, class Op>
constexpr ReductionKernels each_way_of_halves() {
  return {combine_halves<Half, Extreme<Half, kLeast, false>, Op>,
          combine_halves<Half, Extreme<Half, kLeast, true>, Reversed<Op>>};
}

template <class Half>
constexpr void add_half(Row& row) {
  at(row, Operator::kSum) = both_ways_of_halves<Half, Sum>();
  at(row, Operator::kProduct) = both_ways_of_halves<Half, Product>();
  at(row, Operator::kMin) = each_way_of_halves<Half, true, Min>();
  at(row, Operator::kMax) = each_way_of_halves<Half, false, Max>();
  add_moves(row);
}

template <class T>
constexpr void add_complex(Row& row) {
  at(row, Operator::kSum) = both_ways<T, Sum>();
  at(row, Operator::kProduct) = {multiply_complex<T>, multiply_complex<T>};
  add_moves(row);
}

template <class T>
constexpr void add_pair(Row& row) {
  at(row, Operator::kMinLoc) = {take_extreme<T, Lower>, take_extreme<T, Lower>};
  at(row, Operator::kMaxLoc) = {take_extreme<T, Higher>, take_extreme<T, Higher>};
  add_moves(row);
}

constexpr KernelTable make_table(const char* name) {
  KernelTable table{name, {}};
  const auto row = [&table](ElementType type) -> Row& { return table.of[static_cast<int>(type)]; };
  add_integer<int8_t, uint8_t>(row(ElementType::kInt8));
  add_integer<uint8_t, uint8_t>(row(ElementType::kUint8));
  add_integer<int16_t, uint16_t>(row(ElementType::kInt16));
  add_integer<uint16_t, uint16_t>(row(ElementType::kUint16));
  add_integer<int32_t, uint32_t>(row(ElementType::kInt32));
  add_integer<uint32_t, uint32_t>(row(ElementType::kUint32));
  add_integer<int64_t, uint64_t>(row(ElementType::kInt64));
  add_integer<uint64_t, uint64_t>(row(ElementType::kUint64));
  add_floating<float>(row(ElementType::kFloat));
  add_floating<double>(row(ElementType::kDouble));
  add_floating<long double>(row(ElementType::kLongDouble));
  add_complex<float>(row(ElementType::kFloatComplex));
  add_complex<double>(row(ElementType::kDoubleComplex));
  add_complex<long double>(row(ElementType::kLongDoubleComplex));
  add_logic<uint8_t>(row(ElementType::kBool));
  add_moves(row(ElementType::kBool));
  add_bits(row(ElementType::kByte));
  add_moves(row(ElementType::kByte));
  add_half<Float16>(row(ElementType::kFloat16));
  add_half<Bfloat16>(row(ElementType::kBfloat16));
  add_pair<float>(row(ElementType::kFloatInt));
  add_pair<double>(row(ElementType::kDoubleInt));
  add_pair<long>(row(ElementType::kLongInt));
  add_pair<int>(row(ElementType::kIntInt));
  add_pair<short>(row(ElementType::kShortInt));
  add_pair<long double>(row(ElementType::kLongDoubleInt));
  return table;
}

// NOLINTEND(misc-definitions-in-headers)
}  // namespace
}  // namespace ibcoll
