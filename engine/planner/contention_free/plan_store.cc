#include "engine/planner/contention_free/plan_store.h"

#include <algorithm>
#include <bit>

namespace ibcoll::contention_free {

namespace {

constexpr uint64_t kUnequalBytes = 64 * 1024;

Kind kind_of(Collective collective) {
  switch (collective) {
    case Collective::kGather:
    case Collective::kGatherv:
      return Kind::kGather;
    case Collective::kScatter:
    case Collective::kScatterv:
      return Kind::kScatter;
    case Collective::kAllgather:
    case Collective::kAllgatherv:
      return Kind::kAllgather;
    case Collective::kBcast:
      return Kind::kBcast;
    case Collective::kReduce:
      return Kind::kReduce;
    default:
      return Kind::kAlltoall;
  }
}

}  // namespace

TransferPlan transfer_plan(const Plan& plan) {
  TransferPlan result;
  for (const Transfer& transfer : plan.transfers) {
    result.transfers.push_back({transfer.from, transfer.to, transfer.origin, transfer.target,
                                transfer.forwards, transfer.start_ns, transfer.end_ns});
  }
  for (const Token& token : plan.tokens) result.tokens.push_back({token.after, token.before});
  result.seal();
  return result;
}

Result<std::shared_ptr<const TransferPlan>> PlanStore::find(Collective collective,
                                                            const Shape& shape,
                                                            std::span<const int> hosts, Rank root,
                                                            int64_t block_bytes) {
  if (collective == Collective::kBarrier || shape.servers() == 1) return nullptr;
  PlanRequest request;
  request.kind = kind_of(collective);
  request.root = has_root(collective) ? shape.server_of(root) : 0;
  for (int server = 0; server < shape.servers(); ++server) {
    request.server_ranks.push_back(shape.server_size(server));
  }
  const uint64_t bytes =
      block_bytes < 0 ? kUnequalBytes : static_cast<uint64_t>(std::max<int64_t>(block_bytes, 1));
  request.block_bytes = std::bit_ceil(bytes);
  request.fabric = &fabric_;
  request.hosts.assign(hosts.begin(), hosts.end());
  request.tokens_ahead = false;
  std::shared_ptr<const TransferPlan>& plan =
      plans_[{request.kind, request.block_bytes, shape.hash(), request.root, request.hosts}];
  if (plan == nullptr) {
    IBCOLL_ASSIGN(const Plan made, plan_transfers(request));
    plan = std::make_shared<const TransferPlan>(transfer_plan(made));
  }
  return plan;
}

}  // namespace ibcoll::contention_free
