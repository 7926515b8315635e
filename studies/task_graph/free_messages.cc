#include "studies/task_graph/free_messages.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <random>

#include "studies/task_graph/classic.h"

namespace ibcoll::task_graph {

namespace {

/// How many processors are busy over time.
class BusyProcessors {
 public:
  explicit BusyProcessors(int processors) : processors_(processors) {}
  void clear() {
    from_.assign({0});
    busy_.assign({0});
  }
  /// The earliest start at or after `ready` of something `length` long.
  Time earliest(Time ready, Time length) const {
    size_t at = segment(ready);
    for (Time start = ready;; start = from_[at]) {
      while (busy_[at] >= processors_) start = from_[++at];
      size_t next = at + 1;
      while (next < from_.size() && from_[next] < start + length && busy_[next] < processors_)
        ++next;
      if (next == from_.size() || from_[next] >= start + length) return start;
      at = next;
    }
  }
  void take(Time start, Time length) {
    if (length == 0) return;
    const size_t first = split(start), last = split(start + length);
    for (size_t at = first; at < last; ++at) ++busy_[at];
  }

 private:
  size_t segment(Time at) const {
    return static_cast<size_t>(std::upper_bound(from_.begin(), from_.end(), at) - from_.begin()) -
           1;
  }
  /// The segment that begins there, made if there is none.
  size_t split(Time at) {
    const size_t found = segment(at);
    if (from_[found] == at) return found;
    const auto offset = static_cast<int64_t>(found) + 1;
    from_.insert(from_.begin() + offset, at);
    busy_.insert(busy_.begin() + offset, busy_[found]);
    return found + 1;
  }

  const int processors_;
  std::vector<Time> from_;  ///< ascending from 0; the last segment has no end
  std::vector<int> busy_;
};

/// Start times by serial list schedules, and the search over them.
class StartSearch {
 public:
  StartSearch(const TaskGraph& graph, int processors, int64_t effort, uint64_t seed)
      : graph_(graph),
        effort_(effort),
        order_(topological_order(graph)),
        rank_(graph.size()),
        tail_(bottom_levels(graph)),
        bound_(shortest_possible(graph, processors)),
        busy_(processors),
        random_(seed) {
    for (size_t i = 0; i < order_.size(); ++i) rank_[order_[i]] = static_cast<int32_t>(i);
  }

  std::vector<Time> run() {
    if (graph_.size() == 0) return {};
    first_lists();
    while (best_length_ > bound_ && spent_ < effort_) descend();
    return best_;
  }

 private:
  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  /// Places all tasks in the order of their keys, which are first made to ascend along edges.
  void place(std::vector<Time>& keys, std::vector<Time>& starts) {
    for (TaskId task : order_) {
      for (TaskId before : graph_.predecessors(task))
        keys[task] = std::max(keys[task], keys[before]);
    }
    list_ = order_;
    std::sort(list_.begin(), list_.end(), [&](TaskId a, TaskId b) {
      return keys[a] != keys[b] ? keys[a] < keys[b] : rank_[a] < rank_[b];
    });
    busy_.clear();
    for (TaskId task : list_) {
      Time ready = 0;
      for (TaskId before : graph_.predecessors(task))
        ready = std::max(ready, starts[before] + graph_.weight(before));
      starts[task] = busy_.earliest(ready, graph_.weight(task));
      busy_.take(starts[task], graph_.weight(task));
    }
    spent_ += graph_.size();
  }

  /// The same from the end: each task as late as it can be, the last to finish first. Leaves in
  /// `starts` the time from the start of each task to the end of the schedule.
  void place_backwards(std::vector<Time>& starts) {
    list_ = order_;
    std::sort(list_.begin(), list_.end(), [&](TaskId a, TaskId b) {
      const Time end_a = starts[a] + graph_.weight(a), end_b = starts[b] + graph_.weight(b);
      return end_a != end_b ? end_a > end_b : rank_[a] > rank_[b];
    });
    busy_.clear();
    for (TaskId task : list_) {
      Time ready = 0;
      for (TaskId after : graph_.successors(task)) ready = std::max(ready, starts[after]);
      const Time begin = busy_.earliest(ready, graph_.weight(task));
      busy_.take(begin, graph_.weight(task));
      starts[task] = begin + graph_.weight(task);
    }
    spent_ += graph_.size();
  }

  /// A list schedule by keys, moved right and left again.
  void decode(std::vector<Time> keys, std::vector<Time>& starts) {
    starts.resize(graph_.size());
    place(keys, starts);
    keep(starts);
    place_backwards(starts);
    for (TaskId task = 0; task < graph_.size(); ++task) keys[task] = -starts[task];
    place(keys, starts);
    keep(starts);
  }

  void keep(const std::vector<Time>& starts) {
    Time length = 0;
    for (TaskId task = 0; task < graph_.size(); ++task)
      length = std::max(length, starts[task] + graph_.weight(task));
    if (!best_.empty() && length >= best_length_) return;
    best_length_ = length;
    best_ = starts;
  }

  /// By how much all tasks together start too late for a schedule one shorter than the best.
  Time lateness(const std::vector<Time>& starts) const {
    Time late = 0;
    for (TaskId task = 0; task < graph_.size(); ++task)
      late += std::max<Time>(0, starts[task] + tail_[task] - (best_length_ - 1));
    return late;
  }

  void first_lists() {
    std::vector<Time> keys(graph_.size()), starts;
    const std::vector<Time> head = top_levels(graph_);
    for (TaskId task = 0; task < graph_.size(); ++task) keys[task] = -tail_[task];
    decode(keys, starts);
    for (TaskId task = 0; task < graph_.size(); ++task) keys[task] = head[task] - tail_[task];
    decode(keys, starts);
  }

  /// Moves from the best schedule on, until one is shorter or nothing has helped for long.
  void descend();
  void move(const std::vector<Time>& starts, std::vector<Time>& keys);
  void pull(TaskId task, Time key, std::vector<Time>& keys);

  const TaskGraph& graph_;
  const int64_t effort_;
  const std::vector<TaskId> order_;
  std::vector<int32_t> rank_;
  const std::vector<Time> tail_;
  const Time bound_;
  BusyProcessors busy_;
  std::mt19937_64 random_;
  int64_t spent_ = 0;
  std::vector<TaskId> list_;
  std::vector<TaskId> stack_;
  std::vector<TaskId> late_;
  std::vector<Time> best_;
  Time best_length_ = 0;
};

/// The task and all that it needs come no later than `key`.
void StartSearch::pull(TaskId task, Time key, std::vector<Time>& keys) {
  stack_.assign({task});
  while (!stack_.empty()) {
    const TaskId at = stack_.back();
    stack_.pop_back();
    if (keys[at] <= key) continue;
    keys[at] = key;
    for (TaskId before : graph_.predecessors(at)) stack_.push_back(before);
  }
}

void StartSearch::move(const std::vector<Time>& starts, std::vector<Time>& keys) {
  keys = starts;
  late_.clear();
  for (TaskId task = 0; task < graph_.size(); ++task) {
    if (starts[task] + tail_[task] >= best_length_) late_.push_back(task);
  }
  const size_t moves = 1 + below(3);
  for (size_t i = 0; i < moves; ++i) {
    const auto any = static_cast<TaskId>(below(keys.size()));
    const auto other = static_cast<TaskId>(below(keys.size()));
    switch (below(3)) {
      case 0: {
        const TaskId task = late_.empty() ? any : late_[below(late_.size())];
        pull(task, starts[other] - 1, keys);
        break;
      }
      case 1:
        pull(any, starts[other] - 1, keys);
        break;
      default:
        keys[any] = starts[other] + 1;
    }
  }
}

void StartSearch::descend() {
  constexpr int kPatience = 3000;
  std::vector<Time> at = best_, next, keys;
  const Time length = best_length_;
  Time late = lateness(at);
  Time least = late;
  for (int idle = 0; idle < kPatience && spent_ < effort_; ++idle) {
    move(at, keys);
    decode(keys, next);
    if (best_length_ < length) return;
    const Time now = lateness(next);
    if (now < least) {
      least = now;
      idle = 0;
    }
    // A little worse is accepted now and then, in order to leave where no single move helps.
    if (now > late && (now > least + least / 2 + 2 || below(20) != 0)) continue;
    late = now;
    at.swap(next);
  }
}

}  // namespace

Time shortest_possible(const TaskGraph& graph, int processors) {
  const Time share = (graph.total_work() + processors - 1) / processors;
  Time bound = std::max(critical_path(graph), share);
  constexpr TaskId kMaxTasks = 4000;  // the sets below are as many as pairs of tasks
  if (graph.size() > kMaxTasks || graph.size() <= processors) return bound;
  const std::vector<Time> head = top_levels(graph);
  std::vector<Time> tail = bottom_levels(graph);
  for (TaskId task = 0; task < graph.size(); ++task) tail[task] -= graph.weight(task);
  std::vector<TaskId> by_tail(graph.size());
  std::iota(by_tail.begin(), by_tail.end(), 0);
  std::sort(by_tail.begin(), by_tail.end(), [&](TaskId a, TaskId b) { return tail[a] > tail[b]; });
  std::vector<Time> limits = head;
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  std::vector<Time> tails;
  for (const Time from : limits) {
    std::priority_queue<Time> first;  // the smallest heads, one a processor
    tails.clear();
    Time work = 0, ways_in = 0, ways_out = 0;
    for (TaskId task : by_tail) {
      if (head[task] < from) continue;
      work += graph.weight(task);
      first.push(head[task]);
      ways_in += head[task];
      if (first.size() > static_cast<size_t>(processors)) {
        ways_in -= first.top();
        first.pop();
      }
      // Tails descend, so the smallest are the last ones.
      tails.push_back(tail[task]);
      ways_out += tail[task];
      if (tails.size() > static_cast<size_t>(processors))
        ways_out -= tails[tails.size() - 1 - static_cast<size_t>(processors)];
      if (tails.size() >= static_cast<size_t>(processors))
        bound = std::max(bound, (ways_in + work + ways_out + processors - 1) / processors);
    }
  }
  return bound;
}

std::vector<Time> search_starts(const TaskGraph& graph, int processors, int64_t effort,
                                uint64_t seed) {
  return StartSearch(graph, processors, effort, seed).run();
}

TaskSchedule schedule_at(const TaskGraph& graph, const LogP& logp, int processors,
                         const std::vector<Time>& starts) {
  std::vector<TaskId> order = topological_order(graph);
  std::stable_sort(order.begin(), order.end(),
                   [&](TaskId a, TaskId b) { return starts[a] < starts[b]; });
  ClassicSchedule classic(processors);
  std::vector<Time> free(processors, 0);
  for (TaskId task : order) {
    // The processor that waits least, which often holds an input. Only a task of weight 0 may find
    // none free at its start; it runs where one is free first.
    ProcessorId chosen = -1, first = 0;
    for (ProcessorId p = 0; p < processors; ++p) {
      if (free[p] <= starts[task] && (chosen < 0 || free[p] > free[chosen])) chosen = p;
      if (free[p] < free[first]) first = p;
    }
    if (chosen < 0) chosen = first;
    const Time start = std::max(starts[task], free[chosen]);
    free[chosen] = start + graph.weight(task);
    classic[chosen].push_back({start, task});
  }
  return with_messages(graph, logp, classic);
}

}  // namespace ibcoll::task_graph
