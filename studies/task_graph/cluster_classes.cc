#include "studies/task_graph/cluster_classes.h"

#include <algorithm>

#include "engine/base/hash.h"

namespace ibcoll::task_graph {

namespace {

uint64_t hash_set(const std::vector<GrowingId>& set) {
  uint64_t hash = mix(0, set.size());
  for (const GrowingId cluster : set) hash = mix(hash, static_cast<uint64_t>(cluster));
  return hash;
}

}  // namespace

ClusterClasses::ClusterClasses(const TaskGraph& graph) : class_of_(graph.size(), -1) {}

void ClusterClasses::restart(GrowingId count) {
  sets_.clear();
  weight_.assign(count, 0);
  replaced_by_.assign(count, -1);
  replaced_in_.assign(count, 0);
  shortcut_.assign(count, -1);
  classes_in_.assign(count, {});
  by_hash_.clear();
  seen_class_.assign(count, 0);
  stamp_ = 0;
  round_ = 0;
  for (GrowingId cluster = 0; cluster < count; ++cluster) {
    sets_.push_back({cluster});
    classes_in_[cluster] = {cluster};
    by_hash_.emplace(hash_set(sets_.back()), cluster);
  }
}

ClassId ClusterClasses::current(ClassId task_class) {
  ClassId last = task_class;
  while (shortcut_[last] >= 0) last = shortcut_[last];
  while (shortcut_[task_class] >= 0) {
    const ClassId next = shortcut_[task_class];
    shortcut_[task_class] = last;
    task_class = next;
  }
  return last;
}

ClassId ClusterClasses::find_or_make(std::vector<GrowingId> set) {
  const uint64_t hash = hash_set(set);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto found = begin; found != end; ++found) {
    if (replaced_by_[found->second] < 0 && sets_[found->second] == set) return found->second;
  }
  const auto made = static_cast<ClassId>(sets_.size());
  for (GrowingId cluster : set) classes_in_[cluster].push_back(made);
  sets_.push_back(std::move(set));
  weight_.push_back(0);
  replaced_by_.push_back(-1);
  replaced_in_.push_back(0);
  shortcut_.push_back(-1);
  seen_class_.push_back(0);
  by_hash_.emplace(hash, made);
  return made;
}

ClassId ClusterClasses::join(const std::vector<TaskId>& tasks) {
  ++stamp_;
  ClassId only = -1;
  std::vector<GrowingId> all;
  bool several = false;
  for (TaskId task : tasks) {
    const ClassId c = current(class_of_[task]);
    if (seen_class_[c] == stamp_) continue;
    seen_class_[c] = stamp_;
    several = only >= 0;
    if (only < 0) only = c;
    all.insert(all.end(), sets_[c].begin(), sets_[c].end());
  }
  if (!several) return only;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return find_or_make(std::move(all));
}

const std::vector<ClassId>& ClusterClasses::classes_in(GrowingId cluster) {
  auto& classes = classes_in_[cluster];
  std::erase_if(classes, [&](ClassId c) { return replaced_by_[c] >= 0; });
  return classes;
}

void ClusterClasses::merge_round(const std::vector<std::pair<GrowingId, GrowingId>>& pairs,
                                 GrowingId first) {
  ++round_;
  classes_in_.resize(first + pairs.size());
  std::unordered_map<GrowingId, GrowingId> renamed;
  std::vector<ClassId> touched;
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (GrowingId old : {pairs[i].first, pairs[i].second}) {
      renamed.emplace(old, first + static_cast<GrowingId>(i));
      const auto& classes = classes_in(old);
      touched.insert(touched.end(), classes.begin(), classes.end());
    }
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  for (ClassId old : touched) {
    std::vector<GrowingId> set = sets_[old];
    for (GrowingId& cluster : set) {
      const auto found = renamed.find(cluster);
      if (found != renamed.end()) cluster = found->second;
    }
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
    const ClassId made = find_or_make(std::move(set));
    weight_[made] += weight_[old];
    replaced_by_[old] = shortcut_[old] = made;
    replaced_in_[old] = round_;
  }
}

const std::vector<GrowingId>& ClusterClasses::clusters_at(TaskId task, int32_t round) const {
  ClassId c = class_of_[task];
  while (replaced_by_[c] >= 0 && replaced_in_[c] <= round) c = replaced_by_[c];
  return sets_[c];
}

}  // namespace ibcoll::task_graph
