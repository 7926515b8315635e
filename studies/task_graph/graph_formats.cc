#include <sstream>

#include "engine/base/input.h"
#include "engine/base/json.h"
#include "engine/base/json_lines.h"
#include "studies/task_graph/formats.h"
#include "studies/task_graph/generators.h"
#include "studies/task_graph/lines.h"

namespace ibcoll::task_graph {

Result<TaskGraph> read_stg(std::istream& in) {
  std::string text;
  int line = 0;
  int64_t announced = -1;
  std::vector<Time> weights;
  std::vector<Edge> edges;
  std::vector<int> edge_lines;
  while (std::getline(in, text)) {
    ++line;
    const auto parts = line_words(text, '#');
    if (parts.empty()) continue;
    if (announced < 0) {
      if (parts.size() != 1)
        return fail(ErrorCode::kInvalidArgument, "line {}: expected the number of tasks alone",
                    line);
      IBCOLL_ASSIGN(announced, line_number(parts[0], 0, kMaxTasksOfAFile, "number of tasks", line));
      continue;
    }
    const auto task = static_cast<int64_t>(weights.size());
    if (task >= announced + 2)
      return fail(ErrorCode::kInvalidArgument, "line {}: more than the {} tasks announced", line,
                  announced);
    if (parts.size() < 3)
      return fail(ErrorCode::kInvalidArgument,
                  "line {}: expected id, weight, number of predecessors", line);
    IBCOLL_ASSIGN(const int64_t id, line_number(parts[0], 0, kMaxTasksOfAFile, "task", line));
    if (id != task)
      return fail(ErrorCode::kInvalidArgument, "line {}: task {} where task {} is expected", line,
                  id, task);
    IBCOLL_ASSIGN(const int64_t weight, line_number(parts[1], 0, kMaxTotalWork, "weight", line));
    IBCOLL_ASSIGN(const int64_t count,
                  line_number(parts[2], 0, kMaxTasksOfAFile, "number of predecessors", line));
    if (static_cast<int64_t>(parts.size()) != 3 + count)
      return fail(ErrorCode::kInvalidArgument, "line {}: {} predecessors announced, {} given", line,
                  count, parts.size() - 3);
    for (size_t i = 3; i < parts.size(); ++i) {
      IBCOLL_ASSIGN(const int64_t before,
                    line_number(parts[i], 0, announced + 1, "predecessor", line));
      edges.push_back({static_cast<TaskId>(before), static_cast<TaskId>(id)});
      edge_lines.push_back(line);
    }
    weights.push_back(weight);
  }
  if (announced < 0) return fail(ErrorCode::kInvalidArgument, "line 1: the file is empty");
  const auto found = static_cast<int64_t>(weights.size());
  if (found != announced && found != announced + 2)
    return fail(ErrorCode::kInvalidArgument, "line {}: the file ends after {} of {} tasks", line,
                found, announced);
  return TaskGraph::create(std::move(weights), edges, edge_lines);
}

void write_stg(const TaskGraph& graph, std::ostream& out) {
  // The set's graphs have a dummy entry and exit, which the number doesn't count.
  const TaskId last = graph.size() - 1;
  bool dummies = last >= 2 && graph.weight(0) == 0 && graph.weight(last) == 0;
  for (TaskId task = 0; dummies && task <= last; ++task)
    dummies = graph.predecessors(task).empty() == (task == 0) &&
              graph.successors(task).empty() == (task == last);
  out << (dummies ? graph.size() - 2 : graph.size()) << '\n';
  for (TaskId task = 0; task <= last; ++task) {
    out << task << ' ' << graph.weight(task) << ' ' << graph.predecessors(task).size();
    for (TaskId before : graph.predecessors(task)) out << ' ' << before;
    out << '\n';
  }
}

Result<TaskGraph> read_json(std::istream& in) {
  const std::string text(std::istreambuf_iterator<char>(in), {});
  IBCOLL_ASSIGN(const nlohmann::ordered_json document, parse_json(text));
  if (document.contains("workflow")) return graph_of_workflow(document);
  for (const char* key : {"weights", "edges"}) {
    if (!document.contains(key) || !document[key].is_array())
      return fail(ErrorCode::kInvalidArgument, "there is no array \"{}\", and no \"workflow\"",
                  key);
  }
  std::vector<Time> weights;
  for (const auto& weight : document["weights"]) {
    const auto time = whole_number(weight);
    if (!time || *time > kMaxTotalWork)
      return fail(ErrorCode::kInvalidArgument, "weights[{}] is not a whole number up to {}",
                  weights.size(), kMaxTotalWork);
    weights.push_back(*time);
  }
  std::vector<Edge> edges;
  for (const auto& edge : document["edges"]) {
    if (!edge.is_array() || edge.size() != 2)
      return fail(ErrorCode::kInvalidArgument, "edges[{}] is not a pair of tasks", edges.size());
    TaskId ends[2];
    for (size_t i = 0; i < 2; ++i) {
      const auto end = whole_number(edge[i]);
      if (!end || *end < 0 || *end >= static_cast<int64_t>(weights.size()))
        return fail(ErrorCode::kInvalidArgument, "edges[{}]: there is no task {} (tasks: {})",
                    edges.size(), json_text(edge[i]), weights.size());
      ends[i] = static_cast<TaskId>(*end);
    }
    edges.push_back({ends[0], ends[1]});
  }
  return TaskGraph::create(std::move(weights), edges);
}

void write_json(const TaskGraph& graph, std::ostream& out) {
  out << "{\"weights\": [";
  for (TaskId task = 0; task < graph.size(); ++task)
    out << (task > 0 ? ", " : "") << graph.weight(task);
  out << "],\n \"edges\": [";
  const char* separator = "";
  for (TaskId task = 0; task < graph.size(); ++task) {
    for (TaskId after : graph.successors(task)) {
      out << separator << '[' << task << ", " << after << ']';
      separator = ", ";
    }
  }
  out << "]}\n";
}

namespace {

struct Format {
  const char* ending;
  Result<TaskGraph> (*read)(std::istream&);
  void (*write)(const TaskGraph&, std::ostream&);
};
constexpr Format kFormats[] = {{".stg", read_stg, write_stg},
                               {".dot", read_dot, write_dot},
                               {".gv", read_dot, write_dot},
                               {".json", read_json, write_json},
                               {".hdag", read_hyperdag, write_hyperdag},
                               {".txt", read_hyperdag, write_hyperdag}};

const Format* format_of(std::string_view file) {
  for (const Format& format : kFormats) {
    if (file.ends_with(format.ending)) return &format;
  }
  return nullptr;
}

}  // namespace

Result<TaskGraph> load_graph(const std::string& file_or_description) {
  const Format* format = format_of(file_or_description);
  if (format == nullptr) {
    Result<TaskGraph> generated = generate(file_or_description);
    if (generated || generated.error().code != ErrorCode::kUnsupported) return generated;
    return fail(
        ErrorCode::kInvalidArgument,
        "graph '{}' is neither a generator nor a .stg, .dot, .gv, .json, .hdag or .txt file",
        file_or_description);
  }
  IBCOLL_ASSIGN(std::string text, read_input(file_or_description));
  std::istringstream in(std::move(text));
  return of_input(file_or_description, format->read(in));
}

Status save_graph(const TaskGraph& graph, const std::string& file) {
  const Format* format = format_of(file);
  if (format == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                "'{}': the ending must be .stg, .dot, .gv, .json, .hdag or .txt", file);
  std::ostringstream out;
  format->write(graph, out);
  return write_file(file, out.str());
}

}  // namespace ibcoll::task_graph
