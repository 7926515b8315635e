#include "tests/lockstep/reductions.h"

#include <complex>
#include <cstring>
#include <limits>

#include "tests/lockstep/model.h"
#include "tests/lockstep/random.h"

namespace ibcoll::lockstep {
namespace {

float half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  float value = exponent == 0 ? static_cast<float>(fraction) / 16777216.0f
                              : static_cast<float>(1024 + fraction) / 33554432.0f;
  for (int i = 0; i < exponent; ++i) value *= 2;
  if (exponent == 0) return (bits >> 15) != 0 ? -value : value;
  return (bits >> 15) != 0 ? -value : value;
}

/// Of values that a half holds exactly.
uint16_t half_bits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const int exponent = static_cast<int>(bits >> 23 & 255) - 127 + 15;
  const uint32_t fraction = bits & 0x7fffff;
  if ((bits & 0x7fffffff) == 0) return sign;
  if (exponent <= 0) return static_cast<uint16_t>(sign | (fraction | 0x800000) >> (14 - exponent));
  return static_cast<uint16_t>(sign | exponent << 10 | fraction >> 13);
}

struct Half {
  uint16_t bits;
  using Number = float;
  float value() const { return half_value(bits); }
  static Half of(float value) { return {half_bits(value)}; }
};
struct Brain {
  uint16_t bits;
  using Number = float;
  float value() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float result = 0;
    std::memcpy(&result, &wide, 4);
    return result;
  }
  static Brain of(float value) {
    uint32_t wide = 0;
    std::memcpy(&wide, &value, 4);
    return {static_cast<uint16_t>(wide >> 16)};
  }
};
template <class T>
struct Plain {
  T number;
  using Number = T;
  T value() const { return number; }
  static Plain of(T value) { return {value}; }
};
template <class T>
struct Indexed {
  T value;
  int index;
};
struct Bool {
  uint8_t byte;
};

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The bytes of a number that mean something.
template <class T>
constexpr size_t kMeant = sizeof(T);
template <>
constexpr size_t kMeant<long double> = std::numeric_limits<long double>::digits == 64
                                           ? 10
                                           : sizeof(long double);

/// Writes an element, and zeros where its bytes mean nothing: those are compared, too, where nobody
/// may write.
template <class T>
void store(const T& value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
void store(const Plain<T>& value, std::byte* to) {
  std::memset(to, 0, sizeof value);
  std::memcpy(to, &value.number, kMeant<T>);
}
template <class T>
void store(const std::complex<T>& value, std::byte* to) {
  store(Plain<T>{value.real()}, to);
  store(Plain<T>{value.imag()}, to + sizeof(T));
}
template <class T>
void store(const Indexed<T>& value, std::byte* to) {
  std::memset(to, 0, sizeof value);
  std::memcpy(to, &value.value, kMeant<T>);
  std::memcpy(to + offsetof(Indexed<T>, index), &value.index, sizeof value.index);
}

/// Calls `body` with a value of the element's type.
template <class Body>
void with_type(ibcoll_type type, Body&& body) {
  switch (type) {
    case IBCOLL_INT8:
      return body(int8_t{});
    case IBCOLL_UINT8:
      return body(uint8_t{});
    case IBCOLL_INT16:
      return body(int16_t{});
    case IBCOLL_UINT16:
      return body(uint16_t{});
    case IBCOLL_INT32:
      return body(int32_t{});
    case IBCOLL_UINT32:
      return body(uint32_t{});
    case IBCOLL_INT64:
      return body(int64_t{});
    case IBCOLL_UINT64:
      return body(uint64_t{});
    case IBCOLL_FLOAT:
      return body(Plain<float>{});
    case IBCOLL_DOUBLE:
      return body(Plain<double>{});
    case IBCOLL_LONG_DOUBLE:
      return body(Plain<long double>{});
    case IBCOLL_FLOAT_COMPLEX:
      return body(std::complex<float>{});
    case IBCOLL_DOUBLE_COMPLEX:
      return body(std::complex<double>{});
    case IBCOLL_LONG_DOUBLE_COMPLEX:
      return body(std::complex<long double>{});
    case IBCOLL_BOOL:
      return body(Bool{});
    case IBCOLL_BYTE:
      return body(uint8_t{});
    case IBCOLL_FLOAT16:
      return body(Half{});
    case IBCOLL_BFLOAT16:
      return body(Brain{});
    case IBCOLL_FLOAT_INT:
      return body(Indexed<float>{});
    case IBCOLL_DOUBLE_INT:
      return body(Indexed<double>{});
    case IBCOLL_LONG_INT:
      return body(Indexed<long>{});
    case IBCOLL_INT_INT:
      return body(Indexed<int>{});
    case IBCOLL_SHORT_INT:
      return body(Indexed<short>{});
    case IBCOLL_LONG_DOUBLE_INT:
      return body(Indexed<long double>{});
    case IBCOLL_OWN:
      return;
  }
}

bool is_integer(ibcoll_type type) { return type <= IBCOLL_UINT64; }
bool is_real(ibcoll_type type) {
  return (type >= IBCOLL_FLOAT && type <= IBCOLL_LONG_DOUBLE) || type == IBCOLL_FLOAT16 ||
         type == IBCOLL_BFLOAT16;
}
bool is_complex(ibcoll_type type) {
  return type >= IBCOLL_FLOAT_COMPLEX && type <= IBCOLL_LONG_DOUBLE_COMPLEX;
}
bool is_indexed(ibcoll_type type) {
  return type >= IBCOLL_FLOAT_INT && type <= IBCOLL_LONG_DOUBLE_INT;
}

uint64_t word_of(uint64_t base, size_t element) { return shuffled(base + element * kStep); }

/// A number of which sums and products of so many ranks are exact.
template <class Real>
typename Real::Number number(ibcoll_operator op, int ranks, uint64_t word) {
  using Number = typename Real::Number;
  if (op == IBCOLL_PRODUCT) {
    const Number size = sizeof(Real) == 2 && ranks > 14 ? Number{1} : static_cast<Number>(0.5);
    const Number value = (word & 1) != 0 ? Number{1} : size;
    return (word & 2) != 0 ? -value : value;
  }
  constexpr bool kShort = std::is_same_v<Real, Brain>;
  const int most = op == IBCOLL_SUM ? (kShort ? 256 / ranks : 2048 / ranks) : (kShort ? 256 : 2048);
  return static_cast<Number>(static_cast<int>(word % (2 * static_cast<uint64_t>(most) + 1)) - most);
}

template <class T>
T element_of(T, ibcoll_operator op, int, uint64_t word) {  // integers
  if (op == IBCOLL_LAND || op == IBCOLL_LOR || op == IBCOLL_LXOR)
    return (word & 3) == 0 ? T{0} : static_cast<T>(word >> 8);
  const T value = static_cast<T>(word >> 3);
  return op == IBCOLL_PRODUCT ? static_cast<T>(value | 1) : value;
}
template <class T>
Plain<T> element_of(Plain<T>, ibcoll_operator op, int ranks, uint64_t word) {
  return {number<Plain<T>>(op, ranks, word)};
}
Half element_of(Half, ibcoll_operator op, int ranks, uint64_t word) {
  return Half::of(number<Half>(op, ranks, word));
}
Brain element_of(Brain, ibcoll_operator op, int ranks, uint64_t word) {
  return Brain::of(number<Brain>(op, ranks, word));
}
Bool element_of(Bool, ibcoll_operator, int, uint64_t word) {
  return {(word & 3) == 0 ? uint8_t{0} : static_cast<uint8_t>(word >> 8)};
}
template <class T>
std::complex<T> element_of(std::complex<T>, ibcoll_operator op, int ranks, uint64_t word) {
  if (op == IBCOLL_PRODUCT) {
    const T one = (word & 2) != 0 ? T{-1} : T{1};
    return (word & 1) != 0 ? std::complex<T>(one, 0) : std::complex<T>(0, one);
  }
  return {number<Plain<T>>(op, ranks, word), number<Plain<T>>(op, ranks, word >> 32)};
}
template <class T>
Indexed<T> element_of(Indexed<T>, ibcoll_operator, int, uint64_t word) {
  return {static_cast<T>(static_cast<int>(word % 17) - 8), static_cast<int>(word >> 40)};
}

template <class T>
T combined(T a, T b, ibcoll_operator op) {  // integers
  // Of what is narrower than int products may overflow an int.
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case IBCOLL_SUM:
      return static_cast<T>(x + y);
    case IBCOLL_PRODUCT:
      return static_cast<T>(x * y);
    case IBCOLL_MIN:
      return b < a ? b : a;
    case IBCOLL_MAX:
      return b > a ? b : a;
    case IBCOLL_BAND:
      return static_cast<T>(x & y);
    case IBCOLL_BOR:
      return static_cast<T>(x | y);
    case IBCOLL_BXOR:
      return static_cast<T>(x ^ y);
    case IBCOLL_LAND:
      return a != 0 && b != 0;
    case IBCOLL_LOR:
      return a != 0 || b != 0;
    case IBCOLL_LXOR:
      return (a != 0) != (b != 0);
    case IBCOLL_REPLACE:
      return b;
    default:
      return a;
  }
}
template <class Real>
Real combined_real(Real left, Real right, ibcoll_operator op) {
  const auto a = left.value(), b = right.value();
  switch (op) {
    case IBCOLL_SUM:
      return Real::of(a + b);
    case IBCOLL_PRODUCT:
      return Real::of(a * b);
    case IBCOLL_MIN:
      return b < a ? right : left;
    case IBCOLL_MAX:
      return b > a ? right : left;
    case IBCOLL_REPLACE:
      return right;
    default:
      return left;
  }
}
template <class T>
Plain<T> combined(Plain<T> a, Plain<T> b, ibcoll_operator op) {
  return combined_real(a, b, op);
}
Half combined(Half a, Half b, ibcoll_operator op) { return combined_real(a, b, op); }
Brain combined(Brain a, Brain b, ibcoll_operator op) { return combined_real(a, b, op); }
Bool combined(Bool a, Bool b, ibcoll_operator op) { return {combined(a.byte, b.byte, op)}; }
template <class T>
std::complex<T> combined(std::complex<T> a, std::complex<T> b, ibcoll_operator op) {
  switch (op) {
    case IBCOLL_SUM:
      return {a.real() + b.real(), a.imag() + b.imag()};
    case IBCOLL_PRODUCT:
      return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
    case IBCOLL_REPLACE:
      return b;
    default:
      return a;
  }
}
template <class T>
Indexed<T> combined(Indexed<T> a, Indexed<T> b, ibcoll_operator op) {
  if (op == IBCOLL_REPLACE) return b;
  if (op == IBCOLL_NO_OP) return a;
  if (a.value == b.value) return b.index < a.index ? b : a;
  return (op == IBCOLL_MINLOC) == (b.value < a.value) ? b : a;
}

template <class T>
constexpr bool kExactBytes =
    std::is_integral_v<T> || std::is_same_v<T, Plain<float>> || std::is_same_v<T, Plain<double>> ||
    std::is_same_v<T, Half> || std::is_same_v<T, Brain> || std::is_same_v<T, Bool>;

template <class T>
bool same(const T& a, const T& b) {
  if constexpr (requires { a.index; }) {
    return a.value == b.value && a.index == b.index;
  } else if constexpr (requires { a.real(); }) {
    return a == b;
  } else if constexpr (requires { a.number; }) {
    return a.number == b.number;
  } else {
    return false;
  }
}

}  // namespace

size_t type_bytes(ibcoll_type type) {
  size_t bytes = 0;
  with_type(type, [&](auto element) { bytes = sizeof element; });
  return bytes;
}

bool has_operator(ibcoll_type type, ibcoll_operator op) {
  if (type == IBCOLL_OWN) return false;
  if (op == IBCOLL_REPLACE || op == IBCOLL_NO_OP) return true;
  if (is_integer(type)) return op <= IBCOLL_LXOR;
  if (is_real(type)) return op <= IBCOLL_MAX;
  if (is_complex(type)) return op <= IBCOLL_PRODUCT;
  if (type == IBCOLL_BOOL) return op >= IBCOLL_LAND && op <= IBCOLL_LXOR;
  if (type == IBCOLL_BYTE) return op >= IBCOLL_BAND && op <= IBCOLL_BXOR;
  return is_indexed(type) && (op == IBCOLL_MINLOC || op == IBCOLL_MAXLOC);
}

void write_elements(const Program& program, const CallSpec& spec, int ranks, uint64_t base,
                    size_t from, size_t elements, std::byte* to) {
  if (spec.own_operator >= 0) {
    const OperatorSpec& own = program.operators[static_cast<size_t>(spec.own_operator)];
    fill_block(base, from * own.element_bytes, to, elements * own.element_bytes);
    // Maps that lose nothing.
    if (own.kind == OperatorSpec::Kind::kAffine) {
      for (size_t i = 0; i < elements; ++i) to[i * own.element_bytes] |= std::byte{1};
    }
    return;
  }
  // The bits of integers are as good as any.
  const bool logical = spec.op == IBCOLL_LAND || spec.op == IBCOLL_LOR || spec.op == IBCOLL_LXOR;
  if ((is_integer(spec.type) || spec.type == IBCOLL_BYTE) && !logical &&
      spec.op != IBCOLL_PRODUCT) {
    const size_t bytes = type_bytes(spec.type);
    return fill_block(base, from * bytes, to, elements * bytes);
  }
  with_type(spec.type, [&](auto element) {
    using T = decltype(element);
    for (size_t i = 0; i < elements; ++i) {
      store(element_of(element, spec.op, ranks, word_of(base, from + i)), to + i * sizeof(T));
    }
  });
}

void combine(const Program& program, const CallSpec& spec, std::byte* left, const std::byte* right,
             size_t elements) {
  if (spec.own_operator >= 0) {
    auto own = program.operators[static_cast<size_t>(spec.own_operator)];
    combine_own(left, right, elements, &own);
    return;
  }
  with_type(spec.type, [&](auto element) {
    using T = decltype(element);
    const auto all = [&](ibcoll_operator op) {
      for (size_t i = 0; i < elements; ++i) {
        const T value = combined(load<T>(left + i * sizeof(T)), load<T>(right + i * sizeof(T)), op);
        std::memcpy(left + i * sizeof(T), &value, sizeof value);
      }
    };
    // Each a loop of its own, of which the compiler makes vectors.
    switch (spec.op) {
      case IBCOLL_SUM:
        return all(IBCOLL_SUM);
      case IBCOLL_MIN:
        return all(IBCOLL_MIN);
      case IBCOLL_MAX:
        return all(IBCOLL_MAX);
      case IBCOLL_BXOR:
        return all(IBCOLL_BXOR);
      default:
        return all(spec.op);
    }
  });
}

void forgive(const CallSpec& spec, std::byte* expected, const std::byte* actual, size_t elements) {
  with_type(spec.type, [&](auto element) {
    using T = decltype(element);
    if constexpr (!kExactBytes<T>) {
      for (size_t i = 0; i < elements; ++i) {
        if (same(load<T>(expected + i * sizeof(T)), load<T>(actual + i * sizeof(T))))
          std::memcpy(expected + i * sizeof(T), actual + i * sizeof(T), sizeof(T));
      }
    }
  });
}

size_t element_bytes(const Program& program, const CallSpec& spec) {
  if (spec.own_operator >= 0)
    return program.operators[static_cast<size_t>(spec.own_operator)].element_bytes;
  return type_bytes(spec.type);
}

namespace {

void add(std::byte* target, const std::byte* left, const std::byte* right, size_t bytes) {
  uint64_t carry = 0;
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    const auto a = load<uint64_t>(left + i), b = load<uint64_t>(right + i);
    const unsigned __int128 sum = static_cast<unsigned __int128>(a) + b + carry;
    const auto low = static_cast<uint64_t>(sum);
    std::memcpy(target + i, &low, 8);
    carry = static_cast<uint64_t>(sum >> 64);
  }
  for (; i < bytes; ++i) {
    const uint64_t sum =
        std::to_integer<uint64_t>(left[i]) + std::to_integer<uint64_t>(right[i]) + carry;
    target[i] = static_cast<std::byte>(sum);
    carry = sum >> 8;
  }
}

/// left after right: x -> left.a (right.a x + right.b) + left.b.
void compose(std::byte* target, const std::byte* left, const std::byte* right, size_t bytes) {
  const unsigned a = std::to_integer<unsigned>(left[0]), by = std::to_integer<unsigned>(right[0]);
  for (size_t i = 1; i < bytes; ++i) {
    target[i] = static_cast<std::byte>(a * std::to_integer<unsigned>(right[i]) +
                                       std::to_integer<unsigned>(left[i]));
  }
  target[0] = static_cast<std::byte>(a * by);
}

void apply(const OperatorSpec& own, std::byte* target, const std::byte* left,
           const std::byte* right, size_t elements) {
  const size_t bytes = own.element_bytes;
  for (size_t i = 0; i < elements * bytes; i += bytes) {
    if (own.kind == OperatorSpec::Kind::kAdd) {
      add(target + i, left + i, right + i, bytes);
    } else {
      compose(target + i, left + i, right + i, bytes);
    }
  }
}

}  // namespace

const char* combine_own(void* target, const void* source, size_t elements, void* context) {
  auto* to = static_cast<std::byte*>(target);
  apply(*static_cast<const OperatorSpec*>(context), to, to, static_cast<const std::byte*>(source),
        elements);
  return nullptr;
}

const char* combine_own_reversed(void* target, const void* source, size_t elements, void* context) {
  auto* to = static_cast<std::byte*>(target);
  apply(*static_cast<const OperatorSpec*>(context), to, static_cast<const std::byte*>(source), to,
        elements);
  return nullptr;
}

}  // namespace ibcoll::lockstep
