#include "studies/simulate/packed_program.h"

#include <algorithm>
#include <bit>

#include "engine/schedule/lane_cursor.h"
#include "engine/schedule/op_kinds.h"

namespace ibcoll::sim {

namespace {

/// A period that is tried at most: the operations of a step among servers of dozens of ranks.
constexpr uint32_t kMostPeriod = 80;

using Records = PackedItem::Records;

/// Bytes that an operation reads or writes.
uint64_t bytes_of(const RankProgram& program, const Op& op, const BlockBytes& bytes) {
  const Slice slice = meaning(op.kind).reads ? op.src() : op.dst();
  if (program.cut > 1 && slice.buffer != Buffer::kScratch) {
    return cut_bytes(bytes.all, program.cut, slice.first, slice.count);
  }
  if (program.cut == 1 && !bytes.of) return op.count * bytes.all;
  uint64_t sum = 0;
  for (uint32_t slot = slice.first; slot < slice.first + slice.count; ++slot) {
    sum += program.cut > 1 ? cut_bytes(bytes.all, program.cut,
                                       part_number(program.scratch[slot], program.cut), 1)
                           : bytes.of(program.block(slice.buffer, slot));
  }
  return sum;
}

}  // namespace

PackedItem::PackedItem(const Op& op, const std::array<uint32_t, kLanes>& after, bool sends_token,
                       uint64_t bytes)
    : words_{static_cast<uint32_t>(op.kind) | static_cast<uint32_t>(op.relaxed) << 4 |
                 static_cast<uint32_t>(op.to_server) << 6 |
                 static_cast<uint32_t>(ibcoll::copies(op)) << 7 |
                 static_cast<uint32_t>(sends_token) << 8 | static_cast<uint32_t>(op.exposure) << 16,
             static_cast<uint32_t>(op.peer),
             op.step,
             after[0],
             after[1],
             after[2],
             static_cast<uint32_t>(bytes),
             op.threshold,
             static_cast<uint32_t>(bytes >> 32)} {}

PackedProgram Packer::pack(const RankProgram& program) {
  const ProgramCursor all(program, pieces_);
  PackedProgram packed;
  packed.items_of_step.resize(program.steps);
  for (int lane = 0; lane < kLanes; ++lane) {
    const LaneCursor& cursor = all[lane];
    items_.clear();
    for (uint32_t item = 0; item < cursor.size(); ++item) {
      const Op& op = cursor.op(item);
      uint64_t bytes = op.kind == OpKind::kPut || copies(op) ? bytes_of(program, op, bytes_) : 0;
      if (cursor.streamed(item)) {
        const uint32_t piece = cursor.piece(item);
        bytes = piece_begin(program, bytes, piece + 1, pieces_) -
                piece_begin(program, bytes, piece, pieces_);
      }
      items_.emplace_back(op, cursor.after(item), cursor.sends_token(item, pieces_), bytes);
      ++packed.items_of_step[op.step];
    }
    packed.lanes[lane] = pack_lane();
  }
  return packed;
}

PackedLane Packer::pack_lane() {
  const auto size = static_cast<uint32_t>(items_.size());
  const auto at = [&](uint32_t item) -> const Records::Record& { return items_[item].words(); };
  // Ranks are alike: their lanes have the period of those before, or else it is looked for.
  period_ = Records::period_of(size, period_, kMostPeriod, at);
  PackedLane lane{size, period_, {}};
  Records::Writer writer(lane.code);
  for (uint32_t item = 0; item < size; ++item)
    writer.add(at(item), Records::expected(item, period_, at));
  writer.end();
  lane.code.shrink_to_fit();
  return lane;
}

uint64_t PackedProgram::memory_bytes() const {
  uint64_t bytes = sizeof *this + items_of_step.capacity() * sizeof(uint32_t);
  for (const PackedLane& lane : lanes) {
    const uint32_t ring = std::bit_ceil(2 * std::min(lane.period, lane.size) + 1);
    bytes += lane.code.capacity() + sizeof(PackedCursor) + ring * sizeof(PackedItem);
  }
  return bytes;
}

PackedCursor::PackedCursor(PackedLane lane)
    : lane_(std::move(lane)), progress_(lane_.size), near_(1), reader_(lane_.code.data()) {}

/// Unpacks the next item. Those that have not started stay, and those that the next ones are
/// expected after.
void PackedCursor::unpack() {
  const uint32_t first =
      std::min(progress_.next(), unpacked_ - std::min(unpacked_, 2 * lane_.period));
  if (unpacked_ + 1 - first > near_.size()) {
    std::vector<PackedItem> larger(2 * near_.size());
    for (uint32_t item = unpacked_ - std::min<uint32_t>(unpacked_, near_.size()); item < unpacked_;
         ++item) {
      larger[item & (larger.size() - 1)] = near_[item & (near_.size() - 1)];
    }
    near_ = std::move(larger);
  }
  const auto at_near = [&](uint32_t item) -> const Records::Record& {
    return near_[item & (near_.size() - 1)].words();
  };
  near_[unpacked_ & (near_.size() - 1)] = PackedItem(
      reader_.next(lane_.code.data(), Records::expected(unpacked_, lane_.period, at_near)));
  ++unpacked_;
}

}  // namespace ibcoll::sim
