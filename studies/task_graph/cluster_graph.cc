#include "studies/task_graph/cluster_graph.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "studies/task_graph/cluster_classes.h"
#include "studies/task_graph/ldsh.h"

namespace ibcoll::task_graph {

int32_t ClusterGraph::levels() const {
  int32_t highest = -1;
  for (int32_t l : level) highest = std::max(highest, l);
  return highest + 1;
}

namespace {

/// Tasks of each layer, ascending: layer l is tasks[first[l] .. first[l+1]).
struct Layers {
  std::vector<int64_t> first;
  std::vector<TaskId> tasks;
  explicit Layers(const std::vector<int32_t>& level) {
    int32_t highest = -1;
    for (int32_t l : level) highest = std::max(highest, l);
    first.assign(highest + 2, 0);
    for (int32_t l : level) ++first[l + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    tasks.resize(level.size());
    std::vector<int64_t> next(first.begin(), first.end() - 1);
    for (size_t task = 0; task < level.size(); ++task)
      tasks[next[level[task]]++] = static_cast<TaskId>(task);
  }
  int32_t count() const { return static_cast<int32_t>(first.size()) - 1; }
  std::span<const TaskId> of(int32_t layer) const {
    return {tasks.data() + first[layer], static_cast<size_t>(first[layer + 1] - first[layer])};
  }
};

/// Grows the clusters of one stretch of layers.
class Growth {
 public:
  Growth(const TaskGraph& graph, const LogP& logp, int processors, const ClusterOptions& options,
         const std::vector<int32_t>& level, const Layers& layers)
      : graph_(graph),
        processors_(processors),
        allowance_(options.slack * static_cast<double>(logp.send_overhead) * (processors - 1)),
        level_(level),
        layers_(layers),
        classes_(graph) {}

  /// Grows clusters from layer `bottom` upwards; returns the first layer not taken.
  int32_t grow(int32_t bottom) {
    const auto tasks = layers_.of(bottom);
    const auto count = static_cast<GrowingId>(tasks.size());
    classes_.restart(count);
    weight_.resize(count);
    tie_.resize(count);
    alive_.resize(count);
    total_ = 0;
    for (GrowingId c = 0; c < count; ++c) {
      weight_[c] = graph_.weight(tasks[c]);
      tie_[c] = alive_[c] = c;
      classes_.put(tasks[c], c);
      classes_.add_weight(c, weight_[c]);
      total_ += weight_[c];
    }
    for (int32_t depth = 1;; ++depth) {
      const int32_t layer = bottom + depth;
      if (layer >= layers_.count()) return layer;
      add_layer(bottom, layer);
      merge();
      if (unbalanced()) {
        kept_round_ = depth - 1;
        return layer;
      }
      kept_round_ = depth;
    }
  }

  /// Adds the clusters of layers [bottom, top) to the cluster graph.
  void emit(int32_t bottom, int32_t top, ClusterGraph& out) {
    if (top == bottom + 1) kept_round_ = 0;
    std::vector<GrowingId> used;
    std::vector<int64_t> size(weight_.size(), 0);
    for (int32_t layer = bottom; layer < top; ++layer) {
      for (TaskId task : layers_.of(layer)) {
        for (GrowingId c : classes_.clusters_at(task, kept_round_)) {
          if (size[c]++ == 0) used.push_back(c);
        }
      }
    }
    std::sort(used.begin(), used.end(),
              [&](GrowingId a, GrowingId b) { return tie_[a] < tie_[b]; });
    std::vector<int64_t> next(weight_.size());
    const auto first_cluster = out.size();
    int64_t at = static_cast<int64_t>(out.tasks.size());
    for (GrowingId c : used) {
      next[c] = at;
      at += size[c];
      out.first_task.push_back(at);
      out.work.push_back(0);
    }
    std::vector<ClusterId> id(weight_.size());
    for (size_t i = 0; i < used.size(); ++i)
      id[used[i]] = first_cluster + static_cast<ClusterId>(i);
    out.tasks.resize(at);
    // From the top layer down, so that every task comes after its predecessors.
    for (int32_t layer = top - 1; layer >= bottom; --layer) {
      for (TaskId task : layers_.of(layer)) {
        for (GrowingId c : classes_.clusters_at(task, kept_round_)) {
          out.tasks[next[c]++] = task;
          out.work[id[c]] += graph_.weight(task);
        }
      }
    }
  }

 private:
  /// Adds a layer's tasks to the clusters of all their direct successors in this stretch.
  void add_layer(int32_t bottom, int32_t layer) {
    added_.clear();
    for (TaskId task : layers_.of(layer)) {
      consumers_.clear();
      for (TaskId after : graph_.successors(task)) {
        if (level_[after] >= bottom) consumers_.push_back(after);
      }
      const ClassId joined = classes_.join(consumers_);
      classes_.put(task, joined);
      added_[joined] += graph_.weight(task);
      total_ += graph_.weight(task);
    }
    for (const auto& [joined, weight] : added_) {
      classes_.add_weight(joined, weight);
      for (GrowingId c : classes_.clusters(joined)) weight_[c] += weight;
    }
  }

  /// One round of merging clusters that share tasks, as long as LDSH's makespan doesn't grow.
  void merge() {
    LongestFirst ldsh(processors_);
    for (GrowingId c : alive_) ldsh.add(weight_[c]);
    std::sort(alive_.begin(), alive_.end(), [&](GrowingId a, GrowingId b) {
      return std::pair(weight_[a], tie_[a]) < std::pair(weight_[b], tie_[b]);
    });
    const auto first_new = static_cast<GrowingId>(weight_.size());
    std::vector<std::pair<GrowingId, GrowingId>> pairs;
    std::vector<bool> merged(first_new, false);
    common_.assign(first_new, 0);
    touched_.assign(first_new, false);
    std::set<std::tuple<Time, Time, Time>> refused;  // weights that made it longer, as it stands
    std::vector<GrowingId> partners;
    for (GrowingId x : alive_) {
      if (merged[x]) continue;
      partners.clear();
      for (ClassId c : classes_.classes_in(x)) {
        for (GrowingId other : classes_.clusters(c)) {
          if (other == x || merged[other]) continue;
          if (!touched_[other]) partners.push_back(other);
          touched_[other] = true;
          common_[other] += classes_.weight(c);
        }
      }
      std::sort(partners.begin(), partners.end(), [&](GrowingId a, GrowingId b) {
        return common_[a] != common_[b] ? common_[a] > common_[b] : tie_[a] < tie_[b];
      });
      GrowingId partner = -1;
      for (GrowingId y : partners) {
        const Time together = weight_[x] + weight_[y] - common_[y];
        const auto key = std::tuple(std::min(weight_[x], weight_[y]),
                                    std::max(weight_[x], weight_[y]), together);
        if (refused.count(key) != 0) continue;
        if (!ldsh.merge_keeps_makespan(weight_[x], weight_[y], together)) {
          refused.insert(key);
          continue;
        }
        ldsh.remove(weight_[x]);
        ldsh.remove(weight_[y]);
        ldsh.add(together);
        refused.clear();
        weight_.push_back(together);
        tie_.push_back(std::min(tie_[x], tie_[y]));
        pairs.emplace_back(x, y);
        partner = y;
        break;
      }
      for (GrowingId other : partners) {
        common_[other] = 0;
        touched_[other] = false;
      }
      if (partner >= 0) merged[x] = merged[partner] = true;
    }
    classes_.merge_round(pairs, first_new);
    std::erase_if(alive_, [&](GrowingId c) { return merged[c]; });
    for (size_t i = 0; i < pairs.size(); ++i) alive_.push_back(first_new + static_cast<int>(i));
  }

  bool unbalanced() {
    if (processors_ == 1) return false;
    GrowingId heaviest = alive_.front();
    for (GrowingId c : alive_) {
      if (std::pair(-weight_[c], tie_[c]) < std::pair(-weight_[heaviest], tie_[heaviest]))
        heaviest = c;
    }
    const Time rest = total_ - weight_[heaviest];  // each task once
    const double average = static_cast<double>(rest) / (processors_ - 1);
    return static_cast<double>(weight_[heaviest]) - (average + allowance_) > 0;
  }

  const TaskGraph& graph_;
  const int processors_;
  const double allowance_;
  const std::vector<int32_t>& level_;
  const Layers& layers_;
  ClusterClasses classes_;
  std::vector<Time> weight_;    ///< by growing cluster, dead ones too
  std::vector<GrowingId> tie_;  ///< the lowest first cluster in it: what ties go by
  std::vector<GrowingId> alive_;
  Time total_ = 0;
  int32_t kept_round_ = 0;
  std::vector<TaskId> consumers_;
  std::unordered_map<ClassId, Time> added_;
  std::vector<Time> common_;
  std::vector<bool> touched_;
};

/// Finds each task's provider, then the edges and levels of the clusters.
void connect(const TaskGraph& graph, ClusterGraph& clusters) {
  clusters.provider.assign(graph.size(), -1);
  for (ClusterId c = 0; c < clusters.size(); ++c) {
    for (TaskId task : clusters.tasks_of(c)) {
      ClusterId& provider = clusters.provider[task];
      if (provider < 0 || clusters.work[c] < clusters.work[provider]) provider = c;
    }
  }
  clusters.needs.resize(clusters.size());
  clusters.feeds.resize(clusters.size());
  std::vector<ClusterId> holds(graph.size(), -1);
  std::vector<ClusterId> noted(clusters.size(), -1);
  for (ClusterId c = 0; c < clusters.size(); ++c) {
    for (TaskId task : clusters.tasks_of(c)) holds[task] = c;
    for (TaskId task : clusters.tasks_of(c)) {
      for (TaskId before : graph.predecessors(task)) {
        if (holds[before] == c) continue;
        const ClusterId provider = clusters.provider[before];
        if (noted[provider] == c) continue;
        noted[provider] = c;
        clusters.needs[c].push_back(provider);
        clusters.feeds[provider].push_back(c);
      }
    }
    std::sort(clusters.needs[c].begin(), clusters.needs[c].end());
  }
  // Clusters are numbered from the sinks up: a cluster's consumers come before it.
  clusters.level.assign(clusters.size(), 0);
  for (ClusterId c = 0; c < clusters.size(); ++c) {
    for (ClusterId after : clusters.feeds[c])
      clusters.level[c] = std::max(clusters.level[c], clusters.level[after] + 1);
  }
}

}  // namespace

ClusterGraph build_cluster_graph(const TaskGraph& graph, const LogP& logp, int processors,
                                 const ClusterOptions& options, const Progress& progress) {
  ClusterGraph clusters;
  const std::vector<int32_t> level = task_levels(graph);
  const Layers layers(level);
  {
    Growth growth(graph, logp, processors, options, level, layers);
    for (int32_t bottom = 0; bottom < layers.count();) {
      const int32_t top = growth.grow(bottom);
      growth.emit(bottom, top, clusters);
      bottom = top;
      if (progress) progress(layers.first[bottom], graph.size());
    }
  }
  connect(graph, clusters);
  return clusters;
}

}  // namespace ibcoll::task_graph
