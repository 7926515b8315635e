#include "studies/task_graph/improve.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace ibcoll::task_graph {

namespace {

class Annealing {
 public:
  Annealing(const TaskGraph& graph, const LogP& logp, int processors, uint64_t seed)
      : graph_(graph),
        processors_(processors),
        few_(graph.size() <= 12),
        decoder_(graph, logp, processors),
        random_(seed),
        seen_(graph.size(), 0) {}

  /// Keeps a sequence if it is the shortest so far; its makespan, -1 if it cannot be decoded.
  Time offer(const std::vector<PlacedTask>& sequence) {
    const Time length = decoder_.makespan(sequence);
    if (length >= 0 && (best_.empty() || length < best_makespan_)) {
      best_makespan_ = length;
      best_ = sequence;
    }
    return length;
  }

  /// Anneals from `at`, a sequence that takes `length`, decoding `effort` tasks.
  void anneal(std::vector<PlacedTask> at, Time length, int64_t effort) {
    // A temperature that suits few tasks destroys the order of hundreds before they are cold.
    constexpr double kHot = 0.05, kTasks = 3;
    const double hot = kHot * static_cast<double>(length) *
                       (few_ ? 1 : kTasks / static_cast<double>(graph_.size()));
    const double cold = hot / 100;
    std::vector<PlacedTask> next;
    for (int64_t spent = 0; spent < effort;) {
      const double heat =
          hot * std::pow(cold / hot, static_cast<double>(spent) / static_cast<double>(effort));
      next = at;
      move(next);
      spent += static_cast<int64_t>(next.size());
      if (!complete(next)) continue;
      const Time now = offer(next);
      if (now < 0) continue;
      const auto longer = static_cast<double>(now - length);
      if (longer > 0 && chance() >= std::exp(-longer / heat)) continue;
      at.swap(next);
      length = now;
    }
  }

  const std::vector<PlacedTask>& best() const { return best_; }
  Time best_makespan() const { return best_makespan_; }

 private:
  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }
  double chance() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  bool complete(const std::vector<PlacedTask>& sequence) {
    ++stamp_;
    TaskId distinct = 0;
    for (const PlacedTask& placed : sequence) {
      if (seen_[placed.task] != stamp_) ++distinct;
      seen_[placed.task] = stamp_;
    }
    return distinct == graph_.size();
  }

  /// A place in the sequence for another run of a task: behind the first run of each task that it
  /// needs, and mostly before the first one that needs it.
  size_t place_for(const std::vector<PlacedTask>& sequence, TaskId task) {
    if (few_) return below(sequence.size() + 1);
    size_t low = 0, high = sequence.size();
    ++stamp_;
    const auto needs = graph_.predecessors(task), needed_by = graph_.successors(task);
    for (size_t i = 0; i < sequence.size(); ++i) {
      const TaskId at = sequence[i].task;
      if (seen_[at] == stamp_) continue;
      seen_[at] = stamp_;
      if (std::binary_search(needs.begin(), needs.end(), at)) low = i + 1;
      if (std::binary_search(needed_by.begin(), needed_by.end(), at)) {
        high = i;
        break;
      }
    }
    if (high < low) high = sequence.size();
    return low + below(high - low + 1);
  }

  /// Some processor, or the one of a task next to this one in the graph.
  ProcessorId processor_for(const std::vector<PlacedTask>& sequence, TaskId task) {
    const auto any = static_cast<ProcessorId>(below(processors_));
    const auto needs = graph_.predecessors(task);
    if (few_ || needs.empty() || below(2) == 0) return any;
    const TaskId near = needs[below(needs.size())];
    const auto found = std::find_if(sequence.begin(), sequence.end(),
                                    [&](const PlacedTask& placed) { return placed.task == near; });
    return found == sequence.end() ? any : found->processor;
  }

  void move(std::vector<PlacedTask>& sequence) {
    const size_t i = below(sequence.size());
    const TaskId task = sequence[i].task;
    const ProcessorId other = processor_for(sequence, task);
    const auto insert = [&](size_t place, PlacedTask placed) {
      sequence.insert(sequence.begin() + static_cast<int64_t>(place), placed);
    };
    switch (below(few_ ? 5 : 6)) {
      case 0:
        sequence[i].processor = other;
        break;
      case 1:
        insert(place_for(sequence, task), {task, other});
        break;
      case 2:
        sequence.erase(sequence.begin() + static_cast<int64_t>(i));
        break;
      case 3:
        std::swap(sequence[i], sequence[below(sequence.size())]);
        break;
      default: {
        const PlacedTask moved = sequence[i];
        sequence.erase(sequence.begin() + static_cast<int64_t>(i));
        insert(place_for(sequence, task), {task, below(2) == 0 ? moved.processor : other});
      }
    }
  }

  const TaskGraph& graph_;
  const int processors_;
  const bool few_;  ///< a search tries nearly all places of so few tasks, in vain or not
  Decoder decoder_;
  std::mt19937_64 random_;
  std::vector<uint32_t> seen_;  ///< by task: the last stamp
  uint32_t stamp_ = 0;
  std::vector<PlacedTask> best_;
  Time best_makespan_ = 0;
};

}  // namespace

std::vector<PlacedTask> improve(const TaskGraph& graph, const LogP& logp, int processors,
                                const std::vector<std::vector<PlacedTask>>& starts, int64_t effort,
                                uint64_t seed) {
  Annealing annealing(graph, logp, processors, seed);
  std::vector<std::pair<Time, size_t>> order;
  for (size_t i = 0; i < starts.size(); ++i) {
    const Time length = annealing.offer(starts[i]);
    if (length >= 0 && std::find(starts.begin(), starts.begin() + static_cast<int64_t>(i),
                                 starts[i]) == starts.begin() + static_cast<int64_t>(i))
      order.emplace_back(length, i);
  }
  if (order.empty()) return starts.front();
  if (graph.size() < 2 || processors < 2) return annealing.best();
  std::sort(order.begin(), order.end());
  // Each start gets enough to be worth it.
  constexpr size_t kTasks = 200;
  const size_t most = std::max<size_t>(1, kTasks / static_cast<size_t>(graph.size()));
  order.resize(std::min(order.size(), most));
  const int64_t share = effort / static_cast<int64_t>(order.size() + 1);
  for (const auto& [length, start] : order) annealing.anneal(starts[start], length, share);
  const std::vector<PlacedTask> last = annealing.best();
  annealing.anneal(last, annealing.best_makespan(), share);
  return annealing.best();
}

}  // namespace ibcoll::task_graph
