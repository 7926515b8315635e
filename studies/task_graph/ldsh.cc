#include "studies/task_graph/ldsh.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace ibcoll::task_graph {

void LongestFirst::add(Time weight, int64_t count) {
  jobs_[weight] += count;
  fresh_ = false;
}

void LongestFirst::remove(Time weight) {
  const auto job = jobs_.find(weight);
  if (--job->second == 0) jobs_.erase(job);
  fresh_ = false;
}

void LongestFirst::place(Time weight, int64_t count, Time* loads) const {
  if (weight == 0 || count == 0) return;
  // The jobs start at the `count` smallest of all load + m * weight, so look for the start of the
  // last one: the smallest time by which that many could have started.
  Time low = *std::min_element(loads, loads + processors_);
  Time total = weight * count;
  for (int p = 0; p < processors_; ++p) total += loads[p];
  Time high = total / processors_;
  if (count == 1) high = low;
  const auto started = [&](Time by) {
    int64_t jobs = 0;
    for (int p = 0; p < processors_; ++p) {
      if (loads[p] <= by) jobs += (by - loads[p]) / weight + 1;
    }
    return jobs;
  };
  while (low < high) {
    const Time middle = low + (high - low) / 2;
    if (started(middle) >= count)
      high = middle;
    else
      low = middle + 1;
  }
  int64_t left = count;
  for (int p = 0; p < processors_; ++p) {
    if (loads[p] >= low) continue;
    const int64_t jobs = (low - 1 - loads[p]) / weight + 1;
    loads[p] += jobs * weight;
    left -= jobs;
  }
  for (int p = 0; p < processors_ && left > 0; ++p) {
    if (loads[p] != low) continue;
    loads[p] += weight;
    --left;
  }
}

void LongestFirst::refresh() {
  if (fresh_) return;
  fresh_ = true;
  stages_.clear();
  loads_.assign((jobs_.size() + 1) * processors_, 0);
  size_t at = 0;
  for (const auto& [weight, count] : jobs_) {
    stages_.push_back({weight, count, at});
    const auto from = loads_.begin() + static_cast<int64_t>(at);
    std::copy(from, from + processors_, from + processors_);
    at += processors_;
    place(weight, count, loads_.data() + at);
  }
  const auto last = loads_.begin() + static_cast<int64_t>(at);
  makespan_ = *std::max_element(last, last + processors_);
}

Time LongestFirst::makespan() {
  refresh();
  return makespan_;
}

bool LongestFirst::merge_keeps_makespan(Time x, Time y, Time merged) {
  refresh();
  if (merged > makespan_) return false;
  // Jobs longer than the merged one are placed as before.
  size_t stage = std::partition_point(stages_.begin(), stages_.end(),
                                      [&](const Stage& s) { return s.weight > merged; }) -
                 stages_.begin();
  const size_t at = stage < stages_.size() ? stages_[stage].loads : loads_.size() - processors_;
  trial_.assign(loads_.begin() + static_cast<int64_t>(at),
                loads_.begin() + static_cast<int64_t>(at) + processors_);
  const auto too_long = [&] { return *std::max_element(trial_.begin(), trial_.end()) > makespan_; };
  bool placed = false;
  for (; stage < stages_.size(); ++stage) {
    const auto [weight, all, loads] = stages_[stage];
    int64_t count = all - (weight == x ? 1 : 0) - (weight == y ? 1 : 0);
    if (weight == merged) ++count;
    if (!placed && weight < merged) place(merged, 1, trial_.data());
    placed = true;
    place(weight, count, trial_.data());
    if (too_long()) return false;
  }
  if (!placed) place(merged, 1, trial_.data());
  return !too_long();
}

std::vector<int32_t> assign_longest_first(const std::vector<Time>& weights, int processors) {
  std::vector<int32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return weights[a] > weights[b]; });
  using Load = std::pair<Time, int32_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int32_t p = 0; p < processors; ++p) loads.push({0, p});
  std::vector<int32_t> processor(weights.size());
  for (int32_t job : order) {
    const auto [load, p] = loads.top();
    loads.pop();
    processor[job] = p;
    loads.push({load + weights[job], p});
  }
  return processor;
}

}  // namespace ibcoll::task_graph
