#pragma once
/// Operators on arrays of numbers: what OpKind::kReduce computes.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/result.h"

namespace ibcoll {

/// Types of elements, numbered as the C interface numbers them.
enum class ElementType : uint8_t {
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat,
  kDouble,
};
inline constexpr int kElementTypes = 10;

enum class Operator : uint8_t { kSum, kProduct, kMin, kMax, kBitAnd, kBitOr, kBitXor };
inline constexpr int kOperators = 7;

/// What a reduction is made of.
struct Reduction {
  /// Combines whole elements, one by one; no alignment is asked for, and the two don't overlap.
  /// Null: done. Else why it could not be done, a line that stays as long as the operator.
  using Combine = const char* (*)(void* target, const void* source, size_t bytes, void* context);

  Combine combine = nullptr;           ///< target <- target (operator) source
  Combine combine_reversed = nullptr;  ///< target <- source (operator) target
  void* context = nullptr;             ///< passed to both
  bool commutes = true;                ///< the two are the same
  uint32_t element_bytes = 1;
  uint32_t meaning = 0;  ///< 1 + 16 * element type + operator; 0: nothing is combined
};

/// Sums and products of integers wrap around. The bit operators are for integers only; other
/// combinations are refused by name. min and max of a NaN and a number are not defined.
Result<Reduction> find_reduction(ElementType type, Operator op);

const char* to_string(ElementType type);
const char* to_string(Operator op);
/// "int32", "double", ...; "sum", "product", "min", ...
Result<ElementType> parse_element_type(std::string_view text);
Result<Operator> parse_operator(std::string_view text);

}  // namespace ibcoll
