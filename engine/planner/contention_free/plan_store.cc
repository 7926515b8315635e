#include "engine/planner/contention_free/plan_store.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "engine/base/log.h"

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

using Orders = std::vector<TransferPlan::Token>;

/// The transfers in the order of their starts, none before one that it comes after: transfers that
/// start together need not stand in that order in the plan.
std::vector<uint32_t> order_of(const Plan& plan, const Orders& orders) {
  const auto count = static_cast<uint32_t>(plan.transfers.size());
  std::vector<std::vector<uint32_t>> followers(count);
  std::vector<uint32_t> waits(count);
  const auto follows = [&](uint32_t after, uint32_t before) {
    followers[after].push_back(before);
    ++waits[before];
  };
  for (const TransferPlan::Token& order : orders) follows(order.after, order.before);
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

/// Of a plan whose tokens are sent at full arrival. What one server sends one after the other needs
/// no token, and is all there only together: whoever waits for the last on a link waits for those
/// before it on that link as well.
Orders arrivals(const Plan& plan, const topology::Fabric& fabric, std::span<const int> hosts) {
  const auto links = [&](uint32_t i) {
    const Transfer& transfer = plan.transfers[i];
    const auto host = [&](int server) { return hosts.empty() ? server : hosts[server]; };
    return fabric.route(host(transfer.from), host(transfer.to));
  };
  const auto same_server = [&](const Token& token) {
    return plan.transfers[token.after].from == plan.transfers[token.before].from;
  };
  std::vector<std::vector<uint32_t>> earlier(plan.transfers.size());  // of the same server
  for (const Token& token : plan.tokens) {
    if (same_server(token)) earlier[token.before].push_back(token.after);
  }
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const Token& token : plan.tokens) {
    if (same_server(token)) continue;
    pairs.emplace(token.after, token.before);
    Links way = links(token.before);
    std::sort(way.begin(), way.end());
    std::vector<std::pair<uint32_t, Links>> open = {{token.after, common(way, links(token.after))}};
    while (!open.empty()) {
      const auto [last, shared] = std::move(open.back());
      open.pop_back();
      for (const uint32_t before : earlier[last]) {
        Links still = common(shared, links(before));
        if (still.empty() || !pairs.emplace(before, token.before).second) continue;
        open.emplace_back(before, std::move(still));
      }
    }
  }
  Orders orders;
  for (const auto& [after, before] : pairs) orders.push_back({after, before, 0});
  return orders;
}

/// Of a plan whose tokens are sent ahead. A program has no clock, and a sender does not see what
/// has left it, so tokens are sent by the anchor's receiver: by what is left when the token has to
/// go, or with the first piece it sees where that is later. What the plan starts before anything
/// can be heard of anything else waits for nothing: together it is less than is under way on the
/// link at a time.
Orders moments(const Plan& plan, const topology::Fabric& fabric, std::span<const int> hosts) {
  const auto latency_ns = [&](int from, int to) {
    if (from == to) return int64_t{0};
    return hosts.empty() ? fabric.route_latency_ns(from, to)
                         : fabric.route_latency_ns(hosts[from], hosts[to]);
  };
  /// How much of `anchor` is still to come when its receiver must send the token.
  const auto part_left = [&](uint32_t anchor, uint32_t before) {
    const Transfer &a = plan.transfers[anchor], &b = plan.transfers[before];
    const int64_t sent_ns = b.start_ns - latency_ns(a.to, b.from);
    return static_cast<double>(a.end_ns - sent_ns) * a.rate * 1e-9 / static_cast<double>(a.bytes);
  };
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> left;
  for (const Token& token : plan.tokens) {
    const bool same_server = plan.transfers[token.after].from == plan.transfers[token.before].from;
    if (same_server || token.anchor == Token::kNone) continue;
    uint32_t anchor = token.anchor;
    double part = part_left(anchor, token.before);
    if (part < 0 && token.after < token.before) {  // too early: the anchor was over long before
      anchor = token.after;
      part = part_left(anchor, token.before);
    }
    constexpr uint32_t kMost = TransferPlan::kParts - 1;
    const auto parts = static_cast<uint32_t>(std::clamp(part, 0.0, 1.0) * kMost);
    const auto [known, added] = left.emplace(std::pair(anchor, token.before), parts);
    if (!added) known->second = std::min(known->second, parts);
  }
  Orders orders;
  for (const auto& [pair, parts] : left) orders.push_back({pair.first, pair.second, parts});
  return orders;
}

}  // namespace

TransferPlan transfer_plan(const Plan& plan, const topology::Fabric& fabric,
                           std::span<const int> hosts) {
  TransferPlan result;
  const Orders orders =
      plan.tokens_ahead ? moments(plan, fabric, hosts) : arrivals(plan, fabric, hosts);
  const std::vector<uint32_t> order = order_of(plan, orders);
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (const uint32_t i : order) {
    const Transfer& transfer = plan.transfers[i];
    const bool forwards = transfer.forwards != Transfer::kNone;
    result.transfers.push_back({transfer.from, transfer.to, transfer.origin, transfer.target,
                                forwards ? place[transfer.forwards] : TransferPlan::kNone,
                                transfer.start_ns, transfer.end_ns});
  }
  for (const TransferPlan::Token& token : orders) {
    result.tokens.push_back({place[token.after], place[token.before], token.left});
  }
  result.seal();
  return result;
}

PlanStore::PlanStore(topology::Fabric fabric, PlanStoreOptions options)
    : fabric_(std::move(fabric)), options_(std::move(options)) {}

std::string PlanStore::path_of(const Shaped& shaped) const {
  return fmt::format("{}/{:016x}.jsonl", options_.directory, shaped.plans.hash());
}

PlanStore::Shaped& PlanStore::shaped(const Shape& shape, std::span<const int> hosts) {
  const auto known =
      std::find_if(shapes_.begin(), shapes_.end(), [&](const std::unique_ptr<Shaped>& one) {
        return one->shape == shape.hash() &&
               std::equal(one->hosts.begin(), one->hosts.end(), hosts.begin(), hosts.end());
      });
  if (known != shapes_.end()) return **known;
  PlanRequest request;
  for (int server = 0; server < shape.servers(); ++server) {
    request.server_ranks.push_back(shape.server_size(server));
  }
  request.fabric = &fabric_;
  request.hosts.assign(hosts.begin(), hosts.end());
  request.tokens_ahead = options_.tokens_ahead;
  Shaped& added = *shapes_.emplace_back(std::make_unique<Shaped>(shape.hash(), request));
  if (options_.directory.empty() || access(path_of(added).c_str(), F_OK) != 0) return added;
  if (const Status loaded = added.plans.load(path_of(added)); !loaded) {
    log().warn("plans are made anew: {}", loaded.error().message);
  }
  added.in_file = added.plans.size();
  return added;
}

Status PlanStore::save() {
  if (options_.directory.empty()) return {};
  for (const std::unique_ptr<Shaped>& one : shapes_) {
    if (one->plans.size() == one->in_file) continue;
    // Others may read the file, or write it too.
    const std::string path = path_of(*one), draft = fmt::format("{}.{}", path, getpid());
    IBCOLL_TRY(one->plans.save(draft));
    if (std::rename(draft.c_str(), path.c_str()) != 0) return fail_errno(path);
    one->in_file = one->plans.size();
  }
  return {};
}

Result<std::shared_ptr<const TransferPlan>> PlanStore::find(Collective collective,
                                                            const Shape& shape,
                                                            std::span<const int> hosts, Rank root,
                                                            int64_t block_bytes) {
  if (collective == Collective::kBarrier || shape.servers() == 1) return nullptr;
  Shaped& here = shaped(shape, hosts);
  const uint64_t bytes =
      block_bytes < 0 ? kUnequalBytes : static_cast<uint64_t>(std::max<int64_t>(block_bytes, 1));
  IBCOLL_ASSIGN(
      const std::shared_ptr<const Plan> made,
      here.plans.get(kind_of(collective), has_root(collective) ? shape.server_of(root) : 0, bytes));
  std::shared_ptr<const TransferPlan>& plan = here.orders[made.get()];
  if (plan == nullptr) {
    plan = std::make_shared<const TransferPlan>(transfer_plan(*made, fabric_, hosts));
  }
  return plan;
}

}  // namespace ibcoll::contention_free
