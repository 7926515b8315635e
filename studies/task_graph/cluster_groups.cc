#include "studies/task_graph/cluster_groups.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "studies/task_graph/affinity.h"

namespace ibcoll::task_graph {

ClusterGroups group_by_affinity(const TaskGraph& graph, const LogP& logp, int processors,
                                const ClusterGraph& clusters, const Progress& progress) {
  AffinityMerger merger(graph, logp, processors, clusters);
  const int64_t all = merger.merges_left();
  constexpr int64_t kReportEvery = 256;
  while (merger.merge_best()) {
    const int64_t done = all - merger.merges_left();
    if (progress && done % kReportEvery == 0) progress(done, all);
  }
  ClusterGroups result;
  result.group_of.assign(clusters.size(), -1);
  for (ClusterId c = 0; c < clusters.size(); ++c) {
    const ClusterId merged = merger.merged_into(c);
    if (merged == c) {
      result.group_of[c] = static_cast<int32_t>(result.groups.size());
      result.groups.push_back({clusters.level[c], {}, merger.work(c)});
    }
    result.group_of[c] = result.group_of[merged];  // merged is never higher than c
    result.groups[result.group_of[c]].clusters.push_back(c);
  }
  return result;
}

ClusterGroups group_by_load(const TaskGraph& graph, int processors, const ClusterGraph& clusters) {
  ClusterGroups result;
  result.group_of.assign(clusters.size(), -1);
  std::vector<std::vector<ClusterId>> layers(clusters.levels());
  for (ClusterId c = 0; c < clusters.size(); ++c) layers[clusters.level[c]].push_back(c);
  const size_t words = (static_cast<size_t>(processors) + 63) / 64;
  std::vector<uint64_t> holders(words * graph.size(), 0);  // by task: the groups that have it
  for (int32_t level = 0; level < clusters.levels(); ++level) {
    auto& layer = layers[level];
    std::stable_sort(layer.begin(), layer.end(),
                     [&](ClusterId a, ClusterId b) { return clusters.work[a] > clusters.work[b]; });
    const auto count = std::min<int32_t>(processors, static_cast<int32_t>(layer.size()));
    const auto first = static_cast<int32_t>(result.groups.size());
    for (int32_t i = 0; i < count; ++i) result.groups.push_back({level, {}, 0});
    std::vector<Time> added(count);
    for (ClusterId c : layer) {
      std::fill(added.begin(), added.end(), 0);
      for (TaskId task : clusters.tasks_of(c)) {
        const uint64_t* held = &holders[words * task];
        for (int32_t i = 0; i < count; ++i) {
          if ((held[i / 64] >> (i % 64) & 1) == 0) added[i] += graph.weight(task);
        }
      }
      int32_t least = 0;
      for (int32_t i = 1; i < count; ++i) {
        if (result.groups[first + i].work + added[i] <
            result.groups[first + least].work + added[least])
          least = i;
      }
      ClusterGroup& group = result.groups[first + least];
      group.work += added[least];
      group.clusters.push_back(c);
      result.group_of[c] = first + least;
      for (TaskId task : clusters.tasks_of(c))
        holders[words * task + least / 64] |= uint64_t{1} << (least % 64);
    }
    for (ClusterId c : layer) {
      for (TaskId task : clusters.tasks_of(c))
        std::fill_n(holders.begin() + static_cast<int64_t>(words) * task, words, 0);
    }
    for (int32_t i = 0; i < count; ++i) {
      auto& members = result.groups[first + i].clusters;
      std::sort(members.begin(), members.end());
    }
  }
  return result;
}

namespace {

/// Groups of each level, from level 0 up.
std::vector<std::vector<int32_t>> groups_by_level(const ClusterGraph& clusters,
                                                  const ClusterGroups& groups) {
  std::vector<std::vector<int32_t>> levels(clusters.levels());
  for (size_t g = 0; g < groups.groups.size(); ++g)
    levels[groups.groups[g].level].push_back(static_cast<int32_t>(g));
  return levels;
}

/// Direct predecessors and successors of each group, ascending.
struct GroupEdges {
  std::vector<std::vector<int32_t>> needs;
  std::vector<std::vector<int32_t>> feeds;
  GroupEdges(const ClusterGraph& clusters, const ClusterGroups& groups)
      : needs(groups.groups.size()), feeds(groups.groups.size()) {
    for (size_t g = 0; g < groups.groups.size(); ++g) {
      for (ClusterId c : groups.groups[g].clusters) {
        for (ClusterId before : clusters.needs[c]) needs[g].push_back(groups.group_of[before]);
      }
      std::sort(needs[g].begin(), needs[g].end());
      needs[g].erase(std::unique(needs[g].begin(), needs[g].end()), needs[g].end());
      for (int32_t before : needs[g]) feeds[before].push_back(static_cast<int32_t>(g));
    }
  }
};

}  // namespace

Placement place_groups(const LogP& logp, int processors, const ClusterGraph& clusters,
                       const ClusterGroups& groups) {
  const GroupEdges edges(clusters, groups);
  const auto levels = groups_by_level(clusters, groups);
  std::vector<ProcessorId> processor(groups.groups.size(), -1);
  std::vector<Time> finish(groups.groups.size(), 0);
  std::vector<Time> free_at(processors, 0);  // finish of the last group there and its sends
  std::vector<bool> source(processors);
  const auto sends = [&](int32_t group) {
    return std::min<Time>(static_cast<Time>(edges.feeds[group].size()), processors - 1) *
           logp.send_overhead;
  };
  const auto worst_finish = [&](int32_t group, ProcessorId p) {
    Time ready = free_at[p];
    Time receives = 0;
    std::fill(source.begin(), source.end(), false);
    for (int32_t before : edges.needs[group]) {
      const ProcessorId from = processor[before];
      if (from == p) continue;
      ready = std::max(ready, finish[before] + sends(before) + logp.latency);
      if (!source[from]) ++receives;
      source[from] = true;
    }
    return ready + receives * logp.receive_overhead + groups.groups[group].work;
  };
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    std::vector<int32_t> left = *level;
    std::vector<bool> taken(processors, false);
    std::vector<std::vector<Time>> worst(left.size(), std::vector<Time>(processors));
    std::map<int32_t, size_t> row;
    for (size_t i = 0; i < left.size(); ++i) {
      row[left[i]] = i;
      for (ProcessorId p = 0; p < processors; ++p) worst[i][p] = worst_finish(left[i], p);
    }
    while (!left.empty()) {
      std::vector<int32_t> latest(processors, -1);  // by processor: of the groups that picked it
      for (int32_t group : left) {
        const auto& times = worst[row[group]];
        ProcessorId earliest = -1;
        for (ProcessorId p = 0; p < processors; ++p) {
          if (!taken[p] && (earliest < 0 || times[p] < times[earliest])) earliest = p;
        }
        int32_t& winner = latest[earliest];
        if (winner < 0 || times[earliest] > worst[row[winner]][earliest]) winner = group;
      }
      for (ProcessorId p = 0; p < processors; ++p) {
        if (latest[p] < 0) continue;
        processor[latest[p]] = p;
        finish[latest[p]] = worst[row[latest[p]]][p];
        taken[p] = true;
      }
      std::erase_if(left, [&](int32_t group) { return processor[group] >= 0; });
    }
    for (int32_t group : *level) free_at[processor[group]] = finish[group] + sends(group);
  }
  Placement placement{processors, std::vector<ProcessorId>(clusters.size())};
  for (ClusterId c = 0; c < clusters.size(); ++c)
    placement.processor[c] = processor[groups.group_of[c]];
  return placement;
}

}  // namespace ibcoll::task_graph
