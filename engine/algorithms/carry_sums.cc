/// Reductions by a plan of transfers (contention_free.cc).

#include <utility>

#include "engine/algorithms/carry_transfers.h"
#include "engine/algorithms/slots.h"

namespace ibcoll {

namespace {

/// The first to come lands where the sum is made.
class CarrySums final : public CarryTransfers {
 public:
  CarrySums(const Shape& shape, Rank me, const AlgorithmOptions& options, const TransferPlan& plan)
      : CarryTransfers(Collective::kReduce, shape, me, options, plan) {}

 private:
  void collect() override {
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

  void take(uint32_t i) override { add_sum(order_[i].sender, source_index(i)); }
  void pass(uint32_t i) override {
    program_.put(order_[i].receiver, has_sources() ? sum_slot(me_) : send_slot(0),
                 landing(order_[i].receiver, source_index(i)));
  }
  bool hands_out(uint32_t) const override { return false; }
  void hand_out(uint32_t) override {}

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

  void add_sum(Rank from, size_t index) {
    const Slice place = landing(me_, index);
    program_.expect(from, place);
    program_.reduce(sum_slot(me_), index == 0 ? send_slot(0) : place, {});
  }
};

}  // namespace

ProgramPtr carry_sums(const Shape& shape, Rank me, const AlgorithmOptions& options,
                      const TransferPlan& plan) {
  return CarrySums(shape, me, options, plan).build();
}

}  // namespace ibcoll
