#pragma once
/// Programs in the little memory that allows to hold those of all ranks of thousands: what the
/// simulator needs of each item, as differences from what the items before it let expect.

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/schedule/even_records.h"
#include "engine/schedule/expand.h"
#include "engine/schedule/lane_progress.h"
#include "engine/schedule/program.h"

namespace ibcoll::sim {

/// An item as the simulator needs it: the fields of its operation, and the bytes that it moves.
class PackedItem {
 public:
  /// Numbers that go on evenly from item to item, and the two halves of the bytes (6 and 8).
  using Records = EvenRecords<9, 1u << 6 | 1u << 8>;

  PackedItem() = default;
  PackedItem(const Op& op, const std::array<uint32_t, kLanes>& after, bool sends_token,
             uint64_t bytes);
  explicit PackedItem(const Records::Record& words) : words_(words) {}

  OpKind kind() const { return static_cast<OpKind>(words_[0] & 15); }
  Op::Relaxed relaxed() const { return static_cast<Op::Relaxed>(words_[0] >> 4 & 3); }
  bool to_server() const { return (words_[0] & 1 << 6) != 0; }
  bool copies() const { return (words_[0] & 1 << 7) != 0; }
  /// Of a signal: this piece of it does.
  bool sends_token() const { return (words_[0] & 1 << 8) != 0; }
  uint8_t exposure() const { return static_cast<uint8_t>(words_[0] >> 16); }
  int32_t peer() const { return static_cast<int32_t>(words_[1]); }
  uint32_t threshold() const { return words_[7]; }
  uint32_t step() const { return words_[2]; }
  /// Of another lane or its own: so many items come before it.
  uint32_t after(int lane) const { return words_[3 + lane]; }
  /// Of puts and copies.
  uint64_t bytes() const { return words_[6] | uint64_t{words_[8]} << 32; }
  const Records::Record& words() const { return words_; }

 private:
  Records::Record words_{};
};
static_assert(kLanes == 3, "three words of after");

/// The items of a lane, packed.
struct PackedLane {
  uint32_t size = 0;    ///< items
  uint32_t period = 1;  ///< items after which the lane goes on as it did before
  std::vector<uint8_t> code;
};

/// A lane that somebody goes through: its progress, and its items as they come near.
class PackedCursor {
  auto relaxed_item() {
    return [this](uint32_t item) { return at(item).relaxed(); };
  }

 public:
  static constexpr uint32_t kNone = LaneProgress::kNone;

  explicit PackedCursor(PackedLane lane);

  uint32_t size() const { return lane_.size; }
  uint32_t complete() const { return progress_.complete(); }
  bool all_complete() const { return progress_.all_complete(); }

  /// LaneProgress::pick(); `may_start` takes an item's number and what it is.
  template <class MayStart>
  uint32_t pick(uint32_t reach, const MayStart& may_start) {
    return progress_.pick(reach, relaxed_item(),
                          [&](uint32_t item) { return may_start(item, at(item)); });
  }
  void start(uint32_t item) { progress_.start(item, relaxed_item()); }
  void finish(uint32_t item) { progress_.finish(item); }

  /// An item that has not started; valid until the next call.
  const PackedItem& at(uint32_t item) {
    while (unpacked_ <= item) unpack();
    return near_[item & (near_.size() - 1)];
  }

 private:
  void unpack();

  PackedLane lane_;
  LaneProgress progress_;
  std::vector<PackedItem> near_;  // a ring: the last items that were unpacked
  uint32_t unpacked_ = 0;
  PackedItem::Records::Reader reader_;
};

/// A program, packed.
struct PackedProgram {
  std::array<PackedLane, kLanes> lanes;
  std::vector<uint32_t> items_of_step;

  uint64_t items() const { return uint64_t{lanes[0].size} + lanes[1].size + lanes[2].size; }
  uint64_t memory_bytes() const;
};

/// Bytes of a message, or of its pieces, when every block has as many, or each its own.
struct BlockBytes {
  uint64_t all = 0;
  std::function<uint64_t(const Block&)> of = {};  ///< unless empty
};

/// Packs programs of a collective, one after the other.
class Packer {
 public:
  /// The slots of streams are cut into `pieces`.
  Packer(BlockBytes bytes, uint32_t pieces) : bytes_(std::move(bytes)), pieces_(pieces) {}

  PackedProgram pack(const RankProgram& program);

 private:
  PackedLane pack_lane();

  const BlockBytes bytes_;
  const uint32_t pieces_;
  std::vector<PackedItem> items_;  // of the lane under way
  uint32_t period_ = 1;            // that the last lane had
};

}  // namespace ibcoll::sim
