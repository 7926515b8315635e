#include <fmt/ranges.h>

#include <string>
#include <tuple>

#include "engine/base/json.h"
#include "studies/task_graph/formats.h"
#include "studies/task_graph/lines.h"

namespace ibcoll::task_graph {

using Kind = Instruction::Kind;
using Json = nlohmann::ordered_json;

void write_schedule(const TaskGraph& graph, const TaskSchedule& schedule, std::ostream& out) {
  int64_t instructions = 0;
  for (const auto& list : schedule.processors) instructions += static_cast<int64_t>(list.size());
  out << fmt::format(
      "{{\"tasks\":{},\"processors\":{},\"send_overhead\":{},\"receive_overhead\":{},\"latency\":{}"
      ","
      "\"per_result\":{},\"messages\":{},\"instructions\":{}}}\n",
      graph.size(), schedule.processors.size(), schedule.logp.send_overhead,
      schedule.logp.receive_overhead, schedule.logp.latency, schedule.logp.per_result,
      schedule.messages.size(), instructions);
  for (size_t id = 0; id < schedule.messages.size(); ++id) {
    const PackedMessage& message = schedule.messages[id];
    out << fmt::format("{{\"message\":{},\"from\":{},\"to\":{},\"tasks\":[{}]}}\n", id,
                       message.from, message.to, fmt::join(schedule.tasks(message), ","));
  }
  for (size_t p = 0; p < schedule.processors.size(); ++p) {
    for (const Instruction& instruction : schedule.processors[p]) {
      const char* verb = instruction.kind == Kind::kRun    ? "run"
                         : instruction.kind == Kind::kSend ? "send"
                                                           : "receive";
      out << fmt::format("{{\"processor\":{},\"at\":{},\"{}\":{}}}\n", p, instruction.start, verb,
                         instruction.id);
    }
  }
}

namespace {

/// The whole number under a key, in bounds.
Result<int64_t> field(const Json& object, const char* key, int64_t low, int64_t high) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer())
    return fail(ErrorCode::kInvalidArgument, "\"{}\" is missing or not a whole number", key);
  const auto value = whole_number(*found);
  if (!value || *value < low || *value > high)
    return fail(ErrorCode::kInvalidArgument, "\"{}\" is {}: must be {} to {}", key,
                json_text(*found), low, high);
  return *value;
}

struct Head {
  int64_t messages = -1;
  int64_t instructions = 0;
};

Result<Head> read_head(const TaskGraph& graph, const Json& object, TaskSchedule& schedule) {
  constexpr int64_t kMany = int64_t{1} << 31;
  IBCOLL_ASSIGN(const int64_t tasks, field(object, "tasks", 0, kMany));
  if (tasks != graph.size())
    return fail(ErrorCode::kInvalidArgument, "a schedule of {} tasks, the graph has {}", tasks,
                graph.size());
  IBCOLL_ASSIGN(const int64_t processors, field(object, "processors", 1, kMaxProcessors));
  schedule = TaskSchedule(static_cast<int>(processors));
  IBCOLL_ASSIGN(schedule.logp.send_overhead, field(object, "send_overhead", 0, kMaxCost));
  IBCOLL_ASSIGN(schedule.logp.receive_overhead, field(object, "receive_overhead", 0, kMaxCost));
  IBCOLL_ASSIGN(schedule.logp.latency, field(object, "latency", 0, kMaxCost));
  IBCOLL_ASSIGN(schedule.logp.per_result, field(object, "per_result", 0, kMaxCost));
  Head head;
  IBCOLL_ASSIGN(head.messages, field(object, "messages", 0, kMany));
  IBCOLL_ASSIGN(head.instructions, field(object, "instructions", 0, kMany));
  return head;
}

Status read_message(const TaskGraph& graph, const Json& object, TaskSchedule& schedule) {
  const auto id = static_cast<int64_t>(schedule.messages.size());
  const auto processors = static_cast<int64_t>(schedule.processors.size());
  IBCOLL_TRY(field(object, "message", id, id));
  IBCOLL_ASSIGN(const int64_t from, field(object, "from", 0, processors - 1));
  IBCOLL_ASSIGN(const int64_t to, field(object, "to", 0, processors - 1));
  const auto tasks = object.find("tasks");
  if (tasks == object.end() || !tasks->is_array())
    return fail(ErrorCode::kInvalidArgument, "\"tasks\" is missing or not an array");
  std::vector<TaskId> packed;
  for (const Json& task : *tasks) {
    const auto number = whole_number(task);
    if (!number || *number < 0 || *number >= graph.size())
      return fail(ErrorCode::kInvalidArgument, "there is no task {} (tasks: {})", json_text(task),
                  graph.size());
    packed.push_back(static_cast<TaskId>(*number));
  }
  // What it takes to travel must leave room to add up.
  if (schedule.logp.per_result > 0 &&
      static_cast<Time>(packed.size()) > kMaxTotalWork / schedule.logp.per_result)
    return fail(ErrorCode::kInvalidArgument, "a message of {} results travels longer than {}",
                packed.size(), kMaxTotalWork);
  schedule.add_message(static_cast<ProcessorId>(from), static_cast<ProcessorId>(to), packed);
  return {};
}

Status read_instruction(const TaskGraph& graph, const Json& object, TaskSchedule& schedule) {
  const auto processors = static_cast<int64_t>(schedule.processors.size());
  const auto messages = static_cast<int64_t>(schedule.messages.size());
  IBCOLL_ASSIGN(const int64_t processor, field(object, "processor", 0, processors - 1));
  IBCOLL_ASSIGN(const int64_t at, field(object, "at", 0, INT64_MAX / 2));
  for (const auto& [verb, kind, limit] : {std::tuple("run", Kind::kRun, int64_t{graph.size()}),
                                          std::tuple("send", Kind::kSend, messages),
                                          std::tuple("receive", Kind::kReceive, messages)}) {
    if (!object.contains(verb)) continue;
    IBCOLL_ASSIGN(const int64_t id, field(object, verb, 0, limit - 1));
    schedule.processors[processor].push_back({at, static_cast<int32_t>(id), kind});
    return {};
  }
  return fail(ErrorCode::kInvalidArgument, "an instruction without run, send or receive");
}

}  // namespace

Result<TaskSchedule> read_schedule(const TaskGraph& graph, std::istream& in) {
  TaskSchedule schedule;
  Head head;
  int64_t instructions = 0;
  std::string text;
  int line = 0;
  const auto read_line = [&]() -> Status {
    const Json object = parse_json(text).value_or(Json());
    if (!object.is_object())
      return fail(ErrorCode::kInvalidArgument, "not a JSON object (cut off?)");
    if (head.messages < 0) {
      IBCOLL_ASSIGN(head, read_head(graph, object, schedule));
      return {};
    }
    if (object.contains("message")) return read_message(graph, object, schedule);
    ++instructions;
    return read_instruction(graph, object, schedule);
  };
  while (std::getline(in, text)) {
    ++line;
    if (text.empty()) continue;
    const Status read = read_line();
    if (!read) return fail(read.error().code, "line {}: {}", line, read.error().message);
  }
  if (head.messages < 0) return fail(ErrorCode::kInvalidArgument, "line 1: the file is empty");
  if (static_cast<int64_t>(schedule.messages.size()) != head.messages ||
      instructions != head.instructions)
    return fail(ErrorCode::kInvalidArgument,
                "line {}: the file ends after {} of {} messages and {} of {} instructions", line,
                schedule.messages.size(), head.messages, instructions, head.instructions);
  return schedule;
}

}  // namespace ibcoll::task_graph
