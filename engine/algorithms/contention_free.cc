/// Carries out a plan of transfers between servers (engine/planner/contention_free;
/// "Contention-free collective communication in wide-area cluster environments", thesis, University
/// of Tokyo, about 2010): each transfer is put by one rank of the sending server to one of the
/// receiving one when the tokens it waits for are in; inside a server blocks go to and from these
/// ranks by shared memory. What is passed on goes piece by piece as it arrives. Without a plan
/// (options.plan): one switch, all servers alike (one_switch_plan). Reductions in rank order know
/// no plan: they go along the binomial tree of ranks. Steps: 1 (what orders transfers are tokens
/// and the plan's times). Messages and bytes: the plan's; a message is as many puts as it has
/// places at either end that do not lie side by side. Scratch: messages that are collected from or
/// handed out to several ranks of a server, or passed on.

#include <algorithm>
#include <map>
#include <tuple>

#include "engine/algorithms/algorithms.h"
#include "engine/algorithms/server_walk.h"
#include "engine/algorithms/transfer_order.h"

namespace ibcoll {

namespace {

constexpr uint32_t kNone = TransferPlan::kNone;

enum class Act : uint8_t { kExpect, kHandOut, kPut };

/// Something this rank does, in the order of times.
struct Event {
  int64_t time;
  uint32_t transfer;
  Act act;
  friend bool operator<(const Event& a, const Event& b) {
    return std::tuple(a.time, a.transfer, a.act) < std::tuple(b.time, b.transfer, b.act);
  }
};

class Carry {
 public:
  Carry(Collective collective, const Shape& shape, Rank me, const AlgorithmOptions& options,
        const TransferPlan& plan)
      : program_(collective, "contention_free", shape, me, options),
        collective_(collective),
        shape_(shape),
        me_(me),
        root_(options.root),
        mine_(shape.server_of(me)),
        plan_(plan),
        order_(collective, shape, options.root, plan) {}

  ProgramPtr build() {
    lay_out_scratch();
    collect();
    std::vector<Event> events;
    for (uint32_t i = 0; i < order_.size(); ++i) {
      const TransferOrder::Transfer& transfer = order_[i];
      if (transfer.receiver == me_) events.push_back({transfer.arrival(), i, Act::kExpect});
      if (hands_out(i)) events.push_back({transfer.arrival(), i, Act::kHandOut});
      if (transfer.sender == me_) events.push_back({transfer.start, i, Act::kPut});
    }
    const auto& signals = order_.signals();
    for (uint32_t k = 0; k < signals.size(); ++k) {
      if (order_[signals[k].after].receiver == me_) announced_[signals[k].after].push_back(k);
      if (order_[signals[k].before].sender == me_) awaited_[signals[k].before].push_back(k);
    }
    for (const TransferPlan::Token& turn : order_.turns()) {
      if (order_[turn.before].sender == me_) follows_arrival_[turn.before] = true;
    }
    std::sort(events.begin(), events.end());
    for (const Event& event : events) carry_out(event);
    return program_.finish();
  }

 private:
  using Blocks = std::vector<Block>;
  struct Run {
    Slice src, dst;
  };

  bool reduces() const { return collective_ == Collective::kReduce; }
  bool gathers() const {
    return collective_ == Collective::kGather || collective_ == Collective::kGatherv;
  }
  bool scatters() const {
    return collective_ == Collective::kScatter || collective_ == Collective::kScatterv;
  }
  bool exchanges() const {
    return collective_ == Collective::kAlltoall || collective_ == Collective::kAlltoallv;
  }
  int size_of(int server) const { return shape_.server_size(server); }
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
    for (uint32_t i = 0; i < order_.size() && !reduces(); ++i) {
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
  void add(std::vector<Run>& runs, Slice src, Slice dst) const {
    if (!runs.empty()) {
      Run& last = runs.back();
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

  std::vector<Run> runs(uint32_t i) const {
    std::vector<Run> result;
    const Blocks content = blocks(i);
    for (uint32_t k = 0; k < content.size(); ++k) {
      add(result, source(i, content[k], k), destination(i, content[k], k));
    }
    return result;
  }

  /// What goes through shared memory before anything goes out or beside it. In one order on all
  /// ranks of the server.
  void collect() {
    if (reduces()) return collect_sums();
    for (uint32_t i = 0; i < order_.size(); ++i) {
      if (staged(i) && plan_.transfers[i].from == mine_) stage(i);
    }
    const bool at_root = has_root(collective_) && mine_ == shape_.server_of(root_);
    if (exchanges()) exchange_inside_server(program_);
    if (collective_ == Collective::kAllgather || collective_ == Collective::kAllgatherv) {
      share_inside_server();
    }
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
    std::map<Rank, std::vector<Run>> of_origin;
    for (uint32_t k = 0; k < content.size(); ++k) {
      const Slice src = gathers() ? send_slot(0) : send_slot(content[k].target);
      add(of_origin[content[k].origin], src, {Buffer::kScratch, out_[i] + k, 1});
    }
    for (const auto& [origin, parts] : of_origin) move(origin, agent, parts);
  }

  /// Inside the server, from `from` to `to`; this rank does its side.
  void move(Rank from, Rank to, const std::vector<Run>& parts) {
    for (const Run& part : parts) {
      if (from == to) {
        if (me_ == from) program_.copy(part.dst, part.src);
      } else if (me_ == from) {
        program_.put(to, part.src, part.dst);
      } else if (me_ == to) {
        program_.expect(from, part.dst);
      }
    }
  }

  bool hands_out(uint32_t i) const {
    const TransferPlan::Transfer& t = plan_.transfers[i];
    if (reduces() || gathers() || t.to != mine_ || size_of(mine_) == 1) return false;
    return t.target == Block::kEveryone || arrives(i);
  }

  /// The receiver of transfer i gives the ranks of this server what is theirs.
  void hand_out(uint32_t i) {
    const Blocks content = blocks(i);
    const Rank agent = order_[i].receiver;
    for (const Rank local : shape_.members(mine_)) {
      std::vector<Run> parts;
      for (uint32_t k = 0; k < content.size(); ++k) {
        const Block& block = content[k];
        if (block.target == Block::kEveryone ? local == agent : block.target != local) continue;
        const bool own = scatters() || collective_ == Collective::kBcast;
        add(parts, destination(i, block, k), recv_slot(own ? 0 : block.origin));
      }
      move(agent, local, parts);
    }
  }

  void carry_out(const Event& event) {
    const TransferOrder::Transfer& transfer = order_[event.transfer];
    if (event.act == Act::kPut) await_turn(event.transfer);
    if (transfer.streamed) program_.begin_stream();
    if (event.act == Act::kHandOut) {
      hand_out(event.transfer);
    } else if (reduces()) {
      event.act == Act::kExpect ? take_sum(event.transfer) : pass_sum(event.transfer);
    } else {
      for (const Run& run : runs(event.transfer)) {
        if (event.act == Act::kExpect) {
          program_.expect(transfer.sender, run.dst);
        } else {
          program_.put(transfer.receiver, run.src, run.dst);
        }
      }
    }
    if (event.act == Act::kExpect) announce(event.transfer);
    if (transfer.streamed) program_.end_stream();
  }

  void announce(uint32_t i) {
    for (const uint32_t k : announced_[i]) {
      const TransferOrder::Signal& signal = order_.signals()[k];
      program_.signal_arrival(order_[signal.before].sender, signal.left);
    }
  }

  void await_turn(uint32_t i) {
    if (follows_arrival_[i]) program_.hold(Lane::kSend, Lane::kRecv);
    for (const uint32_t k : awaited_[i]) {
      const TransferOrder::Signal& signal = order_.signals()[k];
      const Rank from = order_[signal.after].receiver;
      for (uint32_t& have = waited_[from]; have < signal.number; ++have) {
        program_.wait(from, Lane::kSend);
      }
    }
  }

  // Reductions: the agent of a server combines in the order in which it expects: its server's
  // ranks, then what other servers send. The first to come lands where the sum is made.

  bool has_sources() const { return size_of(mine_) > 1 || first_into(mine_) != kNone; }
  uint32_t first_into(int server) const {
    for (uint32_t i = 0; i < order_.size(); ++i) {
      if (plan_.transfers[i].to == server) return i;
    }
    return kNone;
  }
  Rank agent_of(int server) const {
    return server == shape_.server_of(root_) ? root_ : shape_.rank_at(server, 0);
  }
  Slice sum_slot(Rank agent) const {
    return agent == root_ ? recv_slot(0) : Slice{Buffer::kScratch, 0, 1};
  }
  /// Of the `index`-th source of an agent.
  Slice landing(Rank agent, size_t index) const {
    if (index == 0) return sum_slot(agent);
    const size_t before = index - (agent == root_ ? 1 : 0);
    return {Buffer::kScratch, static_cast<uint32_t>(before), 1};
  }
  /// Which source of its receiver a transfer is.
  size_t source_index(uint32_t i) const {
    const int server = plan_.transfers[i].to;
    size_t index = size_of(server) - 1;
    for (uint32_t other = 0; other < order_.size(); ++other) {
      if (plan_.transfers[other].to == server &&
          std::pair(order_[other].arrival(), other) < std::pair(order_[i].arrival(), i)) {
        ++index;
      }
    }
    return index;
  }

  void collect_sums() {
    const Rank agent = agent_of(mine_);
    const Block combined{Block::kCombined, root_};
    if (me_ != agent) {
      const int local = shape_.local_of(me_);
      const size_t index = local - (shape_.local_of(agent) < local ? 1 : 0);
      program_.begin_stream();
      program_.put(agent, send_slot(0), landing(agent, index));
      program_.end_stream();
      return;
    }
    if (!has_sources()) {
      if (me_ == root_) program_.copy(recv_slot(0), send_slot(0));
      return;
    }
    size_t sources = size_of(mine_) - 1;
    for (const TransferPlan::Transfer& t : plan_.transfers) sources += t.to == mine_ ? 1 : 0;
    const std::vector<Block> slots(sources - (me_ == root_ ? 1 : 0), combined);
    if (!slots.empty()) program_.add_scratch(slots);
    size_t index = 0;
    for (const Rank local : shape_.members(mine_)) {
      if (local == me_) continue;
      program_.begin_stream();
      add_sum(local, index++);
      program_.end_stream();
    }
  }

  void add_sum(Rank from, size_t index) {
    const Slice place = landing(me_, index);
    program_.expect(from, place);
    program_.reduce(sum_slot(me_), index == 0 ? send_slot(0) : place);
  }
  void take_sum(uint32_t i) { add_sum(order_[i].sender, source_index(i)); }
  void pass_sum(uint32_t i) {
    program_.put(order_[i].receiver, has_sources() ? sum_slot(me_) : send_slot(0),
                 landing(order_[i].receiver, source_index(i)));
  }

  ProgramBuilder program_;
  const Collective collective_;
  const Shape& shape_;
  const Rank me_, root_;
  const int mine_;
  const TransferPlan& plan_;
  const TransferOrder order_;
  std::vector<uint32_t> out_, in_;  ///< by transfer: slots at its sender and receiver
  std::map<uint32_t, std::vector<uint32_t>> announced_, awaited_;  ///< by transfer: signals
  std::map<uint32_t, bool> follows_arrival_;
  std::map<Rank, uint32_t> waited_;
};

}  // namespace

ProgramPtr contention_free(Collective collective, const Shape& shape, Rank me,
                           const AlgorithmOptions& options) {
  if (collective == Collective::kReduce && options.ordered) {
    return reduce_in_rank_order("contention_free", shape, me, options);
  }
  if (options.plan != nullptr) {
    return Carry(collective, shape, me, options, *options.plan).build();
  }
  return Carry(collective, shape, me, options, one_switch_plan(collective, shape, options.root))
      .build();
}

}  // namespace ibcoll
