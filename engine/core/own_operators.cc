#include "engine/core/own_operators.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "engine/base/thread_end.h"

namespace ibcoll {
namespace {

/// Small enough to stay in the nearest cache.
constexpr size_t kCopiedBytes = 8192;
/// All memory that operators are called with is aligned to that, and to elements of that size.
constexpr size_t kLeastAlignment = 8;

}  // namespace

OwnOperator::OwnOperator(const OwnOperatorDescription& description, const EntryGuard& guard)
    : is_(description),
      guard_(guard),
      alignment_(std::min<size_t>(is_.element_bytes & -is_.element_bytes, alignof(Line))) {
  if (is_.commutes) {
    if (is_.combine == nullptr) is_.combine = is_.combine_reversed;
    if (is_.combine_reversed == nullptr) is_.combine_reversed = is_.combine;
  }
  copy_bytes_ = std::max<size_t>(kCopiedBytes / is_.element_bytes, 1) * is_.element_bytes;
  if (is_.combine == nullptr || is_.combine_reversed == nullptr || alignment_ > kLeastAlignment)
    copy_.resize((copy_bytes_ + sizeof(Line) - 1) / sizeof(Line));
}

OwnOperator::~OwnOperator() {
  if (is_.release == nullptr) return;
  const InsideHandler inside_handler(guard_);
  is_.release(is_.context);
}

Result<Reduction> OwnOperator::on(ElementType type) {
  const auto bytes = static_cast<uint32_t>(is_.element_bytes);
  if (type != ElementType::kOwn && element_bytes(type) != bytes) {
    return fail(ErrorCode::kInvalidArgument,
                "the operator is for elements of {} bytes, those of type {} have {}", bytes,
                to_string(type), element_bytes(type));
  }
  Reduction reduction;
  reduction.combine = call<false>;
  reduction.combine_reversed = call<true>;
  reduction.context = this;
  reduction.commutes = is_.commutes;
  reduction.element_bytes = bytes;
  reduction.meaning = Reduction::meaning_of(type, Operator::kOwn, bytes, is_.identifier);
  return reduction;
}

template <bool kReversed>
const char* OwnOperator::call(void* target, const void* source, size_t bytes, void* self) {
  if (bytes == 0) return nullptr;
  OwnOperator& op = *static_cast<OwnOperator*>(self);
  const InsideHandler inside_handler(op.guard_);
  try {
    return op.combine(kReversed, static_cast<std::byte*>(target),
                      static_cast<const std::byte*>(source), bytes);
  } catch (const std::exception& thrown) {
    op.thrown_ = thrown.what();
  } catch (...) {
    if (thread_ends()) throw;
    op.thrown_ = "what was thrown is no std::exception";
  }
  return op.thrown_.c_str();
}

const char* OwnOperator::combine(bool reversed, std::byte* target, const std::byte* source,
                                 size_t bytes) {
  const auto function = reversed ? is_.combine_reversed : is_.combine;
  const bool aligned =
      alignment_ <= kLeastAlignment || reinterpret_cast<uintptr_t>(source) % alignment_ == 0;
  if (function != nullptr && aligned)
    return function(target, source, bytes / is_.element_bytes, is_.context);
  if (function != nullptr) return from_aligned(function, target, source, bytes);
  return by_way_of_copy(reversed ? is_.combine : is_.combine_reversed, target, source, bytes);
}

/// What goes the other way has the source for its target.
const char* OwnOperator::by_way_of_copy(OwnOperatorDescription::Function function,
                                        std::byte* target, const std::byte* source, size_t bytes) {
  std::byte* const copy = copy_.front().bytes;
  for (size_t begin = 0; begin < bytes; begin += copy_bytes_) {
    const size_t piece = std::min(copy_bytes_, bytes - begin);
    std::memcpy(copy, source + begin, piece);
    const char* const failure =
        function(copy, target + begin, piece / is_.element_bytes, is_.context);
    if (failure != nullptr) return failure;
    std::memcpy(target + begin, copy, piece);
  }
  return nullptr;
}

/// Data that are combined where they have come in a message begin behind its header.
const char* OwnOperator::from_aligned(OwnOperatorDescription::Function function, std::byte* target,
                                      const std::byte* source, size_t bytes) {
  std::byte* const copy = copy_.front().bytes;
  for (size_t begin = 0; begin < bytes; begin += copy_bytes_) {
    const size_t piece = std::min(copy_bytes_, bytes - begin);
    std::memcpy(copy, source + begin, piece);
    const char* const failure =
        function(target + begin, copy, piece / is_.element_bytes, is_.context);
    if (failure != nullptr) return failure;
  }
  return nullptr;
}

Result<int> OwnOperators::add(const OwnOperatorDescription& description) {
  if (description.combine == nullptr && description.combine_reversed == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "the operator has no function: combine and combine_reversed are null");
  }
  if (description.element_bytes == 0 || description.element_bytes > Reduction::kMostElementBytes) {
    return fail(ErrorCode::kInvalidArgument,
                "the operator's elements have {} bytes: they must have 1 to {}",
                description.element_bytes, Reduction::kMostElementBytes);
  }
  auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.op; });
  if (free == slots_.end()) {
    if (slots_.size() == size_t{1} << kSlotBits)
      return fail(ErrorCode::kNoMemory, "there are {} operators already", slots_.size());
    free = slots_.emplace(slots_.end());
  }
  auto made = std::make_shared<OwnOperator>(description, guard_);
  free->op = std::move(made);
  return number_of(static_cast<size_t>(free - slots_.begin()));
}

Status OwnOperators::remove(int number) {
  IBCOLL_TRY(find(number));
  Slot& slot = slots_[static_cast<size_t>(number) % (size_t{1} << kSlotBits)];
  slot.use = slot.use % (kUses - 1) + 1;
  slot.op.reset();
  return {};
}

Result<std::shared_ptr<OwnOperator>> OwnOperators::find(int number) const {
  const size_t slot = static_cast<size_t>(number) % (size_t{1} << kSlotBits);
  if (number >= kFirst && slot < slots_.size() && slots_[slot].op && number_of(slot) == number)
    return slots_[slot].op;
  return fail(ErrorCode::kInvalidArgument,
              "operator {} is none of this context's: it was freed, or never made", number);
}

size_t OwnOperators::count() const {
  return static_cast<size_t>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& s) { return s.op != nullptr; }));
}

}  // namespace ibcoll
