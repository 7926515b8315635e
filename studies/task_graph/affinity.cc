#include "studies/task_graph/affinity.h"

#include <algorithm>
#include <iterator>

namespace ibcoll::task_graph {

AffinityMerger::AffinityMerger(const TaskGraph& graph, const LogP& logp, int processors,
                               const ClusterGraph& clusters)
    : graph_(graph),
      logp_(logp),
      processors_(processors),
      level_(clusters.level),
      needs_(clusters.needs),
      feeds_(clusters.feeds),
      tasks_(clusters.size()),
      work_(clusters.work),
      layers_(clusters.levels()),
      best_(clusters.size()),
      merged_into_(clusters.size()),
      common_needs_(clusters.size(), 0),
      common_feeds_(clusters.size(), 0) {
  for (ClusterId c = 0; c < clusters.size(); ++c) {
    merged_into_[c] = c;
    layers_[level_[c]].clusters.push_back(c);
    std::sort(needs_[c].begin(), needs_[c].end());
    std::sort(feeds_[c].begin(), feeds_[c].end());
  }
  for (const Layer& layer : layers_)
    merges_left_ += std::max<int64_t>(0, static_cast<int64_t>(layer.clusters.size()) - processors_);
  for (ClusterId c = 0; c < clusters.size(); ++c) {
    if (!oversized(c)) continue;
    const auto tasks = clusters.tasks_of(c);
    tasks_[c].assign(tasks.begin(), tasks.end());
    std::sort(tasks_[c].begin(), tasks_[c].end());
    recompute_row(c, false);
  }
}

ClusterId AffinityMerger::merged_into(ClusterId cluster) const {
  while (merged_into_[cluster] != cluster) cluster = merged_into_[cluster];
  return cluster;
}

Time AffinityMerger::lambda(ClusterId c) const {
  return static_cast<Time>(needs_[c].size()) * logp_.receive_overhead +
         static_cast<Time>(feeds_[c].size()) * logp_.send_overhead + work_[c];
}

Time AffinityMerger::affinity(ClusterId a, ClusterId b, Time common_needs,
                              Time common_feeds) const {
  Time later = 0;  // Lambda of the one that runs second
  if (needs_[a].size() != needs_[b].size())
    later = lambda(needs_[a].size() > needs_[b].size() ? a : b);
  else
    later = std::min(lambda(a), lambda(b));
  const Time receivers = static_cast<Time>(feeds_[a].size() + feeds_[b].size()) - common_feeds;
  const Time delayed = std::clamp<Time>(receivers, 1, processors_);
  return logp_.receive_overhead * common_needs + logp_.send_overhead * common_feeds -
         later * delayed;
}

void AffinityMerger::count_common(ClusterId c) {
  sharing_.clear();
  const auto meet = [&](ClusterId other, std::vector<int32_t>& count) {
    if (other == c || level_[other] != level_[c]) return;
    if (common_needs_[other] == 0 && common_feeds_[other] == 0) sharing_.push_back(other);
    ++count[other];
  };
  for (ClusterId before : needs_[c]) {
    for (ClusterId other : feeds_[before]) meet(other, common_needs_);
  }
  for (ClusterId after : feeds_[c]) {
    for (ClusterId other : needs_[after]) meet(other, common_feeds_);
  }
}

void AffinityMerger::recompute_row(ClusterId c, bool update_partners) {
  count_common(c);
  Best best;
  for (ClusterId other : sharing_) {
    const Time value = affinity(c, other, common_needs_[other], common_feeds_[other]);
    common_needs_[other] = common_feeds_[other] = 0;
    if (value > best.affinity || (value == best.affinity && other < best.partner))
      best = {value, other, false};
    if (!update_partners) continue;
    Best& theirs = best_[other];
    if (value > theirs.affinity)
      theirs = {value, c, false};
    else if (value == theirs.affinity && !theirs.stale && c < theirs.partner)
      theirs.partner = c;
    else if (theirs.partner == c && value < theirs.affinity)
      theirs.stale = true;
  }
  best_[c] = best;
  layers_[level_[c]].dirty = true;
}

AffinityMerger::Candidate AffinityMerger::best_without_common(const Layer& layer) {
  // The one with more predecessors (the higher id if equal) delays its successors; its best partner
  // among the others is the one that adds fewest.
  constexpr int32_t kMany = INT32_MAX / 2;
  fewest_feeds_.clear();
  for (ClusterId c : layer.clusters) {
    const size_t needs = needs_[c].size();
    if (fewest_feeds_.size() <= needs + 1) fewest_feeds_.resize(needs + 2, kMany);
    // Shifted by one: after the prefix minimum, entry n holds that of fewer than n needs.
    fewest_feeds_[needs + 1] =
        std::min(fewest_feeds_[needs + 1], static_cast<int32_t>(feeds_[c].size()));
  }
  for (size_t n = 1; n < fewest_feeds_.size(); ++n)
    fewest_feeds_[n] = std::min(fewest_feeds_[n], fewest_feeds_[n - 1]);
  fewest_so_far_.assign(fewest_feeds_.size(), kMany);
  Candidate best;
  int32_t partner_feeds = 0;
  for (ClusterId c : layer.clusters) {
    const size_t needs = needs_[c].size();
    const int32_t fewest = std::min(fewest_feeds_[needs], fewest_so_far_[needs]);
    const auto own = static_cast<int32_t>(feeds_[c].size());
    fewest_so_far_[needs] = std::min(fewest_so_far_[needs], own);
    if (fewest == kMany) continue;
    const Time value = -lambda(c) * std::clamp<Time>(own + fewest, 1, processors_);
    if (value > best.affinity) {
      best = {value, c, -1};
      partner_feeds = fewest;
    }
  }
  if (best.p < 0) return best;
  const size_t needs = needs_[best.p].size();
  for (ClusterId c : layer.clusters) {
    if (static_cast<int32_t>(feeds_[c].size()) != partner_feeds) continue;
    if (needs_[c].size() < needs || (needs_[c].size() == needs && c < best.p)) {
      best.q = c;
      break;
    }
  }
  return best;
}

void AffinityMerger::refresh(Layer& layer) {
  layer.dirty = false;
  layer.best = best_without_common(layer);
  for (;;) {
    Candidate sharing;
    for (ClusterId c : layer.clusters) {
      if (best_[c].affinity > sharing.affinity) sharing = {best_[c].affinity, c, best_[c].partner};
    }
    if (sharing.affinity == kNone || sharing.affinity < layer.best.affinity) return;
    if (best_[sharing.p].stale) {
      recompute_row(sharing.p, false);
      layer.dirty = false;
      continue;
    }
    layer.best = sharing;
    return;
  }
}

bool AffinityMerger::merge_best() {
  Candidate best;
  for (Layer& layer : layers_) {
    if (layer.clusters.size() <= static_cast<size_t>(processors_)) continue;
    if (layer.dirty) refresh(layer);
    if (layer.best.affinity > best.affinity) best = layer.best;
  }
  if (best.p < 0) return false;
  merge(std::min(best.p, best.q), std::max(best.p, best.q));
  --merges_left_;
  return true;
}

namespace {

/// The union of two ascending lists.
template <class T>
void unite(std::vector<T>& into, std::vector<T>& from) {
  std::vector<T> all;
  all.reserve(into.size() + from.size());
  std::set_union(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(all));
  into = std::move(all);
  std::vector<T>().swap(from);
}

/// Puts `merged` where `gone` stood in an ascending list.
void rename(std::vector<ClusterId>& list, ClusterId gone, ClusterId merged) {
  const auto at = std::lower_bound(list.begin(), list.end(), gone);
  list.erase(at);
  const auto place = std::lower_bound(list.begin(), list.end(), merged);
  if (place == list.end() || *place != merged) list.insert(place, merged);
}

}  // namespace

void AffinityMerger::merge(ClusterId p, ClusterId q) {
  for (ClusterId before : needs_[q]) rename(feeds_[before], q, p);
  for (ClusterId after : feeds_[q]) rename(needs_[after], q, p);
  unite(needs_[p], needs_[q]);
  unite(feeds_[p], feeds_[q]);
  unite(tasks_[p], tasks_[q]);
  work_[p] = 0;
  for (TaskId task : tasks_[p]) work_[p] += graph_.weight(task);
  merged_into_[q] = p;
  best_[q] = {};
  Layer& layer = layers_[level_[p]];
  layer.clusters.erase(std::lower_bound(layer.clusters.begin(), layer.clusters.end(), q));
  layer.dirty = true;
  // Rows that believed in p or q: p's new row below settles the former, the latter lost theirs.
  for (ClusterId c : layer.clusters) {
    if (best_[c].partner == q) best_[c].stale = true;
  }
  if (oversized(p)) recompute_row(p, true);
  for (const auto* neighbours : {&needs_[p], &feeds_[p]}) {
    for (ClusterId c : *neighbours) {
      if (oversized(c)) recompute_row(c, true);
    }
  }
}

}  // namespace ibcoll::task_graph
