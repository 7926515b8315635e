#include "engine/planner/contention_free/plan_store.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engine/base/log.h"
#include "engine/planner/contention_free/program_plan.h"

namespace ibcoll::contention_free {

namespace {

constexpr uint64_t kUnequalBytes = 64 * 1024;
/// What is cut so that tokens can be sent ahead is cut into pieces of so long, no shorter or
/// longer than so many bytes.
constexpr double kPieceSeconds = 2e-6;
constexpr double kLeastPieceBytes = 1024, kMostPieceBytes = 4096;
constexpr double kMostPieces = 64;

/// How many pieces blocks may be cut into; 0 bytes: blocks differ.
uint32_t most_pieces(const Plan& plan, uint64_t block_bytes) {
  double rate = 0;
  for (const Transfer& transfer : plan.transfers) rate = std::max(rate, transfer.rate);
  const double piece = std::clamp(kPieceSeconds * rate, kLeastPieceBytes, kMostPieceBytes);
  const double pieces = static_cast<double>(block_bytes) / piece;
  return static_cast<uint32_t>(std::clamp(pieces, 1.0, kMostPieces));
}

/// What a plan is made for; -1: blocks differ.
uint64_t bytes_of(int64_t block_bytes) {
  return block_bytes < 0 ? kUnequalBytes : static_cast<uint64_t>(std::max<int64_t>(block_bytes, 1));
}

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
  IBCOLL_ASSIGN(const std::shared_ptr<const Plan> made,
                make(here, collective, shape, root, block_bytes));
  return order(here, made, block_bytes < 0 ? 0 : PlanCache::size_class(bytes_of(block_bytes)));
}

Result<std::shared_ptr<const Plan>> PlanStore::make(Shaped& of, Collective collective,
                                                    const Shape& shape, Rank root,
                                                    int64_t block_bytes) {
  return of.plans.get(kind_of(collective), has_root(collective) ? shape.server_of(root) : 0,
                      bytes_of(block_bytes));
}

Result<PlanStore::Proof> PlanStore::check(Collective collective, const Shape& shape,
                                          std::span<const int> hosts, Rank root,
                                          int64_t block_bytes) {
  Shaped& here = shaped(shape, hosts);
  IBCOLL_ASSIGN(const std::shared_ptr<const Plan> made,
                make(here, collective, shape, root, block_bytes));
  IBCOLL_TRY(here.plans.check_last());
  return Proof{made->time_ns, made->jitter_ns};
}

Result<std::shared_ptr<const TransferPlan>> PlanStore::find(Collective collective,
                                                            const Shape& shape,
                                                            std::span<const int> hosts,
                                                            std::span<const int64_t> counts) {
  if (shape.servers() == 1) return nullptr;
  Shaped& here = shaped(shape, hosts);
  here.message_bytes.assign(shape.servers(), 0);
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    here.message_bytes[shape.server_of(rank)] += static_cast<uint64_t>(counts[rank]);
  }
  for (uint64_t& bytes : here.message_bytes) {
    bytes = PlanCache::size_class(std::max<uint64_t>(bytes, 1));  // programs send empty blocks too
  }
  IBCOLL_ASSIGN(const std::shared_ptr<const Plan> made,
                here.plans.get(kind_of(collective), 0, here.message_bytes));
  return order(here, made, 0);
}

std::shared_ptr<const TransferPlan> PlanStore::order(Shaped& of,
                                                     const std::shared_ptr<const Plan>& plan,
                                                     uint64_t block_bytes) {
  std::shared_ptr<const TransferPlan>& known = of.orders[block_bytes > 0 ? 1 : 0][plan.get()];
  if (known == nullptr) {
    known = std::make_shared<const TransferPlan>(
        transfer_plan(*plan, fabric_, of.hosts, most_pieces(*plan, block_bytes)));
  }
  return known;
}

}  // namespace ibcoll::contention_free
