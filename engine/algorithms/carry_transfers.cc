#include "engine/algorithms/carry_transfers.h"

#include <algorithm>
#include <tuple>

namespace ibcoll {

/// Something this rank does, in the order of times.
struct CarryTransfers::Event {
  int64_t time;
  uint32_t transfer;
  Act act;
  friend bool operator<(const Event& a, const Event& b) {
    return std::tuple(a.time, a.transfer, a.act) < std::tuple(b.time, b.transfer, b.act);
  }
};

CarryTransfers::CarryTransfers(Collective collective, const Shape& shape, Rank me,
                               const AlgorithmOptions& options, const TransferPlan& plan)
    : program_(collective, "contention_free", shape, me, options),
      collective_(collective),
      shape_(shape),
      me_(me),
      root_(options.root),
      mine_(shape.server_of(me)),
      plan_(plan),
      order_(collective, shape, options.root, plan) {
  program_.set_last_part(plan.last_part);
}

ProgramPtr CarryTransfers::build() {
  collect();
  std::vector<Event> events;
  for (uint32_t i = 0; i < order_.size(); ++i) {
    const TransferOrder::Transfer& transfer = order_[i];
    if (transfer.receiver == me_) events.push_back({transfer.arrival(), i, Act::kTake});
    if (hands_out(i)) events.push_back({transfer.arrival(), i, Act::kHandOut});
    if (transfer.sender == me_) events.push_back({transfer.start, i, Act::kPass});
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

void CarryTransfers::carry_out(const Event& event) {
  const TransferOrder::Transfer& transfer = order_[event.transfer];
  if (event.act == Act::kPass) await_turn(event.transfer);
  if (transfer.streamed) program_.begin_stream();
  if (event.act == Act::kHandOut) hand_out(event.transfer);
  if (event.act == Act::kPass) pass(event.transfer);
  if (event.act == Act::kTake) {
    take(event.transfer);
    announce(event.transfer);
  }
  if (transfer.streamed) program_.end_stream();
}

void CarryTransfers::announce(uint32_t transfer) {
  for (const uint32_t k : announced_[transfer]) {
    const TransferOrder::Signal& signal = order_.signals()[k];
    program_.signal_arrival(order_[signal.before].sender, signal.left);
  }
}

void CarryTransfers::await_turn(uint32_t transfer) {
  if (follows_arrival_[transfer]) program_.hold(Lane::kSend, Lane::kRecv);
  for (const uint32_t k : awaited_[transfer]) {
    const TransferOrder::Signal& signal = order_.signals()[k];
    const Rank from = order_[signal.after].receiver;
    for (uint32_t& have = waited_[from]; have < signal.number; ++have) {
      program_.wait(from, Lane::kSend);
    }
  }
}

}  // namespace ibcoll
