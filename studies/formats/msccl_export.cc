#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "engine/schedule/describe.h"
#include "studies/formats/export.h"

namespace ibcoll::formats {
namespace {

/// Goes through the programs of all ranks in an order in which they can be carried out.
class MscclExport {
 public:
  explicit MscclExport(const LoadedSchedule& schedule)
      : schedule_(schedule), ranks_(schedule.programs.size()) {}

  Result<MscclProgram> run() {
    const RankProgram& first = *schedule_.programs.front();
    const auto* const known =
        std::ranges::find(kMscclCollectives, first.collective, &MscclCollective::collective);
    if (known == std::end(kMscclCollectives)) {
      return fail(ErrorCode::kUnsupported, "MSCCL has no collective {}",
                  to_string(first.collective));
    }
    const CollectiveTraits& row = traits(first.collective);
    const bool per_rank = row.send.slots == Slots::kEachRank || row.recv.slots == Slots::kEachRank;
    MscclProgram program;
    program.name = first.algorithm;
    program.collective = known->name;
    program.chunks = first.cut * (per_rank ? static_cast<uint32_t>(ranks_.size()) : 1);
    if (row.has_root) program.root = first.root;
    program.gpus.resize(ranks_.size());
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankProgram& of = *schedule_.programs[rank];
      program.gpus[rank].input_chunks = of.send_slots(schedule_.shape);
      program.gpus[rank].output_chunks = of.recv_slots(schedule_.shape);
      program.gpus[rank].scratch_chunks = static_cast<uint32_t>(of.scratch.size());
      IBCOLL_TRY(check(of));
      for (int lane = 0; lane < kLanes; ++lane) {
        for (const Op& op : of.lanes[lane]) ranks_[rank].ops[lane].push_back(op);
      }
    }
    program_ = &program;
    while (const auto next = choose()) carry_out(*next);
    return program;
  }

 private:
  using Slot = std::pair<Buffer, uint32_t>;
  struct Place {
    size_t block = 0, step = 0;
  };
  struct RankExport {
    std::array<std::vector<Op>, kLanes> ops;
    std::array<size_t, kLanes> next{};
    std::map<std::pair<int, Rank>, size_t> blocks;  // by use (0 send, 1 receive, 2 alone) and peer
    std::map<Slot, Place> writer;
    std::map<Slot, std::vector<Place>> readers;
    std::map<Rank, uint32_t> messages;  // by sender: sent and not received yet
  };
  struct Event {
    Rank rank = 0;
    int lane = 0;
    bool together = false;  // a put with its expect
  };

  static Status check(const RankProgram& program) {
    for (const Lane lane : kEveryLane) {
      const OpReader ops(program.lane(lane));
      for (uint32_t i = 0; i < program.lane(lane).size(); ++i) {
        const Op& op = ops[i];
        const bool known = op.kind == OpKind::kCopy || op.kind == OpKind::kReduce ||
                           op.kind == OpKind::kPut || op.kind == OpKind::kExpect || skipped(op);
        if (known && !op.ordered) continue;
        return fail(ErrorCode::kUnsupported, "{}: MSCCL has no such thing{}",
                    describe(program, lane, i),
                    op.ordered ? " as an order of ranks" : " (--pacing free may do without)");
      }
    }
    return {};
  }
  /// What MSCCL's queues do by themselves.
  static bool skipped(const Op& op) {
    return op.kind == OpKind::kExpose || op.kind == OpKind::kForward ||
           op.kind == OpKind::kWaitExposed;
  }

  const Op* head(Rank rank, int lane) {
    const std::vector<Op>& ops = ranks_[rank].ops[lane];
    size_t& next = ranks_[rank].next[lane];
    while (next < ops.size() && skipped(ops[next])) ++next;
    return next < ops.size() ? &ops[next] : nullptr;
  }
  int receiving_lane(Rank from, Rank to) const {
    return static_cast<int>(schedule_.shape.same_server(from, to) ? Lane::kLocal : Lane::kRecv);
  }
  /// The operation that is next, of the smallest step; a put together with its expect if it can be.
  std::optional<Event> choose() {
    std::optional<Event> best, alone;
    uint32_t least = UINT32_MAX, least_alone = UINT32_MAX;
    for (Rank rank = 0; rank < static_cast<Rank>(ranks_.size()); ++rank) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const Op* const op = head(rank, lane);
        if (op == nullptr) continue;
        const auto& done = ranks_[rank].next;
        bool may = true;
        for (int other = 0; other < kLanes; ++other) may = may && op->after[other] <= done[other];
        if (!may) continue;
        if (op->kind == OpKind::kExpect) {
          const auto there = ranks_[rank].messages.find(op->peer);
          if (there == ranks_[rank].messages.end() || there->second == 0) continue;
        } else if (op->kind == OpKind::kPut) {
          const Op* const meets = head(op->peer, receiving_lane(rank, op->peer));
          const bool together = meets != nullptr && meets->kind == OpKind::kExpect &&
                                meets->peer == rank && ranks_[op->peer].messages[rank] == 0;
          if (!together) {
            if (op->step < least_alone) alone = Event{rank, lane, false};
            least_alone = std::min(least_alone, op->step);
            continue;
          }
          if (op->step < least) best = Event{rank, lane, true};
          least = std::min(least, op->step);
          continue;
        }
        if (op->step < least) best = Event{rank, lane, false};
        least = std::min(least, op->step);
      }
    }
    return best ? best : alone;
  }

  void carry_out(const Event& event) {
    const Op& op = *head(event.rank, event.lane);
    add(event.rank, op);
    ++ranks_[event.rank].next[event.lane];
    if (op.kind == OpKind::kExpect) --ranks_[event.rank].messages[op.peer];
    if (op.kind != OpKind::kPut) return;
    if (!event.together) {
      ++ranks_[op.peer].messages[event.rank];
      return;
    }
    const int lane = receiving_lane(event.rank, op.peer);
    add(op.peer, *head(op.peer, lane));
    ++ranks_[op.peer].next[lane];
  }

  size_t block_for(Rank rank, const Op& op) {
    const int use = op.kind == OpKind::kPut ? 0 : op.kind == OpKind::kExpect ? 1 : 2;
    auto& blocks = program_->gpus[rank].blocks;
    const auto [place, fresh] =
        ranks_[rank].blocks.emplace(std::pair(use, use == 2 ? -1 : op.peer), blocks.size());
    if (fresh) {
      MscclBlock block;
      block.id = static_cast<int64_t>(blocks.size());
      block.send = use == 0 ? op.peer : -1;
      block.recv = use == 1 ? op.peer : -1;
      blocks.push_back(std::move(block));
    }
    return place->second;
  }

  static MscclPlace place_of(Buffer buffer, uint32_t slot) {
    return {buffer == Buffer::kSend   ? MscclBuffer::kInput
            : buffer == Buffer::kRecv ? MscclBuffer::kOutput
                                      : MscclBuffer::kScratch,
            slot};
  }

  /// A step for the operation, and before it one for each further step that it comes after.
  void add(Rank rank, const Op& op) {
    RankExport& state = ranks_[rank];
    const size_t block = block_for(rank, op);
    const bool reads = op.kind != OpKind::kExpect, writes = op.kind != OpKind::kPut;
    const bool into = op.kind == OpKind::kReduce || op.combines;
    std::map<size_t, size_t> before;  // by threadblock: its last step that this one comes after
    const auto comes_after = [&](const Place& place) {
      if (place.block == block) return;
      size_t& last = before.emplace(place.block, place.step).first->second;
      last = std::max(last, place.step);
    };
    for (uint32_t i = 0; i < op.count; ++i) {
      const Slot src{op.src_buffer, op.src_first + i}, dst{op.dst_buffer, op.dst_first + i};
      if (reads) {
        if (const auto by = state.writer.find(src); by != state.writer.end())
          comes_after(by->second);
      }
      if (!writes || !into) continue;
      if (const auto by = state.writer.find(dst); by != state.writer.end()) comes_after(by->second);
      for (const Place& reader : state.readers[dst]) comes_after(reader);
    }
    auto& blocks = program_->gpus[rank].blocks;
    std::vector<MscclStep>& steps = blocks[block].steps;
    // A step comes after one other; further ones are waited for before it.
    for (auto it = before.begin(); it != before.end() && std::next(it) != before.end(); ++it) {
      MscclStep wait;
      wait.type = "nop";
      add_dependency(rank, wait, *it);
      wait.order = order_++;
      steps.push_back(std::move(wait));
    }
    MscclStep step;
    if (!before.empty()) add_dependency(rank, step, *before.rbegin());
    step.type = op.kind == OpKind::kCopy     ? "cpy"
                : op.kind == OpKind::kReduce ? "re"
                : op.kind == OpKind::kPut    ? "s"
                : op.combines                ? "rrc"
                                             : "r";
    if (reads) step.src = place_of(op.src_buffer, op.src_first);
    if (writes) step.dst = place_of(op.dst_buffer, op.dst_first);
    if (op.combines) step.src = step.dst;
    step.count = op.count;
    step.order = order_++;
    step.number = op.step;
    const Place here{block, steps.size()};
    steps.push_back(std::move(step));
    for (uint32_t i = 0; i < op.count; ++i) {
      if (reads) state.readers[{op.src_buffer, op.src_first + i}].push_back(here);
      if (!writes) continue;
      state.writer[{op.dst_buffer, op.dst_first + i}] = here;
      state.readers[{op.dst_buffer, op.dst_first + i}].clear();
    }
  }

  void add_dependency(Rank rank, MscclStep& step, const std::pair<const size_t, size_t>& on) {
    MscclBlock& block = program_->gpus[rank].blocks[on.first];
    block.steps[on.second].announces = true;
    step.after_block = block.id;
    step.after_step = static_cast<int64_t>(on.second);
  }

  const LoadedSchedule& schedule_;
  std::vector<RankExport> ranks_;
  MscclProgram* program_ = nullptr;
  int64_t order_ = 0;
};

}  // namespace

Result<MscclProgram> export_msccl(const LoadedSchedule& schedule) {
  return MscclExport(schedule).run();
}

}  // namespace ibcoll::formats
