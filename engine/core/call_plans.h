#pragma once
/// The plans of a group's calls.

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/call_plan.h"
#include "engine/core/plan_sources.h"
#include "engine/execute/posted_call.h"
#include "engine/tuner/choose.h"

namespace ibcoll {

/// The longest blocks of an algorithm's calls whose messages between servers carry their data at
/// once, where messages of `eager_bytes` do; -1: none do.
int64_t eager_block_bytes(const Algorithm& algorithm, const Shape& shape, Pacing pacing,
                          int64_t eager_bytes);

/// Chooses them, and keeps the latest: programs repeat their calls. Those of a group of one call
/// are not kept, nor contention_free ones made unless that is asked for by name: the first call on
/// a set takes no longer than a later one.
class CallPlans {
 public:
  /// `hosts`: the fabric's, of the group's servers; empty: it is not known. Sources and group must
  /// outlive it.
  CallPlans(PlanSources& sources, const GroupState& group, std::vector<int>&& hosts);
  ~CallPlans();

  /// What it keeps for each collective that the group calls.
  static constexpr size_t bytes_each() { return sizeof(KnownOfCollective); }

  /// Chooses algorithm and options for a call. `block_bytes`: of equal blocks; -1 where they may
  /// differ, since every rank must come to the same choice. `root`: 0 where there is none.
  /// `counts`: of blocks that differ, by rank, where all ranks know all of them; else empty. Fails
  /// with the names there are where the algorithm is unknown. Valid until the next call.
  Result<const CallPlan*> find(Collective collective, int64_t block_bytes, Rank root,
                               const CallOptions& options, std::span<const int64_t> counts = {});
  /// Which algorithms may serve calls better than what find() chooses where they leave it open;
  /// none where a rule or a plan has chosen that. The same on all ranks of the group.
  AlgorithmNames worth_trying(Collective collective, int64_t block_bytes) const;
  /// Has calls choose anew, after PlanSources::rules have changed.
  void forget();
  /// Drops what is kept for calls on that graph, which the program has freed.
  void forget(const std::shared_ptr<const Graph>& graph);

 private:
  /// One of the latest plans.
  struct Known {
    int64_t block_bytes = -2;  ///< or the mean, where rules go by it
    Rank root = 0;
    std::string algorithm;
    CallOptions options;  ///< but for the algorithm, whose name need not stay
    CallPlan plan;

    bool is_for(int64_t bytes, Rank of_root, const CallOptions& with) const {
      return block_bytes == bytes && root == of_root && algorithm == with.algorithm &&
             options.pacing == with.pacing && options.pieces == with.pieces &&
             options.ordered == with.ordered && options.graph == with.graph;
    }
  };
  /// Where plans of so many sizes and roots stand, by their hash; those that meet replace each
  /// other.
  static constexpr int kKnownBits = 3;
  using KnownOfCollective = std::array<Known, 1 << kKnownBits>;
  class Transfers;

  CallFacts facts_of(Collective collective, int64_t block_bytes, const CallOptions& options) const;
  Status choose_plan(const CallFacts& facts, int64_t rule_bytes, Rank root,
                     const CallOptions& options, std::span<const int64_t> counts, CallPlan& plan);

  PlanSources& sources_;
  const GroupState& group_;
  const std::vector<int> hosts_;
  /// What a walk over the servers takes on the fabric with blocks of one byte, once asked for.
  std::optional<double> walk_seconds_;
  /// By collective; empty: none is kept. A group of one call is not to take long to make.
  std::vector<std::unique_ptr<KnownOfCollective>> known_;
  CallPlan other_;  ///< the latest one that is not kept
};

}  // namespace ibcoll
