#include "studies/task_graph/known_optima.h"

#include <algorithm>
#include <ctime>
#include <istream>

#include "engine/base/units.h"
#include "studies/task_graph/formats.h"
#include "studies/task_graph/free_messages.h"

namespace ibcoll::task_graph {

Result<std::vector<KnownOptimum>> read_optima(std::istream& in) {
  std::vector<KnownOptimum> optima;
  std::string text;
  for (int line = 1; std::getline(in, text); ++line) {
    while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.pop_back();
    if (text.empty() || text.front() == '#') continue;
    const auto wrong = [&](const std::string& reason) {
      return fail(ErrorCode::kInvalidArgument, "line {}: {}", line, reason);
    };
    const auto parts = split(text, ',');
    if ((parts.size() != 3 && parts.size() != 4) || parts[0].empty())
      return wrong(fmt::format("expected graph,processors,optimum, found '{}'", text));
    const auto processors = parse_integer(parts[1], 1, kMaxProcessors, "processors");
    if (!processors) return wrong(processors.error().message);
    const auto bound = parse_integer(parts[2], 1, kMaxTotalWork, "optimum");
    if (!bound) return wrong(bound.error().message);
    const auto makespan = parse_integer(parts.back(), *bound, kMaxTotalWork, "best makespan");
    if (!makespan) return wrong(makespan.error().message);
    optima.push_back({std::string(parts[0]), static_cast<int>(*processors), *bound, *makespan});
  }
  if (optima.empty()) return fail(ErrorCode::kInvalidArgument, "there is no optimum in it");
  return optima;
}

Result<std::vector<OptimaRow>> compare_with_optima(const Scheduler& scheduler,
                                                   const std::string& folder,
                                                   const std::vector<KnownOptimum>& optima,
                                                   const SchedulerOptions& options) {
  std::vector<OptimaRow> rows;
  for (const KnownOptimum& known : optima) {
    const std::string file = folder + "/" + known.graph;
    IBCOLL_ASSIGN(const TaskGraph graph, load_graph(file));
    const std::clock_t begin = std::clock();
    IBCOLL_ASSIGN(const TaskSchedule made,
                  schedule(scheduler, graph, LogP{}, known.processors, options));
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    const Status right = check(graph, made);
    if (!right)
      return fail(ErrorCode::kInvalidProgram, "{} on {} processors, {}: {}", file, known.processors,
                  scheduler.name, right.error().message);
    const size_t slash = known.graph.rfind('/');
    const std::string of = slash == std::string::npos ? "." : known.graph.substr(0, slash);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const OptimaRow& r) {
      return r.folder == of && r.processors == known.processors;
    });
    if (row == rows.end()) {
      rows.push_back({.folder = of, .processors = known.processors});
      row = std::prev(rows.end());
    }
    const Statistics found = statistics(graph, made);
    const Time bound = std::max(known.bound, shortest_possible(graph, known.processors));
    const double ratio = static_cast<double>(found.makespan) /
                         static_cast<double>(std::min(known.makespan, found.makespan));
    ++row->cases;
    row->optimal += found.makespan == bound ? 1 : 0;
    row->best_known += found.makespan <= known.makespan ? 1 : 0;
    row->below += found.makespan < known.bound ? 1 : 0;
    row->mean_ratio += (ratio - row->mean_ratio) / row->cases;
    row->mean_seconds += (seconds - row->mean_seconds) / row->cases;
    row->worst_seconds = std::max(row->worst_seconds, seconds);
    row->duplicates += found.duplicates;
    if (ratio > row->worst_ratio) {
      row->worst_ratio = ratio;
      row->worst_graph = known.graph;
    }
  }
  return rows;
}

}  // namespace ibcoll::task_graph
