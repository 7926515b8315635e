/// ib_sim: how long collectives take on a network that need not exist.

#include <algorithm>
#include <utility>

#include "engine/algorithms/imported.h"
#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/units.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/tuner/choose.h"
#include "studies/measure/traffic.h"
#include "studies/simulate/run_estimate.h"
#include "studies/simulate/run_report.h"
#include "tools/frame/frame.h"
#include "tools/frame/progress.h"
#include "tools/ib_sim/limits.h"
#include "tools/ib_sim/settings.h"
#include "topology/distort.h"
#include "topology/spec.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::sim;
using tools::Arguments;
using tools::Settings;

constexpr size_t kBusiestLinks = 12;

Result<SimRow> simulate_one(const Settings& settings, contention_free::PlanStore& plans,
                            const Algorithm& algorithm, size_t which, Mode mode, int64_t size,
                            size_t run, size_t runs) {
  const Shape& shape = settings.shapes[which];
  SimRow row{&algorithm, shape, tools::options_of(settings, which, mode, size), {}};
  if (algorithm.spec->planned) {
    if (settings.options.ports > 1) {
      return fail(ErrorCode::kInvalidArgument, "--ports {}: {} plans for servers of one port",
                  settings.options.ports, algorithm.name);
    }
    const std::vector<int> hosts(row.options.hosts.begin(), row.options.hosts.end());
    IBCOLL_ASSIGN(row.options.algorithm.plan,
                  plans.find(settings.collective, shape, hosts, row.options.algorithm.root,
                             is_unequal(settings.collective) ? -1 : size));
  }
  const int64_t equal_bytes = is_unequal(settings.collective) ? -1 : size;
  if (row.options.run.pieces == 0) {
    row.options.run.pieces = choose_pieces(algorithm, {settings.collective, shape, equal_bytes},
                                           row.options.algorithm.plan.get());
  }
  algorithm.set_pieces(row.options.run.pieces, row.options.algorithm);
  const measure::Traffic traffic(settings.collective, shape.ranks(), size,
                                 settings.options.algorithm.root, settings.graphs[which]);
  if (is_unequal(settings.collective)) {
    row.options.run.bytes_of = [&traffic](const Block& block) {
      // A copy of a neighbour's edge is as long as the first.
      const Rank target = std::max(block.target, 0) % traffic.ranks();
      return static_cast<uint64_t>(traffic.bytes(block.origin, target));
    };
  }
  tools::ProgressLine line;
  int shown = -1;
  const auto progress = [&](uint64_t done, uint64_t all) {
    const auto percent =
        static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(all));
    if (percent == std::exchange(shown, percent)) return;
    line.show(fmt::format("{}/{} {} {} {}: {} %", run, runs, row.label(true), shape.describe(),
                          format_size(size), percent));
  };
  progress(0, 1);
  if (settings.options.network.level == Level::kFlow) {
    const RunEstimate estimate = estimate_run(algorithm, shape, settings.fabric, row.options);
    const uint64_t left = settings.most_bytes - std::min(settings.most_bytes, estimate.bytes);
    row.options.run.most_flights = std::max<uint64_t>(left / kFlightBytes, 1);
    row.options.run.most_seconds = settings.most_seconds;
  }
  if (line.visible()) row.options.run.progress = progress;
  auto report = simulate(algorithm, shape, settings.fabric, row.options);
  if (!report) {
    return fail(report.error().code, "{}, {}: {}", row.label(true), shape.describe(),
                report.error().message);
  }
  row.report = *std::move(report);
  row.options.run.bytes_of = {};
  row.options.run.progress = {};
  return row;
}

/// As wide as the runs' names will be.
SummaryLines summary_lines(const Settings& settings) {
  size_t label = std::string_view("algorithm").size(), layout = std::string_view("layout").size();
  for (const Shape& shape : settings.shapes) {
    layout = std::max(layout, shape.describe().size());
    for (const Algorithm* algorithm : settings.algorithms) {
      for (const Mode mode : settings.modes) {
        SimRow row{algorithm, shape, settings.options, {}};
        row.options.mode = mode;
        label = std::max(label, row.label(false).size());
      }
    }
  }
  return {label, layout};
}

Status run(const Arguments& a) {
  IBCOLL_TRY(add_imported_of_environment());
  IBCOLL_ASSIGN(const Settings settings, tools::understand(a));
  IBCOLL_TRY(tools::check_limits(settings));
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(a.json));
  if (!a.plot.empty()) IBCOLL_TRY(write_file(a.plot, ""));  // fails now rather than at the end
  const bool text = !json.to_stdout();
  IBCOLL_ASSIGN(topology::Fabric believed, topology::believe(settings.fabric, std::nullopt));
  contention_free::PlanStore plans(std::move(believed));
  const SummaryLines lines = summary_lines(settings);
  std::string tables;
  std::vector<SimRow> rows;
  const size_t runs = settings.shapes.size() * settings.sizes.size() * settings.algorithms.size() *
                      settings.modes.size();
  for (size_t shape = 0; shape < settings.shapes.size(); ++shape) {
    for (const int64_t size : settings.sizes) {
      const size_t first = rows.size();
      for (const Algorithm* algorithm : settings.algorithms) {
        for (const Mode mode : settings.modes) {
          IBCOLL_ASSIGN(SimRow row, simulate_one(settings, plans, *algorithm, shape, mode, size,
                                                 rows.size() + 1, runs));
          json.write(to_json(row, settings.fabric, a.steps, a.links));
          if (text && rows.empty()) {
            print("{} on {}\n\n{}", to_string(settings.collective), settings.fabric.name(),
                  lines.head());
          }
          if (text) print_text(lines.line(row));
          IBCOLL_TRY(
              flush_output());  // who waits sees how far it is; nobody reads: no need to go on
          rows.push_back(std::move(row));
        }
      }
      const std::vector<SimRow> together(rows.begin() + static_cast<ptrdiff_t>(first), rows.end());
      if (a.steps) tables += "\n" + step_table(together);
      if (!a.links) continue;
      for (const SimRow& row : together) {
        tables += fmt::format("\n{}, busiest links:\n{}", row.label(true),
                              link_table(row, settings.fabric, kBusiestLinks));
      }
    }
  }
  if (text) {
    if (settings.options.network.level == Level::kFlow)
      print("Flows are an estimate: differences under a quarter mean little (--help).\n");
    print_text(tables);
  }
  if (!a.plot.empty()) {
    const Plot plot =
        a.steps ? step_plot(rows, settings.fabric) : bandwidth_plot(rows, settings.fabric);
    IBCOLL_TRY(plot.write(a.plot));
  }
  return json.close();
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "Simulates collectives on a network: how long they take, step by step, and which links are "
      "busy.\nIt simulates the programs that the engine runs, packet by packet or as flows.");
  Arguments a;
  tools::add_options(app, a);
  app.footer(
      "Networks:\n" + topology::spec_help() +
      "\nExamples:\n"
      "  ib_sim alltoall --layout 24x8 --algorithm ring,two_level_ring --mode barrier\n"
      "  ib_sim alltoall --layout 8x8 --algorithm ring --mode barrier --step-times --plot s.svg\n"
      "  ib_sim alltoall --network single-switch:24,bandwidth=2000MB/s,latency=200ns "
      "--layout 24x8 --sizes 10K-1M --plot sizes.svg\n"
      "  ib_sim alltoall --network fat-tree:8,3 --layout 128x8 --level flow --link-load\n"
      "  ib_sim allgather --network torus:4x4x4 --layout 64x2 --sizes 64K --json -");
  return tools::run_tool(app, argc, argv, [&] { return run(a); });
}
