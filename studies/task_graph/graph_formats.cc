#include <algorithm>
#include <cctype>
#include <sstream>
#include <unordered_map>

#include "engine/base/input.h"
#include "engine/base/json.h"
#include "engine/base/json_lines.h"
#include "engine/base/units.h"
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

namespace {

/// Reads the little of the DOT language that task graphs need.
class DotReader {
 public:
  explicit DotReader(std::istream& in)
      : text_(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()) {}

  Result<TaskGraph> read() {
    IBCOLL_ASSIGN(std::string word, next());
    if (word == "strict") {
      IBCOLL_ASSIGN(word, next());
    }
    if (word != "digraph") return wrong(fmt::format("expected 'digraph', found '{}'", word));
    IBCOLL_ASSIGN(word, next());
    if (word != "{") {
      IBCOLL_ASSIGN(word, next());
    }
    if (word != "{") return wrong(fmt::format("expected '{{', found '{}'", word));
    for (;;) {
      IBCOLL_ASSIGN(word, next());
      if (word == "}") break;
      if (word.empty()) return wrong("the file ends inside the graph");
      if (word == ";") continue;
      IBCOLL_TRY(statement(word));
    }
    return TaskGraph::create(std::move(weights_), edges_, edge_lines_);
  }

 private:
  tl::unexpected<Error> wrong(const std::string& reason) const {
    return fail(ErrorCode::kInvalidArgument, "line {}: {}", line_, reason);
  }

  /// The next word or sign; empty at the end.
  Result<std::string> next() {
    skip_blank();
    if (at_ >= text_.size()) return std::string();
    const char c = text_[at_];
    if (c == '"') {
      const size_t end = text_.find('"', at_ + 1);
      if (end == std::string::npos) return wrong("a quote is not closed");
      std::string word = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      return word;
    }
    if (text_.compare(at_, 2, "->") == 0) {
      at_ += 2;
      return std::string("->");
    }
    size_t end = at_;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_' ||
            text_[end] == '.' || (text_[end] == '-' && text_.compare(end, 2, "->") != 0)))
      ++end;
    if (end == at_) ++end;
    std::string word = text_.substr(at_, end - at_);
    at_ = end;
    return word;
  }

  void skip_blank() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#' || text_.compare(at_, 2, "//") == 0) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_.compare(at_, 2, "/*") == 0) {
        const size_t end = std::min(text_.find("*/", at_), text_.size());
        line_ += static_cast<int>(std::count(text_.begin() + static_cast<int64_t>(at_),
                                             text_.begin() + static_cast<int64_t>(end), '\n'));
        at_ = std::min(end + 2, text_.size());
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        line_ += c == '\n' ? 1 : 0;
        ++at_;
      } else {
        return;
      }
    }
  }

  Result<std::string> peek() {
    const size_t at = at_;
    const int line = line_;
    Result<std::string> word = next();
    at_ = at;
    line_ = line;
    return word;
  }

  TaskId node(const std::string& name) {
    const auto [found, made] = ids_.emplace(name, static_cast<TaskId>(weights_.size()));
    if (made) weights_.push_back(1);
    return found->second;
  }

  Status statement(const std::string& first) {
    if (first == "subgraph" || first == "{") return wrong("subgraphs are not supported");
    for (const char* sign : {"[", "]", "->", "=", ",", "--"}) {
      if (first == sign) return wrong(fmt::format("unexpected '{}'", first));
    }
    IBCOLL_ASSIGN(std::string word, peek());
    if (word == "=") {  // a graph attribute: name = value
      IBCOLL_TRY(next());
      IBCOLL_TRY(next());
      return {};
    }
    if (first == "node" || first == "edge" || first == "graph") return attributes(nullptr);
    TaskId at = node(first);
    bool edge = false;
    for (; word == "->"; edge = true) {
      IBCOLL_TRY(next());
      IBCOLL_ASSIGN(const std::string to, next());
      if (to.empty() || to == ";" || to == "}" || to == "[") return wrong("an edge without an end");
      const TaskId end = node(to);
      edges_.push_back({at, end});
      edge_lines_.push_back(line_);
      at = end;
      IBCOLL_ASSIGN(word, peek());
    }
    if (word == "--") return wrong("an undirected edge in a digraph");
    return attributes(edge ? nullptr : &weights_[at]);
  }

  /// "[name=value, ..]" if there is one; takes the weight if asked for.
  Status attributes(Time* weight) {
    IBCOLL_ASSIGN(std::string word, peek());
    if (word != "[") return {};
    IBCOLL_TRY(next());
    for (;;) {
      IBCOLL_ASSIGN(const std::string name, next());
      if (name == "]") return {};
      if (name == "," || name == ";") continue;
      if (name.empty()) return wrong("the attributes are not closed");
      IBCOLL_ASSIGN(word, peek());
      if (word != "=") continue;
      IBCOLL_TRY(next());
      IBCOLL_ASSIGN(const std::string value, next());
      if (name != "weight" || weight == nullptr) continue;
      IBCOLL_ASSIGN(*weight, line_number(value, 0, kMaxTotalWork, "weight", line_));
    }
  }

  const std::string text_;
  size_t at_ = 0;
  int line_ = 1;
  std::unordered_map<std::string, TaskId> ids_;
  std::vector<Time> weights_;
  std::vector<Edge> edges_;
  std::vector<int> edge_lines_;
};

}  // namespace

Result<TaskGraph> read_dot(std::istream& in) { return DotReader(in).read(); }

void write_dot(const TaskGraph& graph, std::ostream& out) {
  out << "digraph tasks {\n";
  for (TaskId task = 0; task < graph.size(); ++task)
    out << "  " << task << " [weight=" << graph.weight(task) << "];\n";
  for (TaskId task = 0; task < graph.size(); ++task) {
    for (TaskId after : graph.successors(task)) out << "  " << task << " -> " << after << ";\n";
  }
  out << "}\n";
}

Result<TaskGraph> read_json(std::istream& in) {
  const std::string text(std::istreambuf_iterator<char>(in), {});
  try {
    IBCOLL_ASSIGN(const nlohmann::json document, parse_json(text));
    if (document.contains("workflow")) return graph_of_workflow(document);
    for (const char* key : {"weights", "edges"}) {
      if (!document.contains(key) || !document[key].is_array())
        return fail(ErrorCode::kInvalidArgument, "there is no array \"{}\", and no \"workflow\"",
                    key);
    }
    std::vector<Time> weights;
    for (const auto& weight : document["weights"]) {
      if (!weight.is_number_integer())
        return fail(ErrorCode::kInvalidArgument, "weights[{}] is not a whole number",
                    weights.size());
      weights.push_back(weight.get<Time>());
    }
    std::vector<Edge> edges;
    for (const auto& edge : document["edges"]) {
      if (!edge.is_array() || edge.size() != 2 || !edge[0].is_number_integer() ||
          !edge[1].is_number_integer())
        return fail(ErrorCode::kInvalidArgument, "edges[{}] is not a pair of tasks", edges.size());
      for (const auto& end : edge) {
        if (end.get<int64_t>() < 0 || end.get<int64_t>() >= static_cast<int64_t>(weights.size()))
          return fail(ErrorCode::kInvalidArgument, "edges[{}]: there is no task {} (tasks: {})",
                      edges.size(), end.get<int64_t>(), weights.size());
      }
      edges.push_back({edge[0].get<TaskId>(), edge[1].get<TaskId>()});
    }
    return TaskGraph::create(std::move(weights), edges);
  } catch (const nlohmann::json::exception& e) {  // its text has line and column
    return fail(ErrorCode::kInvalidArgument, "{}", e.what());
  }
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
