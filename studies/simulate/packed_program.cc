#include "studies/simulate/packed_program.h"

#include <algorithm>
#include <bit>

#include "engine/schedule/lane_cursor.h"
#include "engine/schedule/op_kinds.h"

namespace ibcoll::sim {

namespace {

/// A period that is tried at most: the operations of a step among servers of dozens of ranks.
constexpr uint32_t kMostPeriod = 80;
/// How many items decide about it, in the middle of a lane.
constexpr uint32_t kSample = 256;

using Words = PackedItem::Words;

/// What an item is if the lane goes on as from the item two periods ago to that one period ago.
template <class At>
PackedItem expected(uint32_t item, uint32_t period, const At& at) {
  if (item < 2 * period) return item == 0 ? PackedItem() : at(item - 1);
  const PackedItem& last = at(item - period);
  const PackedItem& before = at(item - 2 * period);
  Words words;
  for (int i = 0; i < PackedItem::kWords; ++i) {
    words[i] = 2 * last.words()[i] - before.words()[i];
  }
  return {words, last.bytes()};
}

void put_number(uint64_t number, std::vector<uint8_t>& code) {
  for (; number >= 128; number >>= 7) code.push_back(static_cast<uint8_t>(number | 128));
  code.push_back(static_cast<uint8_t>(number));
}

/// Small numbers for small differences of either sign.
uint64_t fold(int64_t difference) {
  return static_cast<uint64_t>(difference) << 1 ^ static_cast<uint64_t>(difference >> 63);
}
int64_t unfold(uint64_t number) {
  return static_cast<int64_t>(number >> 1) ^ -static_cast<int64_t>(number & 1);
}

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
             op.threshold,
             op.step,
             after[0],
             after[1],
             after[2]},
      bytes_(bytes) {}

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
  const auto at = [&](uint32_t item) -> const PackedItem& { return items_[item]; };
  const auto differs = [](const PackedItem& a, const PackedItem& b) {
    return a.words() != b.words() || a.bytes() != b.bytes();
  };
  // Ranks are alike: their lanes have the period of those before, or else it is looked for.
  const uint32_t begin = size / 2 - std::min(size / 2, kSample / 2);
  const uint32_t end = std::min(size, begin + kSample);
  const auto misses = [&](uint32_t period) {
    uint32_t sum = 0;
    for (uint32_t item = begin; item < end; ++item) {
      sum += static_cast<uint32_t>(differs(items_[item], expected(item, period, at)));
    }
    return sum;
  };
  uint32_t fewest = misses(period_);
  for (uint32_t period = 1; period <= kMostPeriod && fewest > (end - begin) / 16; ++period) {
    const uint32_t here = misses(period);
    if (here >= fewest) continue;
    fewest = here;
    period_ = period;
  }
  PackedLane lane{size, period_, {}};
  uint32_t alike = 0;
  for (uint32_t item = 0; item < size; ++item) {
    const PackedItem foreseen = expected(item, lane.period, at);
    const PackedItem& real = items_[item];
    if (!differs(real, foreseen)) {
      ++alike;
      continue;
    }
    put_number(std::exchange(alike, 0), lane.code);
    std::array<uint64_t, PackedItem::kWords + 1> numbers{};  // the last: the bytes
    for (int i = 0; i < PackedItem::kWords; ++i) {
      numbers[i] = fold(static_cast<int32_t>(real.words()[i] - foreseen.words()[i]));
    }
    numbers.back() = fold(static_cast<int64_t>(real.bytes() - foreseen.bytes()));
    uint32_t mask = 0;  // which are not 0
    for (size_t i = 0; i < numbers.size(); ++i) mask |= numbers[i] != 0 ? 1u << i : 0;
    lane.code.push_back(static_cast<uint8_t>(mask));
    for (const uint64_t number : numbers) {
      if (number != 0) put_number(number, lane.code);
    }
  }
  put_number(alike, lane.code);
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
    : lane_(std::move(lane)), progress_(lane_.size), near_(1) {
  if (lane_.size > 0) expected_ = static_cast<uint32_t>(number());
}

uint64_t PackedCursor::number() {
  uint64_t number = 0;
  for (int shift = 0;; shift += 7) {
    const uint8_t byte = lane_.code[read_++];
    number |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return number;
  }
}

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
  const auto at_near = [&](uint32_t item) -> const PackedItem& {
    return near_[item & (near_.size() - 1)];
  };
  PackedItem item = expected(unpacked_, lane_.period, at_near);
  if (expected_ > 0) {
    --expected_;
  } else {
    Words words = item.words();
    uint64_t bytes = item.bytes();
    const uint8_t mask = lane_.code[read_++];
    for (int i = 0; i < PackedItem::kWords; ++i) {
      if ((mask & 1 << i) != 0) words[i] += static_cast<uint32_t>(unfold(number()));
    }
    if ((mask & 1 << PackedItem::kWords) != 0) bytes += static_cast<uint64_t>(unfold(number()));
    item = {words, bytes};
    expected_ = static_cast<uint32_t>(number());
  }
  near_[unpacked_ & (near_.size() - 1)] = item;
  ++unpacked_;
}

}  // namespace ibcoll::sim
