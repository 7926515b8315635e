#pragma once
/// Operators on arrays of elements: what OpKind::kReduce computes.

#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/execute/element_types.h"

namespace ibcoll {

/// What a reduction is made of.
struct Reduction {
  Combine combine = nullptr;           ///< target <- target (operator) source
  Combine combine_reversed = nullptr;  ///< target <- source (operator) target
  void* context = nullptr;             ///< passed to both
  /// False: of two ranks' data those of the lower one stand on the left, and the reduction is made
  /// in order (AlgorithmOptions::ordered).
  bool commutes = true;
  uint32_t element_bytes = 1;
  uint64_t meaning = 0;  ///< what ranks must mean alike, as meaning_of() has it; 0: nothing

  ElementType element() const { return static_cast<ElementType>((meaning & kCode) / 16); }
  Operator op() const { return static_cast<Operator>(meaning % 16); }
  /// What the program calls its own operator; 0: nothing, or it is the engine's.
  uint32_t identifier() const { return static_cast<uint32_t>(meaning >> 32); }

  static constexpr uint32_t kMostElementBytes = 1u << 22;  ///< so that they fit a meaning
  static uint64_t meaning_of(ElementType type, Operator op, uint32_t element_bytes,
                             uint32_t identifier = 0) {
    return uint64_t{identifier} << 32 | uint64_t{element_bytes} << 9 |
           (static_cast<uint64_t>(type) * 16 + static_cast<uint64_t>(op));
  }

 private:
  static constexpr uint64_t kCode = 511;
};

/// An operator of the engine's on elements of the engine's. What a type is not for is refused by
/// name, with the operators that it has. Sums and products of integers wrap around. docs/api.md has
/// the table, and what is said of NaN, rounding and ties.
Result<Reduction> find_reduction(ElementType type, Operator op);

/// Whether that would find one. Neither is of the program's own.
bool has_operator(ElementType type, Operator op);

/// Bytes of an element; 0: the program's own say that themselves.
uint32_t element_bytes(ElementType type);

const char* to_string(ElementType type);
const char* to_string(Operator op);
/// "int32", "double", ...; "sum", "product", "min", ...
Result<ElementType> parse_element_type(std::string_view text);
Result<Operator> parse_operator(std::string_view text);

}  // namespace ibcoll
