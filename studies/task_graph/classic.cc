#include "studies/task_graph/classic.h"

#include <algorithm>
#include <cassert>

namespace ibcoll::task_graph {

namespace {

struct Copy {
  Time finish = 0;
  ProcessorId processor = -1;
};

struct Delivery {
  TaskId task;
  ProcessorId to;
  auto operator<=>(const Delivery&) const = default;
};

}  // namespace

EdgeDelay every_edge(Time delay) {
  return [delay](TaskId, TaskId) { return delay; };
}

TaskSchedule with_messages(const TaskGraph& graph, const LogP& logp,
                           const ClassicSchedule& classic) {
  using Kind = Instruction::Kind;
  const auto processors = static_cast<ProcessorId>(classic.size());
  std::vector<int32_t> rank(graph.size());
  {
    int32_t next = 0;
    for (TaskId task : topological_order(graph)) rank[task] = next++;
  }
  ClassicSchedule runs = classic;
  std::vector<Copy> source(graph.size());  // the copy that finishes first supplies the others
  for (ProcessorId p = 0; p < processors; ++p) {
    std::sort(runs[p].begin(), runs[p].end(), [&](const ClassicRun& a, const ClassicRun& b) {
      return a.start != b.start ? a.start < b.start : rank[a.task] < rank[b.task];
    });
    for (const ClassicRun& run : runs[p]) {
      const Time finish = run.start + graph.weight(run.task);
      Copy& first = source[run.task];
      if (first.processor < 0 || finish < first.finish) first = {finish, p};
    }
  }
  // Who needs what from elsewhere, in the order of first use.
  std::vector<std::vector<Delivery>> deliveries(processors);  // by sender
  std::vector<int32_t> held(graph.size(), -1);
  for (ProcessorId p = 0; p < processors; ++p) {
    for (const ClassicRun& run : runs[p]) {
      for (TaskId before : graph.predecessors(run.task)) {
        if (held[before] == p) continue;
        held[before] = p;
        assert(source[before].processor != p);
        deliveries[source[before].processor].push_back({before, p});
      }
      held[run.task] = p;
    }
  }
  TaskSchedule schedule(processors, logp);
  std::vector<std::vector<std::pair<TaskId, MessageId>>> incoming(processors);
  std::vector<std::vector<MessageId>> outgoing(processors);
  for (ProcessorId p = 0; p < processors; ++p) {
    std::sort(deliveries[p].begin(), deliveries[p].end());
    for (const Delivery& delivery : deliveries[p]) {
      const MessageId message = schedule.add_message(p, delivery.to, std::span(&delivery.task, 1));
      outgoing[p].push_back(message);
      incoming[delivery.to].emplace_back(delivery.task, message);
    }
  }
  for (auto& messages : incoming) std::sort(messages.begin(), messages.end());
  std::fill(held.begin(), held.end(), -1);
  for (ProcessorId p = 0; p < processors; ++p) {
    auto& instructions = schedule.processors[p];
    for (const ClassicRun& run : runs[p]) {
      for (TaskId before : graph.predecessors(run.task)) {
        if (held[before] == p) continue;
        held[before] = p;
        const auto found = std::lower_bound(incoming[p].begin(), incoming[p].end(),
                                            std::pair<TaskId, MessageId>(before, 0));
        instructions.push_back({0, found->second, Kind::kReceive});
      }
      held[run.task] = p;
      instructions.push_back({0, run.task, Kind::kRun});
      if (source[run.task].processor != p) continue;
      auto sent =
          std::lower_bound(deliveries[p].begin(), deliveries[p].end(), Delivery{run.task, 0});
      for (; sent != deliveries[p].end() && sent->task == run.task; ++sent)
        instructions.push_back({0, outgoing[p][sent - deliveries[p].begin()], Kind::kSend});
    }
  }
  [[maybe_unused]] const Status replayed = replay(graph, schedule);
  assert(replayed);
  return schedule;
}

}  // namespace ibcoll::task_graph
