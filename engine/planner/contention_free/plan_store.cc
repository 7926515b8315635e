#include "engine/planner/contention_free/plan_store.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <unordered_map>
#include <utility>

#include "engine/base/log.h"
#include "engine/planner/contention_free/cache.h"
#include "engine/planner/contention_free/program_plan.h"

namespace ibcoll::contention_free {

namespace {

constexpr uint64_t kUnequalBytes = 64 * 1024;
/// What is cut so that tokens can be sent ahead is cut into pieces of so long, no shorter or
/// longer than so many bytes.
constexpr double kPieceSeconds = 2e-6;
constexpr double kLeastPieceBytes = 1024, kMostPieceBytes = 4096;
constexpr double kMostPieces = 64;
/// Plans that are kept however large they are: a program that makes a few calls in turn must not
/// plan them again and again.
constexpr size_t kLeastPlans = 4;

template <class T>
size_t bytes_in(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

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

/// The pairs of servers whose hosts are one of the pairs of hosts.
std::vector<std::pair<int, int>> permitted_servers(const topology::Fabric& fabric,
                                                   const std::vector<int>& permitted,
                                                   std::span<const int> hosts) {
  std::vector<int> server_at(fabric.hosts(), -1);
  for (size_t server = 0; server < hosts.size(); ++server) {
    const int host = hosts[server];  // the planner refuses those that are not there
    if (host >= 0 && host < fabric.hosts()) server_at[host] = static_cast<int>(server);
  }
  std::vector<std::pair<int, int>> pairs;
  for (size_t i = 0; i < permitted.size(); i += 2) {
    const int a = server_at[permitted[i]], b = server_at[permitted[i + 1]];
    if (a >= 0 && b >= 0) pairs.emplace_back(a, b);
  }
  return pairs;
}

}  // namespace

/// What is known for one shape, as long as some plan of it is kept.
struct PlanStore::Shaped {
  Shaped(uint64_t shape_hash, const PlanInputs& inputs)
      : shape(shape_hash), hosts(inputs.hosts), plans(inputs) {}
  uint64_t shape;
  std::vector<int> hosts;
  PlanCache plans;
  std::unordered_map<const Plan*, Entries::iterator> entries;  ///< all plans of `plans`
  std::vector<uint64_t> message_bytes;                         ///< of the lookup in hand
  bool changed = false;  ///< since its file was read or written
};

PlanStore::PlanStore(topology::Fabric fabric, PlanStoreOptions options)
    : fabric_(std::move(fabric)), options_(std::move(options)) {}
PlanStore::~PlanStore() = default;

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
  PlanInputs inputs;
  for (int server = 0; server < shape.servers(); ++server) {
    inputs.server_ranks.push_back(shape.server_size(server));
  }
  inputs.fabric = &fabric_;
  inputs.hosts.assign(hosts.begin(), hosts.end());
  inputs.tokens_ahead = options_.tokens_ahead;
  if (!options_.permitted.empty())
    inputs.permitted = permitted_servers(fabric_, options_.permitted, hosts);
  Shaped& added = *shapes_.emplace_back(std::make_unique<Shaped>(shape.hash(), inputs));
  if (options_.directory.empty() || access(path_of(added).c_str(), F_OK) != 0) return added;
  if (const Status loaded = added.plans.load(path_of(added)); !loaded) {
    log().warn("plans are made anew: {}", loaded.error().message);
  }
  for (std::shared_ptr<const Plan>& plan : added.plans.plans()) enter(added, std::move(plan));
  return added;
}

Status PlanStore::save() {
  if (options_.directory.empty()) return {};
  for (const std::unique_ptr<Shaped>& one : shapes_) {
    if (one->changed) IBCOLL_TRY(save(*one));
  }
  return {};
}

Status PlanStore::save(Shaped& of) {
  // Others may read the file, or write it too.
  const std::string path = path_of(of),
                    draft = fmt::format("{}.{}.{}", path, getpid(), fmt::ptr(this));
  IBCOLL_TRY(of.plans.save(draft));
  if (std::rename(draft.c_str(), path.c_str()) != 0) return fail_errno(path);
  of.changed = false;
  return {};
}

Result<std::shared_ptr<const TransferPlan>> PlanStore::find(Collective collective,
                                                            const Shape& shape,
                                                            std::span<const int> hosts, Rank root,
                                                            int64_t block_bytes) {
  if (!moves_data(collective) || shape.servers() == 1) return nullptr;
  Shaped& here = shaped(shape, hosts);
  IBCOLL_ASSIGN(Entry* const made, make(here, collective, shape, root, block_bytes));
  return order(*made, block_bytes < 0 ? 0 : PlanCache::size_class(bytes_of(block_bytes)));
}

Result<PlanStore::Entry*> PlanStore::make(Shaped& of, Collective collective, const Shape& shape,
                                          Rank root, int64_t block_bytes) {
  return use(of,
             of.plans.get(planned_as(collective), has_root(collective) ? shape.server_of(root) : 0,
                          bytes_of(block_bytes)));
}

Result<PlanStore::Entry*> PlanStore::use(Shaped& of, Result<std::shared_ptr<const Plan>> plan) {
  if (!plan) {
    if (of.entries.empty()) erase(&of);
    return tl::unexpected<Error>(std::move(plan).error());
  }
  if (const auto known = of.entries.find(plan->get()); known != of.entries.end()) {
    by_use_.splice(by_use_.begin(), by_use_, known->second);
    return &by_use_.front();
  }
  of.changed = true;
  return &enter(of, *std::move(plan));
}

PlanStore::Entry& PlanStore::enter(Shaped& of, std::shared_ptr<const Plan> plan) {
  const size_t bytes =
      sizeof(Plan) + bytes_in(plan->transfers) + bytes_in(plan->tokens) + bytes_in(of.hosts);
  by_use_.push_front({&of, std::move(plan), {}, bytes});
  of.entries.emplace(by_use_.front().plan.get(), by_use_.begin());
  bytes_ += bytes;
  return by_use_.front();
}

Result<PlanStore::Proof> PlanStore::check(Collective collective, const Shape& shape,
                                          std::span<const int> hosts, Rank root,
                                          int64_t block_bytes) {
  Shaped& here = shaped(shape, hosts);
  IBCOLL_ASSIGN(Entry* const made, make(here, collective, shape, root, block_bytes));
  drop_what_is_too_much();
  IBCOLL_TRY(here.plans.check_last());
  return Proof{made->plan->time_ns, made->plan->jitter_ns};
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
  IBCOLL_ASSIGN(Entry* const made,
                use(here, here.plans.get(planned_as(collective), 0, here.message_bytes)));
  return order(*made, 0);
}

std::shared_ptr<const TransferPlan> PlanStore::order(Entry& entry, uint64_t block_bytes) {
  std::shared_ptr<const TransferPlan>& known = entry.orders[block_bytes > 0 ? 1 : 0];
  if (known) return known;
  const Plan& plan = *entry.plan;
  known = std::make_shared<const TransferPlan>(
      transfer_plan(plan, fabric_, entry.of->hosts, most_pieces(plan, block_bytes)));
  const size_t bytes = sizeof(TransferPlan) + bytes_in(known->transfers) + bytes_in(known->tokens);
  entry.bytes += bytes;
  bytes_ += bytes;
  drop_what_is_too_much();
  return known;
}

void PlanStore::drop_what_is_too_much() {
  while (bytes_ > options_.most_bytes && by_use_.size() > kLeastPlans) drop_the_oldest();
}

void PlanStore::drop_the_oldest() {
  const Entry oldest = std::move(by_use_.back());
  by_use_.pop_back();
  bytes_ -= oldest.bytes;
  Shaped& of = *oldest.of;
  // While all plans of the shape are there; not again and again of the shape that is in use.
  const bool saves = options_.saves_dropped && !options_.directory.empty();
  if (saves && of.changed && &of != by_use_.front().of) {
    if (const Status saved = save(of); !saved) {
      log().warn("plans are not kept: {}", saved.error().message);
    }
  }
  of.entries.erase(oldest.plan.get());
  of.plans.forget(oldest.plan.get());
  if (of.entries.empty()) erase(&of);
}

void PlanStore::erase(const Shaped* of) {
  std::erase_if(shapes_, [of](const auto& one) { return one.get() == of; });
}

}  // namespace ibcoll::contention_free
