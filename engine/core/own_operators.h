#pragma once
/// Operators that the program has made, on its own elements or the engine's.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/entry_guard.h"
#include "engine/execute/reduction.h"

namespace ibcoll {

/// What the program says of one.
struct OwnOperatorDescription {
  using Function = const char* (*)(void* target, const void* source, size_t elements,
                                   void* context);

  size_t element_bytes = 0;
  /// target <- target (operator) source, target <- source (operator) target. One may be null.
  Function combine = nullptr, combine_reversed = nullptr;
  void* context = nullptr;
  void (*release)(void* context) = nullptr;  ///< when nobody uses it any more; may be null
  uint32_t identifier = 0;
  bool commutes = false;
};

/// One, as reductions use it. Lives as long as a call does that was prepared with it.
class OwnOperator {
 public:
  /// `guard`: of the context whose calls use it. It must outlive the operator.
  OwnOperator(const OwnOperatorDescription& description, const EntryGuard& guard);
  ~OwnOperator();
  OwnOperator(const OwnOperator&) = delete;
  OwnOperator& operator=(const OwnOperator&) = delete;

  /// Refused for elements of another size.
  Result<Reduction> on(ElementType type);

 private:
  template <bool kReversed>
  static const char* call(void* target, const void* source, size_t bytes, void* self);
  const char* combine(bool reversed, std::byte* target, const std::byte* source, size_t bytes);
  const char* by_way_of_copy(OwnOperatorDescription::Function function, std::byte* target,
                             const std::byte* source, size_t bytes);
  const char* from_aligned(OwnOperatorDescription::Function function, std::byte* target,
                           const std::byte* source, size_t bytes);

  OwnOperatorDescription is_;
  const EntryGuard& guard_;
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  const size_t alignment_;  ///< of elements, as far as their size says
  size_t copy_bytes_ = 0;   ///< whole elements
  std::vector<Line> copy_;  ///< of them, on their way to the function
  std::string thrown_;
};

/// Those of a context, by the numbers that the program knows them by.
class OwnOperators {
 public:
  explicit OwnOperators(const EntryGuard& guard) : guard_(guard) {}

  /// Gives its number, from kFirst + 1 on.
  Result<int> add(const OwnOperatorDescription& description);
  Status remove(int number);
  Result<std::shared_ptr<OwnOperator>> find(int number) const;
  /// How many there are.
  size_t count() const;

  static constexpr int kFirst = 0x40000000;

 private:
  /// A number is used again when so many others have been, so that a late use is refused.
  static constexpr int kSlotBits = 16, kUses = 1 << (30 - kSlotBits);
  struct Slot {
    std::shared_ptr<OwnOperator> op;
    int use = 1;
  };
  int number_of(size_t slot) const {
    return kFirst | slots_[slot].use << kSlotBits | static_cast<int>(slot);
  }

  const EntryGuard& guard_;
  std::vector<Slot> slots_;
};

}  // namespace ibcoll
