#include <algorithm>
#include <istream>
#include <ostream>
#include <string>

#include "studies/task_graph/formats.h"
#include "studies/task_graph/lines.h"

namespace ibcoll::task_graph {

namespace {

/// The lines of a HyperDAG file in turn.
class HyperDagReader {
 public:
  explicit HyperDagReader(std::istream& in) : in_(in) {}

  Result<TaskGraph> read() {
    // Comments stand before the numbers only.
    do {
      if (!next()) return wrong("the file ends before its three numbers");
    } while (words_.empty());
    if (words_.size() < 3) return wrong("expected the numbers of hyperedges, nodes and pins");
    IBCOLL_ASSIGN(const int64_t hyperedges, word(0, kMaxTasksOfAFile, "number of hyperedges"));
    IBCOLL_ASSIGN(const int64_t nodes, word(1, kMaxTasksOfAFile, "number of nodes"));
    IBCOLL_ASSIGN(const int64_t pins, word(2, INT64_MAX, "number of pins"));
    IBCOLL_TRY(read_hyperedges(hyperedges));
    IBCOLL_TRY(read_nodes(nodes));
    IBCOLL_TRY(read_pins(pins, hyperedges, nodes));
    while (next()) {
      if (!words_.empty()) return wrong("more lines than the three numbers say");
    }
    return TaskGraph::create(std::move(weights_), edges_, edge_lines_);
  }

 private:
  tl::unexpected<Error> wrong(const std::string& reason) const {
    return fail(ErrorCode::kInvalidArgument, "line {}: {}", std::max(line_, 1), reason);
  }
  bool next() {
    if (!std::getline(in_, text_)) return false;
    ++line_;
    words_ = line_words(text_, '%');
    return true;
  }
  Result<int64_t> word(size_t i, int64_t high, const char* what) const {
    return line_number(words_[i], 0, high, what, line_);
  }
  /// The next line, which must have so many words; says what is missing at the end of the file.
  Status line_of(size_t words, const char* what, int64_t have, int64_t all) {
    if (!next()) return wrong(fmt::format("the file ends after {} of {} {}", have, all, what));
    if (words_.size() < words) return wrong(fmt::format("this is no line of {}", what));
    return {};
  }

  Status read_hyperedges(int64_t hyperedges) {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < hyperedges; ++i) {
      IBCOLL_TRY(line_of(1, "hyperedges", i, hyperedges));
      IBCOLL_ASSIGN(const int64_t id, word(0, hyperedges - 1, "hyperedge"));
      ids.push_back(id);
    }
    return each_once(ids, "hyperedge");
  }

  Status read_nodes(int64_t nodes) {
    std::vector<int64_t> ids;
    std::vector<Time> works;
    for (int64_t i = 0; i < nodes; ++i) {
      IBCOLL_TRY(line_of(1, "nodes", i, nodes));
      IBCOLL_ASSIGN(const int64_t id, word(0, nodes - 1, "node"));
      ids.push_back(id);
      works.push_back(1);
      if (words_.size() < 2) continue;
      IBCOLL_ASSIGN(works.back(), word(1, kMaxTotalWork, "work"));
    }
    IBCOLL_TRY(each_once(ids, "node"));
    weights_.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) weights_[ids[i]] = works[i];
    return {};
  }

  Status read_pins(int64_t pins, int64_t hyperedges, int64_t nodes) {
    std::vector<TaskId> source(static_cast<size_t>(hyperedges), -1);
    for (int64_t i = 0; i < pins; ++i) {
      IBCOLL_TRY(line_of(2, "pins", i, pins));
      if (hyperedges == 0 || nodes == 0) return wrong("a pin of nothing");
      IBCOLL_ASSIGN(const int64_t edge, word(0, hyperedges - 1, "hyperedge"));
      IBCOLL_ASSIGN(const int64_t node, word(1, nodes - 1, "node"));
      if (source[edge] < 0) {
        source[edge] = static_cast<TaskId>(node);
        continue;
      }
      edges_.push_back({source[edge], static_cast<TaskId>(node)});
      edge_lines_.push_back(line_);
    }
    return {};
  }

  /// Checks the ids of the lines just read. Not while reading: a short file can claim any number
  /// and any id, and only what it really has may decide how much memory is taken.
  Status each_once(const std::vector<int64_t>& ids, const char* what) const {
    std::vector<bool> seen(ids.size(), false);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (seen[ids[i]])
        return fail(ErrorCode::kInvalidArgument, "line {}: {} {} comes twice",
                    line_ - static_cast<int>(ids.size() - 1 - i), what, ids[i]);
      seen[ids[i]] = true;
    }
    return {};
  }

  std::istream& in_;
  std::string text_;
  int line_ = 0;
  std::vector<std::string_view> words_;
  std::vector<Time> weights_;
  std::vector<Edge> edges_;
  std::vector<int> edge_lines_;
};

}  // namespace

Result<TaskGraph> read_hyperdag(std::istream& in) { return HyperDagReader(in).read(); }

void write_hyperdag(const TaskGraph& graph, std::ostream& out) {
  int64_t hyperedges = 0;
  for (TaskId task = 0; task < graph.size(); ++task)
    hyperedges += graph.successors(task).empty() ? 0 : 1;
  out << "% HyperDAG file format v1\n"
      << hyperedges << ' ' << graph.size() << ' ' << graph.edges() + hyperedges << '\n';
  for (int64_t edge = 0; edge < hyperedges; ++edge) out << edge << '\n';
  for (TaskId task = 0; task < graph.size(); ++task)
    out << task << ' ' << graph.weight(task) << '\n';
  int64_t edge = 0;
  for (TaskId task = 0; task < graph.size(); ++task) {
    if (graph.successors(task).empty()) continue;
    out << edge << ' ' << task << '\n';
    for (TaskId after : graph.successors(task)) out << edge << ' ' << after << '\n';
    ++edge;
  }
}

}  // namespace ibcoll::task_graph
