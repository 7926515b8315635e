#pragma once
/// A set of ranks that makes collective calls.

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/core/call_plan.h"
#include "engine/core/context.h"
#include "engine/tuner/choose.h"

namespace ibcoll {

/// Lives as long as somebody has a share in it: its handle, and each of its calls.
class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(Context& context, Shape shape, std::vector<Rank> members, const GroupIdentity& identity);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Context& context() { return *context_; }
  Rank rank() const { return state_.me; }
  int size() const { return state_.shape.ranks(); }
  const Shape& shape() const { return state_.shape; }
  GroupState& state() { return state_; }
  const GroupIdentity& identity() const { return identity_; }
  /// The number of the next call of the group.
  uint32_t next_sequence() {
    ++*calls_of_list_;
    return Executor::next_sequence(state_);
  }

  /// Chooses algorithm and options for a call. `block_bytes`: of equal blocks; -1 where they may
  /// differ, since every rank must come to the same choice. `root`: 0 where there is none.
  /// `counts`: of blocks that differ, by rank, where all ranks know all of them; else empty. Fails
  /// with the names there are where the algorithm is unknown. Valid until the next call. Plans of a
  /// group of one call are not kept, nor contention_free ones made unless that is asked for by
  /// name: the first call on a set takes no longer than a later one.
  Result<const CallPlan*> call_plan(Collective collective, int64_t block_bytes, Rank root,
                                    const CallOptions& options,
                                    std::span<const int64_t> counts = {});
  /// Has calls choose anew, after Context::use_rules.
  void forget_call_plans();
  /// Drops what is kept for calls on that graph, which the program has freed.
  void forget(const std::shared_ptr<const Graph>& graph);

 private:
  /// One of the latest plans: programs repeat their calls.
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
  using KnownCallPlans = std::array<Known, 1 << kKnownBits>;

  Status plan_transfers(const CallFacts& facts, std::span<const int64_t> counts, uint32_t pieces,
                        const Algorithm*& algorithm, Choice& choice);

  Context* context_;
  GroupIdentity identity_;
  GroupState state_;
  uint32_t uncounted_ = 0;
  uint32_t* calls_of_list_ = &uncounted_;  ///< see GroupRecords::entered
  std::vector<int> hosts_;  ///< the fabric's hosts of the group's servers, if it is known
  /// What a walk over the servers takes on the fabric with blocks of one byte, once asked for.
  std::optional<double> walk_seconds_;
  std::array<std::unique_ptr<KnownCallPlans>, kCollectives.size()> known_;
  CallPlan other_;  ///< the latest one that is not kept
};

}  // namespace ibcoll
