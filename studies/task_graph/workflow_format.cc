/// WfFormat, the JSON of WfCommons.

#include <cmath>
#include <optional>
#include <string>
#include <unordered_map>

#include "engine/base/json.h"
#include "studies/task_graph/formats.h"

namespace ibcoll::task_graph {

namespace {

using nlohmann::json;

tl::unexpected<Error> wrong_workflow(const std::string& reason) {
  return fail(ErrorCode::kInvalidArgument, "{}", reason);
}

/// The array of tasks below a member, or null.
const json* tasks_of(const json& parent) {
  if (!parent.is_object()) return nullptr;
  const auto found = parent.find("tasks");
  return found != parent.end() && found->is_array() ? &*found : nullptr;
}

/// Reads tasks, then what they take and need.
class WorkflowReader {
 public:
  Status add_tasks(const json& tasks) {
    for (const json& task : tasks) {
      const std::string id = text(task, "id").value_or(text(task, "name").value_or(""));
      if (id.empty())
        return wrong_workflow(fmt::format("task {} has neither id nor name", weights_.size()));
      const auto number = static_cast<TaskId>(weights_.size());
      if (!ids_.emplace(id, number).second)
        return wrong_workflow(fmt::format("there are two tasks '{}'", id));
      // Documents before 1.4 refer to tasks by name, those after by id.
      if (const auto name = text(task, "name")) names_.emplace(*name, number);
      weights_.push_back(1);
    }
    return {};
  }

  Status add_edges(const json& tasks) {
    TaskId at = 0;
    for (const json& task : tasks) {
      for (const bool parents : {true, false}) {
        const auto others = task.find(parents ? "parents" : "children");
        if (others == task.end()) continue;
        if (!others->is_array()) return wrong_workflow(about(task, "relatives are no array"));
        for (const json& other : *others) {
          if (!other.is_string()) return wrong_workflow(about(task, "a relative is no text"));
          const TaskId found = find(other.get<std::string>());
          if (found < 0)
            return wrong_workflow(
                about(task, fmt::format("there is no task '{}'", other.get<std::string>())));
          edges_.push_back(parents ? Edge{found, at} : Edge{at, found});
        }
      }
      ++at;
    }
    return {};
  }

  /// Runtimes of all tasks, or of none.
  Status add_runtimes(const json& tasks) {
    for (const json& task : tasks) {
      const json* runtime = nullptr;
      for (const char* key : {"runtimeInSeconds", "runtime"}) {
        const auto found = task.find(key);
        if (found != task.end()) runtime = &*found;
      }
      if (runtime == nullptr) continue;
      const TaskId number = find(text(task, "id").value_or(text(task, "name").value_or("")));
      if (number < 0) return wrong_workflow(about(task, "it is not in the specification"));
      constexpr double kMillisecond = 1e-3;
      const double weight =
          runtime->is_number() ? std::round(runtime->get<double>() / kMillisecond) : -1;
      if (!(weight >= 0 && weight <= static_cast<double>(kMaxTotalWork)))
        return wrong_workflow(about(task, "its runtime is no number of seconds"));
      weights_[number] = static_cast<Time>(weight);
      ++timed_;
    }
    return {};
  }

  Result<TaskGraph> finish() {
    if (timed_ != 0 && timed_ != weights_.size())
      return wrong_workflow(fmt::format("{} of {} tasks have a runtime", timed_, weights_.size()));
    return TaskGraph::create(std::move(weights_), edges_);
  }

 private:
  static std::optional<std::string> text(const json& task, const char* key) {
    const auto found = task.is_object() ? task.find(key) : task.end();
    if (found == task.end() || !found->is_string()) return std::nullopt;
    return found->get<std::string>();
  }
  static std::string about(const json& task, const std::string& reason) {
    return fmt::format("task '{}': {}", text(task, "id").value_or(text(task, "name").value_or("")),
                       reason);
  }
  TaskId find(const std::string& task) const {
    for (const auto* names : {&ids_, &names_}) {
      const auto found = names->find(task);
      if (found != names->end()) return found->second;
    }
    return -1;
  }

  std::unordered_map<std::string, TaskId> ids_, names_;
  std::vector<Time> weights_;
  std::vector<Edge> edges_;
  size_t timed_ = 0;
};

}  // namespace

Result<TaskGraph> graph_of_workflow(const nlohmann::json& document) {
  const json& workflow = document["workflow"];
  const json* tasks = tasks_of(workflow);
  const json* runtimes = tasks;
  if (workflow.is_object() && workflow.contains("specification")) {
    tasks = tasks_of(workflow["specification"]);
    runtimes = workflow.contains("execution") ? tasks_of(workflow["execution"]) : nullptr;
  }
  if (tasks == nullptr) return wrong_workflow("the workflow has no array \"tasks\"");
  WorkflowReader reader;
  IBCOLL_TRY(reader.add_tasks(*tasks));
  IBCOLL_TRY(reader.add_edges(*tasks));
  if (runtimes != nullptr) IBCOLL_TRY(reader.add_runtimes(*runtimes));
  return reader.finish();
}

}  // namespace ibcoll::task_graph
