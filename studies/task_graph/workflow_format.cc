/// WfFormat, the JSON of WfCommons.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/base/json.h"
#include "studies/task_graph/formats.h"

namespace ibcoll::task_graph {

namespace {

using Json = nlohmann::ordered_json;

tl::unexpected<Error> wrong_workflow(const std::string& reason) {
  return fail(ErrorCode::kInvalidArgument, "{}", reason);
}

/// The array of tasks below a member, or null.
const Json* tasks_of(const Json& parent) {
  if (!parent.is_object()) return nullptr;
  const auto found = parent.find("tasks");
  return found != parent.end() && found->is_array() ? &*found : nullptr;
}

/// Reads tasks, then what they take and need.
class WorkflowReader {
 public:
  Status add_tasks(const Json& tasks) {
    for (const Json& task : tasks) {
      const std::string id = name_of(task);
      if (id.empty())
        return wrong_workflow(fmt::format("task {} has neither id nor name", weights_.size()));
      const auto number = static_cast<TaskId>(weights_.size());
      if (!ids_.emplace(id, number).second)
        return wrong_workflow(fmt::format("there are two tasks '{}'", id));
      // Documents before 1.4 refer to tasks by name, those after by id.
      const auto name = text(task, "name");
      if (name && !names_.emplace(*name, number).second) names_[*name] = kSeveral;
      weights_.push_back(1);
    }
    return {};
  }

  Status add_edges(const Json& tasks) {
    TaskId at = 0;
    for (const Json& task : tasks) {
      for (const bool parents : {true, false}) {
        const auto others = task.find(parents ? "parents" : "children");
        if (others == task.end()) continue;
        if (!others->is_array()) return wrong_workflow(about(task, "relatives are no array"));
        for (const Json& other : *others) {
          if (!other.is_string()) return wrong_workflow(about(task, "a relative is no text"));
          const Result<TaskId> found = find(other.get<std::string>());
          if (!found) return wrong_workflow(about(task, found.error().message));
          edges_.push_back(parents ? Edge{*found, at} : Edge{at, *found});
        }
      }
      ++at;
    }
    return {};
  }

  /// Runtimes of all tasks, or of none.
  Status add_runtimes(const Json& tasks) {
    std::vector<bool> timed(weights_.size(), false);
    for (const Json& task : tasks) {
      if (!task.is_object()) return wrong_workflow("runtimes: one is of no task");
      const Json* runtime = nullptr;
      for (const char* key : {"runtimeInSeconds", "runtime"}) {
        const auto found = task.find(key);
        if (found != task.end()) runtime = &*found;
      }
      if (runtime == nullptr) continue;
      const Result<TaskId> number = find(name_of(task));
      if (!number) return wrong_workflow("runtimes: " + number.error().message);
      if (timed[*number]) return wrong_workflow(about(task, "it has two runtimes"));
      timed[*number] = true;
      constexpr double kMillisecond = 1e-3;
      const double weight =
          runtime->is_number() ? std::round(runtime->get<double>() / kMillisecond) : -1;
      if (!(weight >= 0 && weight <= static_cast<double>(kMaxTotalWork)))
        return wrong_workflow(about(task, "its runtime is no number of seconds"));
      weights_[*number] = static_cast<Time>(weight);
    }
    const auto some = std::count(timed.begin(), timed.end(), true);
    if (some != 0 && some != static_cast<int64_t>(timed.size()))
      return wrong_workflow(fmt::format("{} of {} tasks have a runtime", some, timed.size()));
    return {};
  }

  Result<TaskGraph> finish() {
    std::vector<std::string_view> names(weights_.size());
    for (const auto& [id, number] : ids_) names[number] = id;
    return TaskGraph::create(std::move(weights_), edges_, {}, names);
  }

 private:
  static std::optional<std::string> text(const Json& task, const char* key) {
    const auto found = task.is_object() ? task.find(key) : task.end();
    if (found == task.end() || !found->is_string()) return std::nullopt;
    return found->get<std::string>();
  }
  static std::string name_of(const Json& task) {
    return text(task, "id").value_or(text(task, "name").value_or(""));
  }
  static std::string about(const Json& task, const std::string& reason) {
    return fmt::format("task '{}': {}", name_of(task), reason);
  }
  Result<TaskId> find(const std::string& task) const {
    for (const auto* names : {&ids_, &names_}) {
      const auto found = names->find(task);
      if (found == names->end()) continue;
      if (found->second == kSeveral)
        return fail(ErrorCode::kInvalidArgument, "there are several tasks named '{}'", task);
      return found->second;
    }
    return fail(ErrorCode::kInvalidArgument, "there is no task '{}'", task);
  }

  static constexpr TaskId kSeveral = -1;

  std::unordered_map<std::string, TaskId> ids_, names_;
  std::vector<Time> weights_;
  std::vector<Edge> edges_;
};

}  // namespace

Result<TaskGraph> graph_of_workflow(const Json& document) {
  const Json& workflow = document["workflow"];
  const Json* tasks = tasks_of(workflow);
  const Json* runtimes = tasks;
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
