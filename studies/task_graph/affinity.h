#pragma once
/// The incremental search for the pair of clusters with the greatest affinity.

#include <cstdint>
#include <vector>

#include "studies/task_graph/cluster_graph.h"

namespace ibcoll::task_graph {

/// Merges clusters of layers that have more than P, pair by pair, by greatest affinity (paper,
/// section 7.2 and figure 11). Where both of a pair have as many predecessors, either may be the
/// one that runs second (C of figure 8), so the lighter counts. Ties: lower ids.
///
/// Pairs fall in two kinds. Those with a common neighbour are few: each cluster caches its best
/// such partner; a merge recomputes the rows of the pair and its neighbours, and other rows that
/// may have lost their best keep its value as an upper bound until they come up. For all other
/// pairs the affinity depends only on counts, and one pass over a layer finds the best. (That
/// formula never exceeds the true affinity of a pair with common neighbours, so it may be applied
/// to all pairs.)
class AffinityMerger {
 public:
  AffinityMerger(const TaskGraph& graph, const LogP& logp, int processors,
                 const ClusterGraph& clusters);

  /// Merges one pair; false when no layer has more than P left.
  bool merge_best();
  int64_t merges_left() const { return merges_left_; }
  /// The cluster that `cluster` has been merged into; itself if none.
  ClusterId merged_into(ClusterId cluster) const;
  Time work(ClusterId merged) const { return work_[merged]; }

 private:
  static constexpr Time kNone = INT64_MIN;
  struct Best {
    Time affinity = kNone;
    ClusterId partner = -1;
    bool stale = false;  ///< affinity is only an upper bound
  };
  struct Candidate {
    Time affinity = kNone;
    ClusterId p = -1, q = -1;
  };
  struct Layer {
    std::vector<ClusterId> clusters;  ///< ascending
    bool dirty = true;
    Candidate best;
  };

  bool oversized(ClusterId c) const {
    return layers_[level_[c]].clusters.size() > static_cast<size_t>(processors_);
  }
  Time lambda(ClusterId c) const;
  Time affinity(ClusterId a, ClusterId b, Time common_needs, Time common_feeds) const;
  void count_common(ClusterId c);
  void recompute_row(ClusterId c, bool update_partners);
  Candidate best_without_common(const Layer& layer);
  void refresh(Layer& layer);
  void merge(ClusterId p, ClusterId q);

  const TaskGraph& graph_;
  const LogP logp_;
  const int processors_;
  std::vector<int32_t> level_;
  std::vector<std::vector<ClusterId>> needs_, feeds_;
  std::vector<std::vector<TaskId>> tasks_;  ///< ascending
  std::vector<Time> work_;
  std::vector<Layer> layers_;
  std::vector<Best> best_;
  std::vector<ClusterId> merged_into_;
  int64_t merges_left_ = 0;
  std::vector<int32_t> common_needs_, common_feeds_;  ///< scratch of one row
  std::vector<ClusterId> sharing_;
  std::vector<int32_t> fewest_feeds_, fewest_so_far_;  ///< scratch, by number of needs
};

}  // namespace ibcoll::task_graph
