#pragma once
/// Plans as programs are built from them, made once for each collective, size class, shape and
/// fabric.

#include <array>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/planner/contention_free/plan.h"
#include "engine/schedule/transfer_plan.h"

namespace ibcoll::contention_free {

struct PlanStoreOptions {
  /// Hosts of the fabric that may send to each other, either way, a pair after the other; empty:
  /// all may.
  std::vector<int> permitted = {};
  /// Tokens go out by the known latency before the transfer is all there; else when it is, which
  /// takes longer but can be proved without a clock (studies/verification/link_sharing.h).
  bool tokens_ahead = true;
  /// Where plans are kept from job to job, a file for each shape (PlanCache); empty: nowhere.
  std::string directory = {};
  /// Whether this store writes there what it drops, too (save()).
  bool saves_dropped = false;
  /// What plans take at most, as far as is known without asking the allocator; the four used last
  /// are kept however large.
  size_t most_bytes = size_t{64} << 20;
};

/// Of one fabric. Every rank that asks for the same gets the same.
class PlanStore {
 public:
  explicit PlanStore(topology::Fabric fabric, PlanStoreOptions options = {});
  ~PlanStore();
  const topology::Fabric& fabric() const { return fabric_; }

  /// The plan for blocks of `block_bytes`, of their size class (PlanCache::size_class), or where
  /// they differ (-1) for some of a usual size. `hosts`: of each server of the shape. Null for a
  /// barrier and for a single server, which need none. Fails where the fabric has no such hosts, or
  /// the collective no plans. A file of plans that can't be used is reported in one line, and what
  /// it should have had is planned anew.
  Result<std::shared_ptr<const TransferPlan>> find(Collective collective, const Shape& shape,
                                                   std::span<const int> hosts, Rank root,
                                                   int64_t block_bytes);
  /// The plan for blocks that differ, where every rank knows all their sizes (`counts`, by rank):
  /// allgatherv. What a server has in all is taken by its size class. Costs about 5 ns a rank.
  Result<std::shared_ptr<const TransferPlan>> find(Collective collective, const Shape& shape,
                                                   std::span<const int> hosts,
                                                   std::span<const int64_t> counts);

  /// What a checked plan keeps to.
  struct Proof {
    int64_t time_ns = 0;
    int64_t jitter_ns = 0;  ///< Plan::jitter_ns
  };
  /// Checks the plan that find() gives for blocks of this size (check.h): of tokens sent ahead in
  /// time. The error is the first violation. Needs a plan: several servers, no barrier.
  Result<Proof> check(Collective collective, const Shape& shape, std::span<const int> hosts,
                      Rank root, int64_t block_bytes);

  /// Of the plans that are kept: what find() and check() asked for, and what files had.
  size_t bytes() const { return bytes_; }
  size_t size() const { return by_use_.size(); }

  /// Writes the files of the shapes that plans have been made for since they were read, with the
  /// plans that are kept. One process that shares the directory is enough; of several the last
  /// one's stay.
  Status save();

 private:
  struct Shaped;
  struct Entry {
    Shaped* of;
    std::shared_ptr<const Plan> plan;
    /// Of blocks that differ, and of equal ones, which may be cut into pieces; null: not asked for.
    std::array<std::shared_ptr<const TransferPlan>, 2> orders;
    size_t bytes;
  };
  using Entries = std::list<Entry>;
  Shaped& shaped(const Shape& shape, std::span<const int> hosts);
  Result<Entry*> make(Shaped& of, Collective collective, const Shape& shape, Rank root,
                      int64_t block_bytes);
  /// Puts what a lookup gave in front of the others. One that failed leaves no empty shape behind.
  Result<Entry*> use(Shaped& of, Result<std::shared_ptr<const Plan>> plan);
  Entry& enter(Shaped& of, std::shared_ptr<const Plan> plan);
  /// `block_bytes`: of the size class; 0: blocks differ.
  std::shared_ptr<const TransferPlan> order(Entry& entry, uint64_t block_bytes);
  void drop_what_is_too_much();
  void drop_the_oldest();
  void erase(const Shaped* of);
  Status save(Shaped& of);
  std::string path_of(const Shaped& shaped) const;

  topology::Fabric fabric_;
  PlanStoreOptions options_;
  std::vector<std::unique_ptr<Shaped>> shapes_;
  Entries by_use_;  ///< the one used last comes first
  size_t bytes_ = 0;
};

}  // namespace ibcoll::contention_free
