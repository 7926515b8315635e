/// The parts of SPPC that are kept up to date instead of worked out anew: LDSH and affinities.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "studies/task_graph/affinity.h"
#include "studies/task_graph/generators.h"
#include "studies/task_graph/ldsh.h"

namespace ibcoll::task_graph {
namespace {

TEST(LongestFirst, AgreesWithPlacingJobByJob) {
  const TaskGraph weights = random_graph(200, 0, 12, 9);  // only for its weights
  for (const int processors : {1, 2, 3, 7, 16}) {
    LongestFirst ldsh(processors);
    std::vector<Time> jobs;
    for (TaskId task = 0; task < weights.size(); ++task) {
      jobs.push_back(weights.weight(task));
      ldsh.add(jobs.back());
      std::vector<Time> load(processors, 0);
      const auto processor = assign_longest_first(jobs, processors);
      for (size_t i = 0; i < jobs.size(); ++i) load[processor[i]] += jobs[i];
      ASSERT_EQ(ldsh.makespan(), *std::max_element(load.begin(), load.end()));
    }
    const Time before = ldsh.makespan();
    for (const Time extra : {0, 1, 5, 40}) {
      const Time merged = std::max(jobs[0], jobs[1]) + extra;
      std::vector<Time> after(jobs.begin() + 2, jobs.end());
      after.push_back(merged);
      std::vector<Time> load(processors, 0);
      const auto processor = assign_longest_first(after, processors);
      for (size_t i = 0; i < after.size(); ++i) load[processor[i]] += after[i];
      EXPECT_EQ(ldsh.merge_keeps_makespan(jobs[0], jobs[1], merged),
                *std::max_element(load.begin(), load.end()) <= before);
    }
  }
}

TEST(Affinity, MergesUntilNoLayerIsWiderThanTheProcessors) {
  const TaskGraph graph = random_layered(6, 14, 3, 40, 11);
  const LogP logp{30, 20, 50};
  constexpr int kProcessors = 3;
  const ClusterGraph clusters = build_cluster_graph(graph, logp, kProcessors);
  AffinityMerger merger(graph, logp, kProcessors, clusters);
  const int64_t before = merger.merges_left();
  int64_t merges = 0;
  while (merger.merge_best()) ++merges;
  EXPECT_EQ(merges, before);
  std::vector<std::set<ClusterId>> left(clusters.levels());
  for (ClusterId c = 0; c < clusters.size(); ++c)
    left[clusters.level[c]].insert(merger.merged_into(c));
  for (const auto& layer : left) EXPECT_LE(layer.size(), size_t{kProcessors});
}

/// Clusters being merged, with every affinity worked out anew: figure 8 and section 7.2 read
/// literally, apart from the code that keeps the best pairs up to date.
class AffinityByTheBook {
 public:
  AffinityByTheBook(const TaskGraph& graph, const LogP& logp, int processors,
                    const ClusterGraph& clusters)
      : graph_(graph), logp_(logp), processors_(processors), levels_(clusters.levels()) {
    for (ClusterId c = 0; c < clusters.size(); ++c) {
      const auto tasks = clusters.tasks_of(c);
      needs_.emplace_back(clusters.needs[c].begin(), clusters.needs[c].end());
      feeds_.emplace_back(clusters.feeds[c].begin(), clusters.feeds[c].end());
      tasks_.emplace_back(tasks.begin(), tasks.end());
      levels_[clusters.level[c]].insert(c);
    }
  }
  Time affinity(ClusterId a, ClusterId b) const {
    const auto common = [](const std::set<ClusterId>& x, const std::set<ClusterId>& y) {
      return std::ranges::count_if(x, [&](ClusterId c) { return y.contains(c); });
    };
    const Time needs = common(needs_[a], needs_[b]), feeds = common(feeds_[a], feeds_[b]);
    Time later = lambda(std::max(a, b));
    if (needs_[a].size() != needs_[b].size())
      later = lambda(needs_[a].size() > needs_[b].size() ? a : b);
    else if (needs + feeds > 0)
      later = std::min(lambda(a), lambda(b));
    const Time receivers = std::ssize(feeds_[a]) + std::ssize(feeds_[b]) - feeds;
    return logp_.receive_overhead * needs + logp_.send_overhead * feeds -
           later * std::clamp<Time>(receivers, 1, processors_);
  }
  /// The greatest affinity in the layers of more than P clusters.
  Time best() const {
    Time best = std::numeric_limits<Time>::min();
    for (const auto& level : levels_) {
      if (std::ssize(level) <= processors_) continue;
      for (ClusterId a : level) {
        for (ClusterId b : level) {
          if (a < b) best = std::max(best, affinity(a, b));
        }
      }
    }
    return best;
  }
  void merge(ClusterId into, ClusterId gone) {
    for (ClusterId before : needs_[gone]) {
      feeds_[before].erase(gone);
      feeds_[before].insert(into);
    }
    for (ClusterId after : feeds_[gone]) {
      needs_[after].erase(gone);
      needs_[after].insert(into);
    }
    needs_[into].merge(needs_[gone]);
    feeds_[into].merge(feeds_[gone]);
    tasks_[into].merge(tasks_[gone]);
    for (auto& level : levels_) level.erase(gone);
  }

 private:
  Time lambda(ClusterId c) const {
    Time work = 0;
    for (TaskId task : tasks_[c]) work += graph_.weight(task);
    return std::ssize(needs_[c]) * logp_.receive_overhead +
           std::ssize(feeds_[c]) * logp_.send_overhead + work;
  }

  const TaskGraph& graph_;
  const LogP logp_;
  const int processors_;
  std::vector<std::set<ClusterId>> needs_, feeds_, levels_;
  std::vector<std::set<TaskId>> tasks_;
};

TEST(Affinity, EveryMergeIsOneOfGreatestAffinity) {
  int merges = 0;
  for (const char* description : {"layered:6x14:3:40:11", "layered:4x25:4:9:2", "random:50:8:30:5",
                                  "lu:9", "fft:16", "gauss-jordan:8", "out-tree:3:4"}) {
    SCOPED_TRACE(description);
    const TaskGraph graph = generate(description).value();
    for (const auto& [processors, logp] :
         {std::pair(2, LogP{30, 20, 50}), std::pair(3, LogP{4, 9, 10}), std::pair(5, LogP{})}) {
      const ClusterGraph clusters = build_cluster_graph(graph, logp, processors);
      AffinityByTheBook book(graph, logp, processors, clusters);
      AffinityMerger merger(graph, logp, processors, clusters);
      std::set<ClusterId> left;
      for (ClusterId c = 0; c < clusters.size(); ++c) left.insert(c);
      for (;;) {
        const Time best = book.best();
        if (!merger.merge_best()) break;
        const auto gone =
            std::ranges::find_if(left, [&](ClusterId c) { return merger.merged_into(c) != c; });
        ASSERT_NE(gone, left.end());
        const ClusterId into = merger.merged_into(*gone);
        ASSERT_EQ(book.affinity(into, *gone), best);
        book.merge(into, *gone);
        left.erase(gone);
        ++merges;
      }
    }
  }
  EXPECT_GT(merges, 200);
}

}  // namespace
}  // namespace ibcoll::task_graph
