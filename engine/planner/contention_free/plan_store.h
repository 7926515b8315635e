#pragma once
/// Plans as programs are built from them, made once for each kind, size class, shape and fabric.

#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "engine/planner/contention_free/plan.h"
#include "engine/schedule/transfer_plan.h"

namespace ibcoll::contention_free {

/// The order of a plan without its rates, as algorithm contention_free takes it. What its programs
/// do is always right whatever the plan's timing: tokens are sent when transfers are all there.
/// `hosts`: of each server, as the plan was made for; empty: host s is server s.
TransferPlan transfer_plan(const Plan& plan, const topology::Fabric& fabric,
                           std::span<const int> hosts);

/// Of one fabric. Every rank that asks for the same gets the same.
class PlanStore {
 public:
  explicit PlanStore(topology::Fabric fabric) : fabric_(std::move(fabric)) {}
  const topology::Fabric& fabric() const { return fabric_; }

  /// The plan for blocks of `block_bytes`, rounded up to a power of two, or where they differ (-1)
  /// for some of a usual size, since no rank knows them all. `hosts`: of each server of the shape.
  /// Null for a barrier and for a single server, which need none. Fails where the fabric has no
  /// such hosts.
  Result<std::shared_ptr<const TransferPlan>> find(Collective collective, const Shape& shape,
                                                   std::span<const int> hosts, Rank root,
                                                   int64_t block_bytes);

 private:
  using Key = std::tuple<Kind, uint64_t, uint64_t, int, std::vector<int>>;
  topology::Fabric fabric_;
  std::map<Key, std::shared_ptr<const TransferPlan>> plans_;
};

}  // namespace ibcoll::contention_free
