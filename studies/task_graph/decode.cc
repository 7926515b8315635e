#include "studies/task_graph/decode.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace ibcoll::task_graph {

namespace {

using Kind = Instruction::Kind;
constexpr Time kNever = std::numeric_limits<Time>::max();

}  // namespace

Decoder::Decoder(const TaskGraph& graph, const LogP& logp, int processors)
    : graph_(graph),
      logp_(logp),
      processors_(processors),
      clock_(processors),
      have_(processors, std::vector<Time>(graph.size(), kNever)),
      list_(processors),
      sent_(static_cast<size_t>(processors) * processors, 0) {}

Time Decoder::makespan(const std::vector<PlacedTask>& sequence) {
  return decode(sequence, nullptr);
}

TaskSchedule Decoder::schedule(const std::vector<PlacedTask>& sequence) {
  TaskSchedule result(processors_, logp_);
  decode(sequence, &result);
  prune_messages(graph_, result);
  return result;
}

/// Brings the result of `task` to processor p from where its message would be there first.
bool Decoder::fetch(TaskId task, ProcessorId p, TaskSchedule* out) {
  ProcessorId from = -1;
  for (ProcessorId q = 0; q < processors_; ++q) {
    if (have_[q][task] != kNever && (from < 0 || clock_[q] < clock_[from])) from = q;
  }
  if (from < 0) return false;
  const Time sent = clock_[from];
  clock_[from] += logp_.send_overhead;
  const Time received = std::max(clock_[p], sent + logp_.arrival(1));
  clock_[p] = received + logp_.receive_overhead;
  std::vector<TaskId> packed;
  size_t& sent_before = sent_[static_cast<size_t>(from) * processors_ + p];
  for (; sent_before < list_[from].size(); ++sent_before) {
    const TaskId held = list_[from][sent_before];
    if (have_[p][held] != kNever) continue;
    have_[p][held] = clock_[p];
    list_[p].push_back(held);
    if (out != nullptr) packed.push_back(held);
  }
  if (out != nullptr) {
    const MessageId message = out->add_message(from, p, packed);
    out->processors[from].push_back({sent, message, Kind::kSend});
    out->processors[p].push_back({received, message, Kind::kReceive});
  }
  return true;
}

Time Decoder::decode(const std::vector<PlacedTask>& sequence, TaskSchedule* out) {
  std::fill(sent_.begin(), sent_.end(), 0);
  for (ProcessorId p = 0; p < processors_; ++p) {
    clock_[p] = 0;
    for (TaskId task : list_[p]) have_[p][task] = kNever;
    list_[p].clear();
  }
  for (const auto& [task, p] : sequence) {
    if (have_[p][task] != kNever) continue;
    for (TaskId before : graph_.predecessors(task)) {
      if (have_[p][before] == kNever && !fetch(before, p, out)) return -1;
    }
    if (out != nullptr) out->processors[p].push_back({clock_[p], task, Kind::kRun});
    clock_[p] += graph_.weight(task);
    have_[p][task] = clock_[p];
    list_[p].push_back(task);
  }
  return *std::max_element(clock_.begin(), clock_.end());
}

std::vector<PlacedTask> sequence_of(const TaskGraph& graph, const TaskSchedule& schedule) {
  std::vector<int32_t> rank(graph.size());
  int32_t next = 0;
  for (TaskId task : topological_order(graph)) rank[task] = next++;
  struct TaskRun {
    Time start;
    int32_t rank;
    PlacedTask placed;
  };
  std::vector<TaskRun> runs;
  for (size_t p = 0; p < schedule.processors.size(); ++p) {
    for (const Instruction& instruction : schedule.processors[p]) {
      if (instruction.kind == Kind::kRun)
        runs.push_back({instruction.start,
                        rank[instruction.id],
                        {instruction.id, static_cast<ProcessorId>(p)}});
    }
  }
  std::stable_sort(runs.begin(), runs.end(), [](const TaskRun& a, const TaskRun& b) {
    return a.start != b.start ? a.start < b.start : a.rank < b.rank;
  });
  std::vector<PlacedTask> sequence;
  for (const TaskRun& run : runs) sequence.push_back(run.placed);
  return sequence;
}

void prune_messages(const TaskGraph& graph, TaskSchedule& schedule) {
  const auto processors = static_cast<ProcessorId>(schedule.processors.size());
  std::vector<int32_t> copies(graph.size(), 0);
  for (const auto& instructions : schedule.processors) {
    for (const Instruction& instruction : instructions) {
      if (instruction.kind == Kind::kRun) ++copies[instruction.id];
    }
  }
  // Backwards from each processor's end, a send once its receive has been seen: what is wanted of
  // a result is known when its origin comes up.
  std::vector<std::vector<bool>> wanted(processors, std::vector<bool>(graph.size(), false));
  std::vector<std::vector<TaskId>> carried(schedule.messages.size());
  std::vector<bool> received(schedule.messages.size(), false);
  std::vector<std::vector<Instruction>> kept(processors);
  for (bool moved = true; moved;) {
    moved = false;
    for (ProcessorId p = 0; p < processors; ++p) {
      auto& left = schedule.processors[p];
      for (; !left.empty(); left.pop_back()) {
        const Instruction instruction = left.back();
        const auto id = static_cast<size_t>(instruction.id);
        if (instruction.kind == Kind::kRun) {
          if (!wanted[p][id] && copies[id] > 1) {
            --copies[id];
            moved = true;
            continue;
          }
          wanted[p][id] = false;
          for (TaskId before : graph.predecessors(instruction.id)) wanted[p][before] = true;
        } else if (instruction.kind == Kind::kReceive) {
          for (TaskId task : schedule.tasks(schedule.messages[id])) {
            if (!wanted[p][task]) continue;
            wanted[p][task] = false;
            carried[id].push_back(task);
          }
          received[id] = true;
        } else {
          if (!received[id]) break;
          for (TaskId task : carried[id]) wanted[p][task] = true;
        }
        kept[p].push_back(instruction);
        moved = true;
      }
    }
  }
  std::vector<MessageId> renamed(schedule.messages.size(), -1);
  TaskSchedule pruned(processors, schedule.logp);
  for (size_t id = 0; id < carried.size(); ++id) {
    if (carried[id].empty()) continue;
    std::sort(carried[id].begin(), carried[id].end());
    renamed[id] =
        pruned.add_message(schedule.messages[id].from, schedule.messages[id].to, carried[id]);
  }
  for (ProcessorId p = 0; p < processors; ++p) {
    for (auto instruction = kept[p].rbegin(); instruction != kept[p].rend(); ++instruction) {
      if (instruction->kind != Kind::kRun) {
        instruction->id = renamed[instruction->id];
        if (instruction->id < 0) continue;
      }
      pruned.processors[p].push_back(*instruction);
    }
  }
  schedule = std::move(pruned);
  [[maybe_unused]] const Status replayed = replay(graph, schedule);
  assert(replayed);
}

}  // namespace ibcoll::task_graph
