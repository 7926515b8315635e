#pragma once
/// Plans as programs are built from them, made once for each kind, size class, shape and fabric.

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/planner/contention_free/cache.h"
#include "engine/schedule/transfer_plan.h"

namespace ibcoll::contention_free {

/// The order of a plan without its rates, as algorithm contention_free takes it. What its programs
/// do is always right, whatever the plan's timing. `hosts`: of each server, as the plan was made
/// for; empty: host s is server s.
TransferPlan transfer_plan(const Plan& plan, const topology::Fabric& fabric,
                           std::span<const int> hosts);

struct PlanStoreOptions {
  /// Tokens go out by the known latency before the transfer is all there; else when it is, which
  /// takes longer but can be proved without a clock (planner/link_sharing.h).
  bool tokens_ahead = true;
  /// Where plans are kept from job to job, a file for each shape (PlanCache); empty: nowhere.
  std::string directory = {};
};

/// Of one fabric. Every rank that asks for the same gets the same.
class PlanStore {
 public:
  explicit PlanStore(topology::Fabric fabric, PlanStoreOptions options = {});
  const topology::Fabric& fabric() const { return fabric_; }

  /// The plan for blocks of `block_bytes`, of their size class (PlanCache::size_class), or where
  /// they differ (-1) for some of a usual size, since no rank knows them all. `hosts`: of each
  /// server of the shape. Null for a barrier and for a single server, which need none. Fails where
  /// the fabric has no such hosts. A file of plans that can't be used is reported in one line, and
  /// what it should have had is planned anew.
  Result<std::shared_ptr<const TransferPlan>> find(Collective collective, const Shape& shape,
                                                   std::span<const int> hosts, Rank root,
                                                   int64_t block_bytes);

  /// Writes the files of the shapes that plans have been made for since they were read. One process
  /// that shares the directory is enough; of several the last one's stay.
  Status save();

 private:
  /// What is known for one shape.
  struct Shaped {
    Shaped(uint64_t shape_hash, const PlanRequest& request)
        : shape(shape_hash), hosts(request.hosts), plans(request) {}
    uint64_t shape;
    std::vector<int> hosts;
    PlanCache plans;
    std::unordered_map<const Plan*, std::shared_ptr<const TransferPlan>> orders;
    size_t in_file = 0;
  };
  Shaped& shaped(const Shape& shape, std::span<const int> hosts);
  std::string path_of(const Shaped& shaped) const;

  topology::Fabric fabric_;
  PlanStoreOptions options_;
  std::vector<std::unique_ptr<Shaped>> shapes_;
};

}  // namespace ibcoll::contention_free
