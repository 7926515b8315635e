/// Reductions of all ranks by a plan of transfers (contention_free.cc): partial results of what is
/// for each server go to it, the way of a planned allgather back; of an allreduce that is a slice
/// of the block, which then goes to all servers. Agents combine: what the ranks of their server
/// have first, then what comes from others. Steps: 1. Messages and bytes: the plan's; a put more
/// for each place of the send buffer that does not lie beside the one before, where nothing is to
/// be combined. Scratch: at agents the sums, and a place for each partial result that comes to a
/// server with more than one rank.

#include <algorithm>
#include <numeric>
#include <tuple>

#include "engine/algorithms/carry_transfers.h"
#include "engine/algorithms/fold_plan.h"
#include "engine/algorithms/slots.h"

namespace ibcoll {

namespace {

class CarrySlices final : public CarryTransfers {
 public:
  CarrySlices(Collective collective, const Shape& shape, Rank me, const AlgorithmOptions& options,
              const TransferPlan& plan)
      : CarryTransfers(collective, shape, me, options, plan),
        all_(collective == Collective::kAllreduce) {
    if (all_) program_.cut_block(static_cast<uint32_t>(shape.servers()));
    lay_out();
  }

 private:
  /// Slots of a send buffer that lie side by side, and where they stand in the message.
  struct SlotRun {
    Slice slots;
    uint32_t place;
  };

  Rank agent(int server) const { return shape_.rank_at(server, 0); }
  /// Slots of what is for a server.
  uint32_t width(int target) const {
    return all_ ? 1 : static_cast<uint32_t>(shape_.server_size(target));
  }
  /// What a rank has for a server.
  std::vector<SlotRun> own(int target) const {
    if (all_) return {{send_slot(target), 0}};
    std::vector<SlotRun> runs;
    uint32_t place = 0;
    for (const Rank rank : shape_.members(target)) {
      const auto slot = static_cast<uint32_t>(rank);
      if (!runs.empty() && runs.back().slots.first + runs.back().slots.count == slot) {
        ++runs.back().slots.count;
      } else {
        runs.push_back({send_slot(rank), place});
      }
      ++place;
    }
    return runs;
  }
  static Slice part(Slice of, const SlotRun& run) {
    return {of.buffer, of.first + run.place, run.slots.count};
  }
  /// Carries a partial result.
  bool sums_up(uint32_t i) const { return plan_.transfers[i].origin == Block::kEveryone; }
  size_t index(int server, int target) const {
    return static_cast<size_t>(server) * static_cast<size_t>(shape_.servers()) +
           static_cast<size_t>(target);
  }
  const Slice& sum(int server, int target) const { return sums_[index(server, target)]; }
  /// Whether an agent has anything to combine; its sum has a place then.
  bool combines(int server, int target) const { return sum(server, target).count > 0; }

  /// Where agents have sums and what comes to them, the same on all ranks. This rank's scratch is
  /// made.
  void lay_out() {
    const int servers = shape_.servers();
    sums_.assign(static_cast<size_t>(servers) * servers, {Buffer::kScratch, 0, 0});
    landings_.assign(order_.size(), {});
    std::vector<uint32_t> used(servers), arrivals(order_.size());
    std::iota(arrivals.begin(), arrivals.end(), 0);
    std::sort(arrivals.begin(), arrivals.end(), [this](uint32_t a, uint32_t b) {
      return std::pair(order_[a].arrival(), a) < std::pair(order_[b].arrival(), b);
    });
    const auto take = [&](int server, int target) {
      const Slice place{Buffer::kScratch, used[server], width(target)};
      used[server] += width(target);
      if (me_ == agent(server)) add_scratch(target);
      return place;
    };
    const auto place_sum = [&](int server, int target) {
      Slice& place = sums_[index(server, target)];
      if (place.count > 0) return false;
      const bool result = server == target && (all_ || size_of(server) == 1);
      place = result ? recv_slot(all_ ? target : 0) : take(server, target);
      return true;
    };
    for (int server = 0; server < servers; ++server) {
      for (int target = 0; target < servers; ++target) {
        if (size_of(server) > 1 || servers == 1) place_sum(server, target);
      }
    }
    last_ = kNone;
    for (const uint32_t i : arrivals) {
      const TransferPlan::Transfer& t = plan_.transfers[i];
      if (!sums_up(i)) continue;
      landings_[i] = place_sum(t.to, t.target) ? sum(t.to, t.target) : take(t.to, t.target);
      if (t.to == mine_ && t.target == mine_) last_ = i;
    }
  }
  void add_scratch(int target) {
    std::vector<Block> blocks;
    if (all_) {
      blocks.push_back({Block::kCombined, Block::kFirstPart - target});
    } else {
      for (const Rank rank : shape_.members(target)) blocks.push_back({Block::kCombined, rank});
    }
    program_.add_scratch(blocks);
  }

  /// The targets, what this server sends on first first.
  std::vector<int> targets() const {
    std::vector<int64_t> needed(shape_.servers(), INT64_MAX);
    for (uint32_t i = 0; i < order_.size(); ++i) {
      const TransferPlan::Transfer& t = plan_.transfers[i];
      if (sums_up(i) && t.from == mine_) needed[t.target] = order_[i].start;
    }
    std::vector<int> all(shape_.servers());
    std::iota(all.begin(), all.end(), 0);
    std::stable_sort(all.begin(), all.end(), [&](int a, int b) { return needed[a] < needed[b]; });
    return all;
  }

  void collect() override {
    const auto& members = shape_.members(mine_);
    const FoldPlan fold(std::vector<bool>(members.size(), false), 0, false);
    const bool folds = members.size() > 1 || shape_.servers() == 1;
    for (const int target : targets()) {
      if (!folds) break;
      const Slice place = sum(mine_, target);
      for (const SlotRun& run : own(target)) {
        program_.begin_stream();
        if (me_ == agent(mine_)) {
          fold.write(program_, members, run.slots, part(place, run), 0);
        } else {
          program_.put(agent(mine_), run.slots, part(place, run));
        }
        program_.end_stream();
      }
    }
    if (last_ == kNone) give_results();
  }

  /// The agent gives the ranks of its server what all have for it.
  void give_results() {
    const Slice place = sum(mine_, mine_);
    uint32_t at = 0;
    for (const Rank local : shape_.members(mine_)) {
      const Slice from = all_ ? place : Slice{place.buffer, place.first + at++, 1};
      const Slice to = all_ ? place : recv_slot(0);
      if (local == agent(mine_)) {
        if (me_ == local && place.buffer == Buffer::kScratch) program_.copy(to, from);
      } else if (me_ == agent(mine_)) {
        program_.put(local, from, to);
      } else if (me_ == local) {
        program_.expect(agent(mine_), to);
      }
    }
  }

  void take(uint32_t i) override {
    const TransferPlan::Transfer& t = plan_.transfers[i];
    if (!sums_up(i)) return program_.expect(order_[i].sender, recv_slot(t.origin));
    const Slice place = sum(mine_, t.target), landing = landings_[i];
    if (combines(t.from, t.target)) {
      program_.expect(order_[i].sender, landing);
    } else {
      for (const SlotRun& run : own(t.target)) {
        program_.expect(order_[i].sender, part(landing, run));
      }
    }
    if (landing.buffer != place.buffer || landing.first != place.first) {
      return program_.reduce(place, landing, {});
    }
    for (const SlotRun& run : own(t.target)) program_.reduce(part(place, run), run.slots, {});
  }
  void pass(uint32_t i) override {
    const TransferPlan::Transfer& t = plan_.transfers[i];
    if (!sums_up(i)) {
      return program_.put(order_[i].receiver, recv_slot(t.origin), recv_slot(t.origin));
    }
    if (combines(mine_, t.target)) {
      return program_.put(order_[i].receiver, sum(mine_, t.target), landings_[i]);
    }
    for (const SlotRun& run : own(t.target)) {
      program_.put(order_[i].receiver, run.slots, part(landings_[i], run));
    }
  }

  bool hands_out(uint32_t i) const override {
    if (plan_.transfers[i].to != mine_) return false;
    return i == last_ || (!sums_up(i) && size_of(mine_) > 1);
  }
  void hand_out(uint32_t i) override {
    if (i == last_) return give_results();
    const Slice slice = recv_slot(plan_.transfers[i].origin);
    for (const Rank local : shape_.members(mine_)) {
      if (local == agent(mine_)) continue;
      if (me_ == agent(mine_)) program_.put(local, slice, slice);
      if (me_ == local) program_.expect(agent(mine_), slice);
    }
  }

  const bool all_;               ///< results go to all servers
  std::vector<Slice> sums_;      ///< by server and target
  std::vector<Slice> landings_;  ///< by transfer
  uint32_t last_ = kNone;        ///< the transfer that completes this server's own sum
};

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  const auto carry = [&](const TransferPlan& plan) {
    return CarrySlices(collective, shape, me, options, plan).build();
  };
  if (options.plan != nullptr) return carry(*options.plan);
  return carry(one_switch_plan(collective, shape, options.root));
}

constexpr AlgorithmSpec kSpec{
    .name = "contention_free",
    .collectives = {Collective::kAllreduce, Collective::kReduceScatter,
                    Collective::kReduceScatterBlock},
    .summary = "as planned for the network, no link oversubscribed, released by tokens",
    .when = "large blocks where the network is known",
    .source = "thesis, University of Tokyo, about 2010",
    .relays = true,
    .planned = true,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
