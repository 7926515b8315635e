#include "engine/algorithms/transfer_order.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace ibcoll {

TransferOrder::TransferOrder(Collective collective, const Shape& shape, Rank root,
                             const TransferPlan& plan)
    : collective_(collective), shape_(shape), root_(root), transfers_(plan.transfers.size()) {
  choose_agents(plan);
  set_times(plan);
  number_signals(plan);
}

void TransferOrder::choose_agents(const TransferPlan& plan) {
  const auto agent = [&](int server) {
    const bool of_root = has_root(collective_) && server == shape_.server_of(root_);
    return of_root ? root_ : shape_.rank_at(server, 0);
  };
  // Blocks of an allgather are many: passing each on when it is there keeps links busy.
  const bool pieces =
      collective_ != Collective::kAllgather && collective_ != Collective::kAllgatherv;
  for (size_t i = 0; i < transfers_.size(); ++i) {
    const TransferPlan::Transfer& planned = plan.transfers[i];
    Transfer& transfer = transfers_[i];
    const bool reduces = collective_ == Collective::kReduce;
    transfer.sender = agent(planned.from);
    transfer.receiver = agent(planned.to);
    transfer.streamed = reduces || collective_ == Collective::kBcast;
    if (planned.forwards == TransferPlan::kNone || !pieces) continue;
    transfer.streamed = transfers_[planned.forwards].streamed = true;
  }
}

void TransferOrder::set_times(const TransferPlan& plan) {
  std::vector<std::vector<uint32_t>> tokens(transfers_.size());  // by `before`
  for (const TransferPlan::Token& token : plan.tokens) tokens[token.before].push_back(token.after);
  std::vector<int64_t> busy(shape_.ranks()), combined(shape_.ranks());
  std::map<std::pair<Rank, Rank>, int64_t> last;  // of the transfers of a pair: the end
  for (size_t i = 0; i < transfers_.size(); ++i) {
    const TransferPlan::Transfer& planned = plan.transfers[i];
    Transfer& transfer = transfers_[i];
    int64_t start = std::max(planned.start_ns, busy[transfer.sender]);
    int64_t end = 0;
    for (const uint32_t after : tokens[i]) start = std::max(start, transfers_[after].end + 1);
    if (collective_ == Collective::kReduce) {
      start = std::max(start, combined[transfer.sender]);
    } else if (planned.forwards != TransferPlan::kNone) {
      const Transfer& brings = transfers_[planned.forwards];
      start = std::max(start, brings.arrival() + 1);
      end = brings.end + 1;
    }
    int64_t& before = last[{transfer.sender, transfer.receiver}];
    transfer.start = start = std::max(start, before + 1);
    before = transfer.end = std::max({end, start + 1, start + planned.end_ns - planned.start_ns});
    if (transfer.streamed) busy[transfer.sender] = transfer.end + 1;
    if (collective_ == Collective::kReduce) {
      combined[transfer.receiver] = std::max(combined[transfer.receiver], transfer.end + 1);
    }
  }
}

void TransferOrder::number_signals(const TransferPlan& plan) {
  for (const TransferPlan::Token& token : plan.tokens) {
    // What one agent sends leaves by one port, one after the other or sharing it.
    if (plan.transfers[token.after].from == plan.transfers[token.before].from) continue;
    const Transfer &after = transfers_[token.after], &before = transfers_[token.before];
    if (after.receiver == before.sender) {
      turns_.push_back(token);
    } else {
      signals_.push_back({token.after, token.before, 0});
    }
  }
  std::sort(signals_.begin(), signals_.end(), [this](const Signal& a, const Signal& b) {
    return std::tuple(transfers_[a.after].end, a.after, a.before) <
           std::tuple(transfers_[b.after].end, b.after, b.before);
  });
  std::map<std::pair<Rank, Rank>, uint32_t> count;
  for (Signal& signal : signals_) {
    signal.number = ++count[{transfers_[signal.after].receiver, transfers_[signal.before].sender}];
  }
}

}  // namespace ibcoll
