#include "engine/execute/reduction.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <type_traits>

namespace ibcoll {
namespace {

constexpr std::array<const char*, kElementTypes> kTypeNames = {
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float", "double"};
constexpr std::array<const char*, kOperators> kOperatorNames = {"sum",  "product", "min", "max",
                                                                "band", "bor",     "bxor"};

/// Where arithmetic wraps around instead of being undefined, and small types are not promoted to a
/// signed one.
template <class T>
using Wrapping = std::conditional_t<std::is_floating_point_v<T>, T,
                                    std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;

template <class T, Operator kOperator>
T apply(T a, T b) {
  using W = Wrapping<T>;
  if constexpr (kOperator == Operator::kSum) return static_cast<T>(W(a) + W(b));
  if constexpr (kOperator == Operator::kProduct) return static_cast<T>(W(a) * W(b));
  if constexpr (kOperator == Operator::kMin) return b < a ? b : a;
  if constexpr (kOperator == Operator::kMax) return a < b ? b : a;
  if constexpr (kOperator == Operator::kBitAnd) return static_cast<T>(a & b);
  if constexpr (kOperator == Operator::kBitOr) return static_cast<T>(a | b);
  if constexpr (kOperator == Operator::kBitXor) return static_cast<T>(a ^ b);
}

template <class T, Operator kOperator>
const char* combine(void* target, const void* source, size_t bytes, void*) {
  // Users' buffers need not be aligned, and hold whatever the users say.
  using Element [[gnu::aligned(1), gnu::may_alias]] = T;
  auto* to = static_cast<Element*>(target);
  const auto* from = static_cast<const Element*>(source);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) to[i] = apply<T, kOperator>(to[i], from[i]);
  return nullptr;
}

template <class T>
Reduction::Combine function_of(Operator op) {
  switch (op) {
    case Operator::kSum:
      return combine<T, Operator::kSum>;
    case Operator::kProduct:
      return combine<T, Operator::kProduct>;
    case Operator::kMin:
      return combine<T, Operator::kMin>;
    case Operator::kMax:
      return combine<T, Operator::kMax>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == Operator::kBitAnd) return combine<T, Operator::kBitAnd>;
    if (op == Operator::kBitOr) return combine<T, Operator::kBitOr>;
    if (op == Operator::kBitXor) return combine<T, Operator::kBitXor>;
  }
  return nullptr;
}

struct TypeEntry {
  Reduction::Combine (*function_of)(Operator);
  uint32_t bytes;
};

template <class T>
constexpr TypeEntry entry() {
  return {function_of<T>, sizeof(T)};
}

constexpr std::array<TypeEntry, kElementTypes> kTypes = {
    entry<int8_t>(),   entry<uint8_t>(), entry<int16_t>(),  entry<uint16_t>(), entry<int32_t>(),
    entry<uint32_t>(), entry<int64_t>(), entry<uint64_t>(), entry<float>(),    entry<double>()};

template <class Enum, size_t kCount>
Result<Enum> parse(const char* what, const std::array<const char*, kCount>& names,
                   std::string_view text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<Enum>(found - names.begin());
  return fail(ErrorCode::kInvalidArgument, "unknown {} '{}': one of {}", what, text,
              fmt::join(names, ", "));
}

}  // namespace

Result<Reduction> find_reduction(ElementType type, Operator op) {
  const auto t = static_cast<unsigned>(type), o = static_cast<unsigned>(op);
  if (t >= kElementTypes || o >= kOperators) {
    return fail(ErrorCode::kInvalidArgument, "no element type {} or operator {}", t, o);
  }
  Reduction reduction;
  reduction.combine = reduction.combine_reversed = kTypes[t].function_of(op);
  reduction.element_bytes = kTypes[t].bytes;
  reduction.meaning = 1 + t * 16 + o;
  if (reduction.combine == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "operator {} is not for elements of type {}",
                to_string(op), to_string(type));
  }
  return reduction;
}

const char* to_string(ElementType type) { return kTypeNames[static_cast<size_t>(type)]; }
const char* to_string(Operator op) { return kOperatorNames[static_cast<size_t>(op)]; }

Result<ElementType> parse_element_type(std::string_view text) {
  return parse<ElementType>("element type", kTypeNames, text);
}

Result<Operator> parse_operator(std::string_view text) {
  return parse<Operator>("operator", kOperatorNames, text);
}

}  // namespace ibcoll
