#include "engine/algorithms/transfer_order.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "engine/schedule/sums.h"

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
  // Blocks that all servers have for all are many: passing each on when it is there keeps links
  // busy. Unequal ones go in runs, which a stream can't tell apart.
  const bool gathers = traits(collective_).equal == Collective::kAllgather;
  const bool reduces = collective_ == Collective::kReduce;
  const bool pieces =
      !gathers && !is_unequal(collective_) && (reduces || !ibcoll::reduces(collective_));
  for (size_t i = 0; i < transfers_.size(); ++i) {
    const TransferPlan::Transfer& planned = plan.transfers[i];
    Transfer& transfer = transfers_[i];
    transfer.sender = agent(planned.from);
    transfer.receiver = agent(planned.to);
    transfer.streamed = reduces || collective_ == Collective::kBcast;
    if (planned.forwards == TransferPlan::kNone || !pieces) continue;
    transfer.streamed = transfers_[planned.forwards].streamed = true;
  }
  if (!pieces) return;
  for (const TransferPlan::Token& token : plan.tokens) {
    if (token.left > 0) transfers_[token.after].streamed = true;
  }
}

void TransferOrder::set_times(const TransferPlan& plan) {
  std::vector<std::vector<TransferPlan::Token>> tokens(transfers_.size());  // by `before`
  for (const TransferPlan::Token& token : plan.tokens) tokens[token.before].push_back(token);
  const Sums sums(collective_, shape_.servers());
  std::vector<int64_t> busy(shape_.ranks()), combined(sums.count());
  std::map<std::pair<Rank, Rank>, int64_t> last;  // of the transfers of a pair: the end
  for (size_t i = 0; i < transfers_.size(); ++i) {
    const TransferPlan::Transfer& planned = plan.transfers[i];
    Transfer& transfer = transfers_[i];
    int64_t start = std::max(planned.start_ns, busy[transfer.sender]);
    int64_t end = 0;
    for (const TransferPlan::Token& token : tokens[i]) {
      const Transfer& after = transfers_[token.after];
      const double left =
          after.streamed ? static_cast<double>(token.left) / TransferPlan::kParts : 0;
      const auto ahead = static_cast<int64_t>(static_cast<double>(after.end - after.start) * left);
      start = std::max(start, std::max(after.start, after.end - ahead) + 1);
    }
    const size_t awaited = sums.awaited_by(planned), fed = sums.fed_by(planned);
    if (awaited != Sums::kNone) {
      start = std::max(start, combined[awaited]);
    } else if (planned.forwards != TransferPlan::kNone) {
      const Transfer& brings = transfers_[planned.forwards];
      start = std::max(start, brings.arrival() + 1);
      end = brings.end + 1;
    }
    int64_t& before = last[{transfer.sender, transfer.receiver}];
    transfer.start = start = std::max(start, before + 1);
    before = transfer.end = std::max({end, start + 1, start + planned.end_ns - planned.start_ns});
    // What is passed on comes piece by piece, and holds back what its sender sends next.
    const bool waits = awaited != Sums::kNone || planned.forwards != TransferPlan::kNone;
    if (transfer.streamed && waits) busy[transfer.sender] = transfer.end + 1;
    if (fed != Sums::kNone) combined[fed] = std::max(combined[fed], transfer.end + 1);
  }
}

void TransferOrder::number_signals(const TransferPlan& plan) {
  for (const TransferPlan::Token& token : plan.tokens) {
    const Transfer &after = transfers_[token.after], &before = transfers_[token.before];
    if (after.receiver == before.sender) {
      turns_.push_back(token);
    } else {
      signals_.push_back({token.after, token.before, after.streamed ? token.left : 0, 0});
    }
  }
  std::sort(signals_.begin(), signals_.end(), [this](const Signal& a, const Signal& b) {
    return std::tuple(transfers_[a.after].arrival(), a.after, b.left, a.before) <
           std::tuple(transfers_[b.after].arrival(), b.after, a.left, b.before);
  });
  std::map<std::pair<Rank, Rank>, uint32_t> count;
  for (Signal& signal : signals_) {
    signal.number = ++count[{transfers_[signal.after].receiver, transfers_[signal.before].sender}];
  }
}

}  // namespace ibcoll
