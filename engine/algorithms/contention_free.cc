/// Carries out a plan of transfers between servers (engine/planner/contention_free;
/// "Contention-free collective communication in wide-area cluster environments", thesis, University
/// of Tokyo, about 2010): each transfer is put by one rank of the sending server to one of the
/// receiving one when the tokens it waits for are in; inside a server blocks go to and from these
/// ranks by shared memory. What is passed on goes piece by piece as it arrives. Without a plan
/// (options.plan): one switch, all servers alike (one_switch_plan). A reduce in rank order knows
/// no plan: it goes along the binomial tree of ranks. Allreduce and reduce_scatter:
/// carry_slices.cc; a bcast whose block is cut into parts: carry_parts.cc. Steps: 1 (what orders
/// transfers are tokens and the plan's times). Messages and bytes: the plan's; a message is as many
/// puts as it has places at either end that do not lie side by side. Scratch: messages that are
/// collected from or handed out to several ranks of a server, or passed on.

#include <algorithm>
#include <map>

#include "engine/algorithms/carry_transfers.h"
#include "engine/algorithms/reduce_tree.h"
#include "engine/algorithms/server_walk.h"
#include "engine/algorithms/slots.h"

namespace ibcoll {

namespace {

/// Of all collectives but reductions.
class CarryBlocks final : public CarryTransfers {
 public:
  CarryBlocks(Collective collective, const Shape& shape, Rank me, const AlgorithmOptions& options,
              const TransferPlan& plan)
      : CarryTransfers(collective, shape, me, options, plan) {
    lay_out_scratch();
  }

 private:
  using Blocks = std::vector<Block>;
  /// Slots that lie side by side, and where they go, side by side, too.
  struct SlotRunPair {
    Slice src, dst;
  };

  bool gathers() const { return traits(collective_).equal == Collective::kGather; }
  bool scatters() const { return traits(collective_).equal == Collective::kScatter; }
  bool exchanges() const { return is_alltoall(collective_); }
  bool passes_on(uint32_t i) const { return plan_.transfers[i].forwards != kNone; }
  /// Goes to the server that the message is for.
  bool arrives(uint32_t i) const { return plan_.transfers[i].to == plan_.transfers[i].target; }
  /// The sender collects the blocks of its server's ranks first.
  bool staged(uint32_t i) const {
    return (gathers() || exchanges()) && !passes_on(i) && size_of(plan_.transfers[i].from) > 1;
  }
  /// It lands in scratch: to be passed on or handed out.
  bool lands_in_scratch(uint32_t i) const {
    if (gathers()) return !arrives(i);
    if (scatters() || exchanges()) return !arrives(i) || size_of(plan_.transfers[i].to) > 1;
    return false;
  }

  /// The blocks of a message, those of one origin side by side.
  Blocks blocks(uint32_t i) const {
    const TransferPlan::Transfer& t = plan_.transfers[i];
    Blocks result;
    if (collective_ == Collective::kBcast) return {{root_, Block::kEveryone}};
    const auto targets = [&](Rank origin) {
      if (t.target == Block::kEveryone) {
        result.push_back({origin, Block::kEveryone});
      } else if (gathers()) {
        result.push_back({origin, root_});
      } else {
        for (const Rank target : shape_.members(t.target)) result.push_back({origin, target});
      }
    };
    if (scatters()) {
      targets(root_);
    } else {
      for (const Rank origin : shape_.members(t.origin)) targets(origin);
    }
    return result;
  }

  /// Where each rank's scratch holds what, the same on all ranks. This rank's is made.
  void lay_out_scratch() {
    out_.assign(order_.size(), kNone);
    in_.assign(order_.size(), kNone);
    std::vector<uint32_t> used(shape_.ranks());
    for (uint32_t i = 0; i < order_.size(); ++i) {
      const auto take = [&](Rank rank, uint32_t& place, const Blocks& content) {
        place = used[rank];
        used[rank] += static_cast<uint32_t>(content.size());
        if (rank == me_) program_.add_scratch(content);
      };
      if (!staged(i) && !lands_in_scratch(i)) continue;
      const Blocks content = blocks(i);
      if (staged(i)) take(order_[i].sender, out_[i], content);
      if (lands_in_scratch(i)) take(order_[i].receiver, in_[i], content);
    }
  }

  Slice source(uint32_t i, const Block& block, uint32_t index) const {
    const uint32_t brought = plan_.transfers[i].forwards;
    if (out_[i] != kNone) return {Buffer::kScratch, out_[i] + index, 1};
    if (brought != kNone && in_[brought] != kNone) {
      return {Buffer::kScratch, in_[brought] + index, 1};
    }
    if (collective_ == Collective::kBcast) return brought == kNone ? send_slot(0) : recv_slot(0);
    if (gathers()) return send_slot(0);
    if (scatters() || exchanges()) return send_slot(block.target);
    return block.origin == order_[i].sender ? send_slot(0) : recv_slot(block.origin);
  }
  Slice destination(uint32_t i, const Block& block, uint32_t index) const {
    if (in_[i] != kNone) return {Buffer::kScratch, in_[i] + index, 1};
    if (scatters() || collective_ == Collective::kBcast) return recv_slot(0);
    return recv_slot(block.origin);
  }

  /// Puts together what lies side by side at both ends; in the users' buffers only blocks of one
  /// size do.
  void add(std::vector<SlotRunPair>& runs, Slice src, Slice dst) const {
    if (!runs.empty()) {
      SlotRunPair& last = runs.back();
      const auto follows = [&](const Slice& a, const Slice& b) {
        return a.buffer == b.buffer && a.first + a.count == b.first &&
               (a.buffer == Buffer::kScratch || !is_unequal(collective_));
      };
      if (follows(last.src, src) && follows(last.dst, dst)) {
        ++last.src.count;
        ++last.dst.count;
        return;
      }
    }
    runs.push_back({src, dst});
  }

  std::vector<SlotRunPair> runs(uint32_t i) const {
    std::vector<SlotRunPair> result;
    const Blocks content = blocks(i);
    for (uint32_t k = 0; k < content.size(); ++k) {
      add(result, source(i, content[k], k), destination(i, content[k], k));
    }
    return result;
  }

  void collect() override {
    for (uint32_t i = 0; i < order_.size(); ++i) {
      if (staged(i) && plan_.transfers[i].from == mine_) stage(i);
    }
    const bool at_root = has_root(collective_) && mine_ == shape_.server_of(root_);
    if (exchanges()) exchange_inside_server(program_);
    if (traits(collective_).equal == Collective::kAllgather) share_inside_server();
    if (!at_root) return;
    for (const Rank local : shape_.members(mine_)) {
      if (local == root_) {
        if (me_ == root_ && gathers()) program_.copy(recv_slot(me_), send_slot(0));
        if (me_ == root_ && scatters()) program_.copy(recv_slot(0), send_slot(me_));
      } else if (gathers()) {
        if (me_ == local) program_.put(root_, send_slot(0), recv_slot(local));
        if (me_ == root_) program_.expect(local, recv_slot(local));
      } else {
        const Slice src = scatters() ? send_slot(local) : send_slot(0);
        if (me_ == root_) program_.put(local, src, recv_slot(0));
        if (me_ == local) program_.expect(root_, recv_slot(0));
      }
    }
  }

  void share_inside_server() {
    program_.begin_relaxed();
    for (const Rank local : shape_.members(mine_)) {
      if (local != me_) program_.put(local, send_slot(0), recv_slot(me_));
    }
    program_.copy(recv_slot(me_), send_slot(0));
    for (const Rank local : shape_.members(mine_)) {
      if (local != me_) program_.expect(local, recv_slot(local));
    }
    program_.end_relaxed();
  }

  /// The ranks of this server give their blocks of message i to the one that sends it.
  void stage(uint32_t i) {
    const Rank agent = order_[i].sender;
    const Blocks content = blocks(i);
    std::map<Rank, std::vector<SlotRunPair>> of_origin;
    for (uint32_t k = 0; k < content.size(); ++k) {
      const Slice src = gathers() ? send_slot(0) : send_slot(content[k].target);
      add(of_origin[content[k].origin], src, {Buffer::kScratch, out_[i] + k, 1});
    }
    for (const auto& [origin, parts] : of_origin) move(origin, agent, parts);
  }

  /// Inside the server, from `from` to `to`; this rank does its side.
  void move(Rank from, Rank to, const std::vector<SlotRunPair>& parts) {
    for (const SlotRunPair& part : parts) {
      if (from == to) {
        if (me_ == from) program_.copy(part.dst, part.src);
      } else if (me_ == from) {
        program_.put(to, part.src, part.dst);
      } else if (me_ == to) {
        program_.expect(from, part.dst);
      }
    }
  }

  bool hands_out(uint32_t i) const override {
    const TransferPlan::Transfer& t = plan_.transfers[i];
    if (gathers() || t.to != mine_ || size_of(mine_) == 1) return false;
    return t.target == Block::kEveryone || arrives(i);
  }

  /// The receiver of transfer i gives the ranks of this server what is theirs.
  void hand_out(uint32_t i) override {
    const Blocks content = blocks(i);
    const Rank agent = order_[i].receiver;
    for (const Rank local : shape_.members(mine_)) {
      std::vector<SlotRunPair> parts;
      for (uint32_t k = 0; k < content.size(); ++k) {
        const Block& block = content[k];
        if (block.target == Block::kEveryone ? local == agent : block.target != local) continue;
        const bool own = scatters() || collective_ == Collective::kBcast;
        add(parts, destination(i, block, k), recv_slot(own ? 0 : block.origin));
      }
      move(agent, local, parts);
    }
  }

  void take(uint32_t i) override {
    for (const SlotRunPair& run : runs(i)) program_.expect(order_[i].sender, run.dst);
  }
  void pass(uint32_t i) override {
    for (const SlotRunPair& run : runs(i)) program_.put(order_[i].receiver, run.src, run.dst);
  }

  std::vector<uint32_t> out_, in_;  ///< by transfer: slots at its sender and receiver
};

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  if (collective == Collective::kReduce && options.ordered) {
    return reduce_along_tree("contention_free", false, shape, me, options);
  }
  const auto carry = [&](const TransferPlan& plan) {
    if (collective == Collective::kBcast && plan.parts > 1) {
      return carry_parts(shape, me, options, plan);
    }
    return collective == Collective::kReduce
               ? carry_sums(shape, me, options, plan)
               : CarryBlocks(collective, shape, me, options, plan).build();
  };
  if (options.plan != nullptr) return carry(*options.plan);
  return carry(one_switch_plan(collective, shape, options.root));
}

constexpr AlgorithmSpec kSpec{
    .name = "contention_free",
    .collectives = {Collective::kAlltoall, Collective::kAlltoallv, Collective::kAlltoallw,
                    Collective::kAllgather, Collective::kAllgatherv, Collective::kGather,
                    Collective::kGatherv, Collective::kScatter, Collective::kScatterv,
                    Collective::kBcast, Collective::kReduce},
    .summary = "as planned for the network, no link oversubscribed, released by tokens",
    .when = "large blocks where the network is known",
    .source = "thesis, University of Tokyo, about 2010",
    .relays = true,
    .planned = true,
    .keeps_order = on_every_shape,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
