#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "engine/schedule/describe.h"
#include "studies/formats/export.h"

namespace ibcoll::formats {
namespace {

/// Writes one rank.
class GoalWriter {
 public:
  GoalWriter(const RankProgram& program, uint64_t block_bytes)
      : program_(program), block_bytes_(block_bytes) {
    size_t label = 1;
    for (int lane = 0; lane < kLanes; ++lane) {
      first_[lane] = label;
      label += program.lanes[lane].size();
    }
    joins_ = label;
  }

  Status run(std::string& text) {
    text += fmt::format("rank {} {{\n", program_.me);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (uint32_t i = 0; i < program_.lanes[lane].size(); ++i)
        IBCOLL_TRY(add(static_cast<Lane>(lane), i, text));
    }
    text += orders_ + "}\n";
    return {};
  }

 private:
  uint64_t bytes_of(Buffer buffer, uint32_t first, uint32_t count) const {
    if (program_.cut == 1) return count * block_bytes_;
    if (buffer != Buffer::kScratch) return cut_bytes(block_bytes_, program_.cut, first, count);
    uint64_t bytes = 0;
    for (uint32_t slot = first; slot < first + count; ++slot) {
      bytes += cut_bytes(block_bytes_, program_.cut,
                         part_number(program_.scratch[slot], program_.cut), 1);
    }
    return bytes;
  }

  Status add(Lane lane, uint32_t i, std::string& text) {
    const Op& op = program_.lane(lane)[i];
    const size_t label = first_[static_cast<int>(lane)] + i;
    // Data and tokens between two ranks are numbered apart.
    const auto tag = [&](bool sends, bool token) {
      return 2 * numbers_[{op.peer, sends, token}]++ + (token ? 1 : 0);
    };
    // GOAL has no messages of no bytes.
    const auto some = [](uint64_t bytes) { return std::max<uint64_t>(bytes, 1); };
    switch (op.kind) {
      case OpKind::kPut:
        text += fmt::format("l{}: send {}b to {} tag {}\n", label,
                            some(bytes_of(op.src_buffer, op.src_first, op.count)), op.peer,
                            tag(true, false));
        break;
      case OpKind::kExpect:
        text += fmt::format("l{}: recv {}b from {} tag {}\n", label,
                            some(bytes_of(op.dst_buffer, op.dst_first, op.count)), op.peer,
                            tag(false, false));
        break;
      case OpKind::kSignal:
        text += fmt::format("l{}: send 1b to {} tag {}\n", label, op.peer, tag(true, true));
        break;
      case OpKind::kWait:
        text += fmt::format("l{}: recv 1b from {} tag {}\n", label, op.peer, tag(false, true));
        break;
      case OpKind::kCopy:
      case OpKind::kReduce:
      case OpKind::kExpose:
      case OpKind::kForward:
        text += fmt::format("l{}: calc 0\n", label);
        break;
      case OpKind::kWaitExposed:
      case OpKind::kGateSignal:
      case OpKind::kGateWait:
        return fail(ErrorCode::kUnsupported,
                    "{}: GOAL has no such thing (--pacing free may do without)",
                    describe(program_, lane, i));
    }
    // A wait holds back what follows in its lane; else operations start one after the other.
    if (i > 0 && op.relaxed != Op::Relaxed::kInRun) {
      const bool waits = program_.lane(lane)[i - 1].kind == OpKind::kWait;
      orders_ += fmt::format("l{} {} l{}\n", label, waits ? "requires" : "irequires", label - 1);
    }
    for (int other = 0; other < kLanes; ++other) {
      if (op.after[other] > 0)
        orders_ += fmt::format("l{} requires l{}\n", label, join(other, op.after[other], text));
    }
    return {};
  }

  /// What is over when the first `count` operations of a lane are.
  size_t join(int lane, uint32_t count, std::string& text) {
    const auto [place, fresh] = joined_[lane].emplace(count, joins_);
    if (!fresh) return place->second;
    const size_t label = joins_++;
    text += fmt::format("l{}: calc 0\n", label);
    uint32_t from = 0;
    if (place != joined_[lane].begin()) {
      const auto& [before, of_before] = *std::prev(place);
      from = before;
      orders_ += fmt::format("l{} requires l{}\n", label, of_before);
    }
    for (uint32_t i = from; i < count; ++i)
      orders_ += fmt::format("l{} requires l{}\n", label, first_[lane] + i);
    return label;
  }

  const RankProgram& program_;
  uint64_t block_bytes_;
  std::array<size_t, kLanes> first_{};
  size_t joins_ = 0;
  std::array<std::map<uint32_t, size_t>, kLanes> joined_;
  std::map<std::tuple<Rank, bool, bool>, uint32_t> numbers_;
  std::string orders_;
};

}  // namespace

Result<std::string> export_goal(const LoadedSchedule& schedule, uint64_t block_bytes) {
  std::string text = fmt::format("num_ranks {}\n\n", schedule.programs.size());
  for (const auto& program : schedule.programs) {
    IBCOLL_TRY(GoalWriter(*program, block_bytes).run(text));
    text += "\n";
  }
  return text;
}

}  // namespace ibcoll::formats
