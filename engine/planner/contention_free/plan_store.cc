#include "engine/planner/contention_free/plan_store.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <queue>
#include <set>
#include <utility>

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

/// The transfers in the order of their starts, none before one that it comes after: transfers that
/// start together need not stand in that order in the plan.
std::vector<uint32_t> order_of(const Plan& plan) {
  const auto count = static_cast<uint32_t>(plan.transfers.size());
  std::vector<std::vector<uint32_t>> followers(count);
  std::vector<uint32_t> waits(count);
  const auto follows = [&](uint32_t after, uint32_t before) {
    followers[after].push_back(before);
    ++waits[before];
  };
  for (const Token& token : plan.tokens) follows(token.after, token.before);
  std::vector<std::vector<uint32_t>> into(plan.servers);
  for (uint32_t i = 0; i < count; ++i) into[plan.transfers[i].to].push_back(i);
  for (uint32_t i = 0; i < count; ++i) {
    const Transfer& transfer = plan.transfers[i];
    if (plan.kind == Kind::kReduce) {
      for (const uint32_t source : into[transfer.from]) follows(source, i);
    } else if (transfer.forwards != Transfer::kNone) {
      follows(transfer.forwards, i);
    }
  }
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> free;
  for (uint32_t i = 0; i < count; ++i) {
    if (waits[i] == 0) free.push(i);
  }
  std::vector<uint32_t> order;
  while (!free.empty()) {
    order.push_back(free.top());
    free.pop();
    for (const uint32_t next : followers[order.back()]) {
      if (--waits[next] == 0) free.push(next);
    }
  }
  return order;
}

using Links = std::vector<int>;

Links common(const Links& sorted, Links links) {
  Links both;
  std::sort(links.begin(), links.end());
  std::set_intersection(sorted.begin(), sorted.end(), links.begin(), links.end(),
                        std::back_inserter(both));
  return both;
}

/// (after, before) of the tokens. What one server sends one after the other needs none, and is all
/// there only together: whoever waits for the last on a link waits for those before it on that link
/// as well.
std::set<std::pair<uint32_t, uint32_t>> orders_of(const Plan& plan, const topology::Fabric& fabric,
                                                  std::span<const int> hosts) {
  const auto links = [&](uint32_t i) {
    const Transfer& transfer = plan.transfers[i];
    const auto host = [&](int server) { return hosts.empty() ? server : hosts[server]; };
    return fabric.route(host(transfer.from), host(transfer.to));
  };
  std::vector<std::vector<uint32_t>> earlier(plan.transfers.size());  // of the same server
  std::set<std::pair<uint32_t, uint32_t>> orders;
  for (const Token& token : plan.tokens) {
    orders.emplace(token.after, token.before);
    if (plan.transfers[token.after].from == plan.transfers[token.before].from) {
      earlier[token.before].push_back(token.after);
    }
  }
  for (const Token& token : plan.tokens) {
    if (plan.transfers[token.after].from == plan.transfers[token.before].from) continue;
    Links way = links(token.before);
    std::sort(way.begin(), way.end());
    std::vector<std::pair<uint32_t, Links>> open = {{token.after, common(way, links(token.after))}};
    while (!open.empty()) {
      const auto [last, shared] = std::move(open.back());
      open.pop_back();
      for (const uint32_t before : earlier[last]) {
        Links still = common(shared, links(before));
        if (still.empty() || !orders.emplace(before, token.before).second) continue;
        open.emplace_back(before, std::move(still));
      }
    }
  }
  return orders;
}

}  // namespace

TransferPlan transfer_plan(const Plan& plan, const topology::Fabric& fabric,
                           std::span<const int> hosts) {
  TransferPlan result;
  const std::vector<uint32_t> order = order_of(plan);
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (const uint32_t i : order) {
    const Transfer& transfer = plan.transfers[i];
    const bool forwards = transfer.forwards != Transfer::kNone;
    result.transfers.push_back({transfer.from, transfer.to, transfer.origin, transfer.target,
                                forwards ? place[transfer.forwards] : TransferPlan::kNone,
                                transfer.start_ns, transfer.end_ns});
  }
  for (const auto& [after, before] : orders_of(plan, fabric, hosts)) {
    result.tokens.push_back({place[after], place[before]});
  }
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
    plan = std::make_shared<const TransferPlan>(transfer_plan(made, fabric_, hosts));
  }
  return plan;
}

}  // namespace ibcoll::contention_free
