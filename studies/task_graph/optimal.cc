/// The shortest schedule of a tiny graph, by branch and bound.

#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>

#include "studies/task_graph/decode.h"
#include "studies/task_graph/schedulers.h"

namespace ibcoll::task_graph {

namespace {

using Kind = Instruction::Kind;
constexpr int kMaxOptimalTasks = 10;
constexpr int kMaxOptimalProcessors = 4;
constexpr int64_t kMaxStates = 20'000'000;
using TaskSet = uint16_t;

struct InFlight {
  int8_t from;
  int8_t to;
  TaskSet tasks;
  Time arrival;
};

/// What has happened so far. Instructions are appended in order of (start, processor), which every
/// schedule can be written in; nothing is gained by idling other than for a message, or by sending
/// less than everything held.
struct State {
  std::array<Time, kMaxOptimalProcessors> clock{};
  std::array<TaskSet, kMaxOptimalProcessors> held{};
  TaskSet done = 0;
  Time last_start = 0;
  int last_processor = 0;
  std::vector<InFlight> in_flight;
};

struct Action {
  Kind kind;
  int8_t processor;
  int8_t task_or_to;  ///< task to run, receiver of the send, sender of the receive
  TaskSet tasks;
};

class Search {
 public:
  Search(const TaskGraph& graph, const LogP& logp, int processors, Time bound)
      : graph_(graph),
        logp_(logp),
        processors_(processors),
        all_(static_cast<TaskSet>((1u << graph.size()) - 1)),
        order_(topological_order(graph)),
        below_(bottom_levels(graph)),
        best_(bound) {
    for (TaskId task = 0; task < graph.size(); ++task) {
      needs_.push_back(0);
      for (TaskId before : graph.predecessors(task))
        needs_.back() = static_cast<TaskSet>(needs_.back() | 1u << before);
    }
  }

  /// False when there are too many states.
  bool run() {
    visit(State{});
    return states_ <= kMaxStates;
  }
  Time best() const { return best_; }
  bool improved() const { return !best_actions_.empty(); }

  TaskSchedule schedule() const {
    TaskSchedule result(processors_, logp_);
    struct Pending {
      int8_t from, to;
      TaskSet tasks;
      MessageId message;
    };
    std::vector<Pending> pending;
    for (const Action& action : best_actions_) {
      auto& instructions = result.processors[action.processor];
      if (action.kind == Kind::kRun) {
        instructions.push_back({0, action.task_or_to, Kind::kRun});
      } else if (action.kind == Kind::kSend) {
        std::vector<TaskId> tasks;
        for (TaskId task = 0; task < graph_.size(); ++task) {
          if (action.tasks >> task & 1) tasks.push_back(task);
        }
        const MessageId message = result.add_message(action.processor, action.task_or_to, tasks);
        instructions.push_back({0, message, Kind::kSend});
        pending.push_back({action.processor, action.task_or_to, action.tasks, message});
      } else {
        const auto sent = std::find_if(pending.begin(), pending.end(), [&](const Pending& p) {
          return p.from == action.task_or_to && p.to == action.processor && p.tasks == action.tasks;
        });
        instructions.push_back({0, sent->message, Kind::kReceive});
        pending.erase(sent);
      }
    }
    for (const Pending& never_received : pending)
      result.processors[never_received.to].push_back({0, never_received.message, Kind::kReceive});
    prune_messages(graph_, result);
    return result;
  }

 private:
  Time now(const State& state, int p) const { return std::max(state.clock[p], state.last_start); }

  /// No completion of this state ends before.
  Time bound(const State& state) const {
    Time busy = 0, end = 0;
    for (int p = 0; p < processors_; ++p) {
      end = std::max(end, state.clock[p]);
      busy += now(state, p);
    }
    std::array<Time, kMaxOptimalTasks> start{};
    for (TaskId task : order_) {
      if (state.done >> task & 1) continue;
      busy += graph_.weight(task);
      Time earliest = INT64_MAX;
      for (int p = 0; p < processors_; ++p) {
        Time ready = now(state, p);
        for (TaskId before : graph_.predecessors(task)) {
          if ((state.done >> before & 1) == 0)
            ready = std::max(ready, start[before] + graph_.weight(before));
          else if ((state.held[p] >> before & 1) == 0)
            ready = std::max(ready, soonest(state, before, p));
        }
        earliest = std::min(earliest, ready);
      }
      start[task] = earliest;
      end = std::max(end, earliest + below_[task]);
    }
    return std::max(end, (busy + processors_ - 1) / processors_);
  }

  /// When p could have a result that was computed elsewhere.
  Time soonest(const State& state, TaskId task, int p) const {
    Time soonest = now(state, p) + graph_.weight(task);  // by computing it again
    for (const InFlight& message : state.in_flight) {
      if (message.to == p && (message.tasks >> task & 1) != 0)
        soonest =
            std::min(soonest, std::max(now(state, p), message.arrival) + logp_.receive_overhead);
    }
    for (int q = 0; q < processors_; ++q) {
      if ((state.held[q] >> task & 1) != 0)
        soonest = std::min(soonest, now(state, q) + logp_.message());
    }
    return soonest;
  }

  bool seen(const State& state) {
    std::string key;
    const auto put = [&](auto value) {
      key.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    for (int p = 0; p < processors_; ++p) {
      put(now(state, p) == state.clock[p] ? state.clock[p] : Time{-1});
      put(state.held[p]);
    }
    put(state.last_start);
    put(state.last_processor);
    for (const InFlight& message : state.in_flight) {
      put(message.from);
      put(message.to);
      put(message.tasks);
      put(message.arrival);
    }
    return !seen_.insert(std::move(key)).second;
  }

  bool may_append(const State& state, Time start, int p) const {
    if (start != state.last_start) return start > state.last_start;
    // With free messages a receive may stand at the time of its send.
    return logp_.send_overhead + logp_.latency == 0 || p >= state.last_processor;
  }

  void descend(State next, Time start, Action action) {
    next.last_start = start;
    next.last_processor = action.processor;
    actions_.push_back(action);
    visit(next);
    actions_.pop_back();
  }

  void visit(const State& state) {
    if (states_ > kMaxStates) return;
    if (state.done == all_) {
      const Time end = *std::max_element(state.clock.begin(), state.clock.begin() + processors_);
      if (end >= best_) return;
      best_ = end;
      best_actions_ = actions_;
      return;
    }
    if (bound(state) >= best_ || seen(state)) return;
    ++states_;
    bool fresh_tried = false;
    for (int p = 0; p < processors_; ++p) {
      // Processors nobody has used are alike.
      const bool fresh = state.held[p] == 0;
      const bool addressed = std::any_of(state.in_flight.begin(), state.in_flight.end(),
                                         [&](const InFlight& message) { return message.to == p; });
      if (fresh && !addressed) {
        if (fresh_tried) continue;
        fresh_tried = true;
      }
      receive_next(state, p);
      if (!may_append(state, state.clock[p], p)) continue;
      run_next(state, p);
      send_next(state, p);
    }
  }

  void run_next(const State& state, int p) {
    for (TaskId task : order_) {
      const auto bit = static_cast<TaskSet>(1u << task);
      if ((state.held[p] & bit) != 0 || (needs_[task] & ~state.held[p]) != 0) continue;
      // A second copy is only worth having for tasks still to run.
      if ((state.done & bit) != 0) {
        const auto after = graph_.successors(task);
        if (std::all_of(after.begin(), after.end(),
                        [&](TaskId t) { return (state.done >> t & 1) != 0; }))
          continue;
      }
      State next = state;
      next.held[p] = static_cast<TaskSet>(next.held[p] | bit);
      next.done = static_cast<TaskSet>(next.done | bit);
      next.clock[p] += graph_.weight(task);
      descend(std::move(next), state.clock[p],
              {Kind::kRun, static_cast<int8_t>(p), static_cast<int8_t>(task), 0});
    }
  }

  void send_next(const State& state, int p) {
    for (int to = 0; to < processors_; ++to) {
      if (to == p) continue;
      TaskSet known = state.held[to];
      for (const InFlight& message : state.in_flight) {
        if (message.to == to) known = static_cast<TaskSet>(known | message.tasks);
      }
      if ((state.held[p] & ~known) == 0) continue;
      State next = state;
      next.clock[p] += logp_.send_overhead;
      next.in_flight.push_back({static_cast<int8_t>(p), static_cast<int8_t>(to), state.held[p],
                                next.clock[p] + logp_.latency});
      descend(std::move(next), state.clock[p],
              {Kind::kSend, static_cast<int8_t>(p), static_cast<int8_t>(to), state.held[p]});
    }
  }

  void receive_next(const State& state, int p) {
    for (size_t i = 0; i < state.in_flight.size(); ++i) {
      const InFlight& message = state.in_flight[i];
      if (message.to != p || (message.tasks & ~state.held[p]) == 0) continue;
      const Time start = std::max(state.clock[p], message.arrival);
      if (!may_append(state, start, p)) continue;
      State next = state;
      next.in_flight.erase(next.in_flight.begin() + static_cast<int64_t>(i));
      next.held[p] = static_cast<TaskSet>(next.held[p] | message.tasks);
      next.clock[p] = start + logp_.receive_overhead;
      descend(std::move(next), start,
              {Kind::kReceive, static_cast<int8_t>(p), message.from, message.tasks});
    }
  }

  const TaskGraph& graph_;
  const LogP logp_;
  const int processors_;
  const TaskSet all_;
  const std::vector<TaskId> order_;
  const std::vector<Time> below_;
  std::vector<TaskSet> needs_;
  Time best_;
  std::vector<Action> actions_, best_actions_;
  std::unordered_set<std::string> seen_;
  int64_t states_ = 0;
};

}  // namespace

Result<TaskSchedule> schedule_optimal(const TaskGraph& graph, const LogP& logp, int processors,
                                      const SchedulerOptions& options) {
  if (graph.size() > kMaxOptimalTasks || processors > kMaxOptimalProcessors)
    return fail(ErrorCode::kUnsupported,
                "optimal takes at most {} tasks and {} processors, not {} and {}", kMaxOptimalTasks,
                kMaxOptimalProcessors, graph.size(), processors);
  if (logp.per_result != 0)
    return fail(ErrorCode::kUnsupported, "optimal knows no bandwidth (per result: {})",
                logp.per_result);
  // A good schedule to start from prunes most of the search.
  IBCOLL_ASSIGN(TaskSchedule best, schedule_sppc_plus(graph, logp, processors, options));
  Search search(graph, logp, processors, makespan(graph, best));
  if (!search.run())
    return fail(ErrorCode::kDeadline, "the search passed {} states without an end", kMaxStates);
  return search.improved() ? search.schedule() : best;
}

}  // namespace ibcoll::task_graph
