#pragma once
/// What elements and operators reductions know.

#include <cstddef>
#include <cstdint>

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
  kLongDouble,
  kFloatComplex,
  kDoubleComplex,
  kLongDoubleComplex,
  kBool,
  kByte,
  kFloat16,
  kBfloat16,
  // A value and an index, laid out as C lays out a struct of them.
  kFloatInt,
  kDoubleInt,
  kLongInt,
  kIntInt,
  kShortInt,
  kLongDoubleInt,
  kOwn,  ///< of the program's
};
inline constexpr int kElementTypes = 24;  ///< that the engine has operators for

enum class Operator : uint8_t {
  kSum,
  kProduct,
  kMin,
  kMax,
  kBitAnd,
  kBitOr,
  kBitXor,
  kAnd,
  kOr,
  kXor,
  kMinLoc,
  kMaxLoc,
  kReplace,
  kNoOp,
  kOwn,  ///< of the program's
};
inline constexpr int kOperators = 14;  ///< of the engine's

/// Combines whole elements, one by one; no alignment is asked for, and the two don't overlap.
/// Null: done. Else why it could not be done, a line that stays as long as the operator.
using Combine = const char* (*)(void* target, const void* source, size_t bytes, void* context);

}  // namespace ibcoll
