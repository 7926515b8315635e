/// ib_plan: plans collectives so that no link is contended, checks, simulates and draws the plans.

#include <algorithm>
#include <optional>

#include "engine/base/json.h"
#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/units.h"
#include "engine/bootstrap/machine.h"
#include "engine/planner/contention_free/plan.h"
#include "engine/planner/contention_free/plan_file.h"
#include "engine/schedule/layout.h"
#include "studies/simulate/plan_gantt.h"
#include "studies/simulate/plan_report.h"
#include "studies/simulate/plan_study.h"
#include "studies/simulate/planning_costs.h"
#include "tools/frame/frame.h"
#include "tools/frame/progress.h"
#include "topology/distort.h"
#include "topology/spec.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::contention_free;

/// Plans with more transfers than this are simulated only where asked for.
constexpr int64_t kSimulatedByItself = 30'000;

struct Arguments {
  std::string collective = "alltoall", sizes = "100K";
  std::vector<std::string> networks = {"single-switch:64"};
  std::string planners = "best", policies = "min-sync", relay = "on", tokens = "ahead";
  std::string layout, json, plot, output, error = "auto", show = "over_bound";
  std::optional<std::string> permitted;
  std::optional<int64_t> servers;
  int root = 0, draws = 1, parts = 0;
  std::vector<double> wrong = {0};
  int64_t seed = 1;
  bool check = false, simulate = false, lookup = false;
};

/// What does not depend on the network.
struct Input {
  PlanInputs base;
  std::vector<int64_t> sizes;
  std::vector<Planner> planners;
  std::vector<Policy> policies;
  std::vector<bool> relay;
  std::optional<double> error;
  sim::PlanMeasure show = sim::PlanMeasure::kOverBound;
};

/// A network, and what the planner takes it for.
struct Seen {
  std::string name;
  topology::Fabric fabric, said, believed;
  double wrong;
};

Result<bool> on_or_off(const std::string& text, const char* option, const char* on,
                       const char* off) {
  if (text == on) return true;
  if (text == off) return false;
  return fail(ErrorCode::kInvalidArgument, "{} '{}': {} or {}", option, text, on, off);
}

/// "0-1,1-2".
Result<std::vector<std::pair<int, int>>> parse_pairs(const std::string& text) {
  std::vector<std::pair<int, int>> pairs;
  for (const std::string_view part : split(text, ',')) {
    const auto ends = split(part, '-');
    if (ends.size() != 2) {
      return fail(ErrorCode::kInvalidArgument, "--permitted: '{}' is not a pair like 0-1", part);
    }
    IBCOLL_ASSIGN(const int64_t a, parse_integer(ends[0], 0, 1 << 20, "a server of --permitted"));
    IBCOLL_ASSIGN(const int64_t b, parse_integer(ends[1], 0, 1 << 20, "a server of --permitted"));
    pairs.emplace_back(static_cast<int>(a), static_cast<int>(b));
  }
  return pairs;
}

/// Ranks of the servers on a network.
Result<std::vector<int>> server_ranks(const Arguments& a, const topology::Fabric& fabric) {
  std::vector<int> ranks;
  if (!a.layout.empty()) {
    IBCOLL_ASSIGN(const Shape shape, parse_layout(a.layout));
    for (int s = 0; s < shape.servers(); ++s) ranks.push_back(shape.server_size(s));
    if (a.servers && *a.servers != shape.servers()) {
      return fail(ErrorCode::kInvalidArgument, "--servers {}: the layout {} has {}", *a.servers,
                  a.layout, shape.servers());
    }
    if (shape.servers() > fabric.hosts()) {
      return fail(ErrorCode::kInvalidArgument, "--layout {}: {} servers, but {} has {} hosts",
                  a.layout, shape.servers(), fabric.name(), fabric.hosts());
    }
    return ranks;
  }
  const int64_t servers = a.servers.value_or(fabric.hosts());
  if (servers < 1 || servers > fabric.hosts()) {
    return fail(ErrorCode::kInvalidArgument, "--servers {}: must be 1 to {}, the hosts of {}",
                servers, fabric.hosts(), fabric.name());
  }
  ranks.assign(static_cast<size_t>(servers), 1);
  return ranks;
}

Result<Seen> open_network(const std::string& name, double wrong, uint64_t seed,
                          std::optional<double> error) {
  IBCOLL_ASSIGN(topology::Fabric fabric, topology::open_fabric(name));
  IBCOLL_ASSIGN(topology::Fabric distorted, topology::distort(fabric, wrong, seed));
  topology::Fabric said = wrong == 0 ? fabric : std::move(distorted);
  IBCOLL_ASSIGN(topology::Fabric believed, topology::believe(said, error));
  return Seen{name, std::move(fabric), std::move(said), std::move(believed), wrong};
}

Result<Input> understand(const Arguments& a) {
  if (a.seed < 0) return fail(ErrorCode::kInvalidArgument, "--seed {}: not below 0", a.seed);
  if (a.draws < 1 || a.draws > 1000) {
    return fail(ErrorCode::kInvalidArgument, "--draws {}: must be 1 to 1000", a.draws);
  }
  Input input;
  PlanInputs& base = input.base;
  IBCOLL_ASSIGN(input.error, topology::parse_error(a.error, "--error"));
  IBCOLL_ASSIGN(input.show, sim::parse_measure(a.show));
  IBCOLL_ASSIGN(base.collective, parse_planned(a.collective));
  IBCOLL_ASSIGN(input.sizes, parse_sizes(a.sizes));
  for (const std::string_view name : split(a.planners, ',')) {
    if (name == "all") {
      input.planners.insert(input.planners.end(),
                            {Planner::kThesis, Planner::kFixed, Planner::kList});
      continue;
    }
    IBCOLL_ASSIGN(input.planners.emplace_back(), parse_planner(name));
  }
  for (const std::string_view name : split(a.policies, ',')) {
    if (name == "all") {
      for (int p = 0; p < kPolicies; ++p) input.policies.push_back(static_cast<Policy>(p));
      continue;
    }
    IBCOLL_ASSIGN(input.policies.emplace_back(), parse_policy(name));
  }
  for (const std::string_view part : split(a.relay, ',')) {
    IBCOLL_ASSIGN(const bool on, on_or_off(std::string(part), "--relay", "on", "off"));
    input.relay.push_back(on);
  }
  IBCOLL_ASSIGN(base.tokens_ahead, on_or_off(a.tokens, "--tokens", "ahead", "arrival"));
  if (a.permitted) {
    IBCOLL_ASSIGN(base.permitted, parse_pairs(*a.permitted));
  }
  if (a.parts < 0 || a.parts > kMostParts) {
    return fail(ErrorCode::kInvalidArgument, "--parts {}: must be 0 to {}", a.parts, kMostParts);
  }
  base.most_parts = a.parts;
  base.root = a.root;
  base.seed = static_cast<uint64_t>(a.seed);
  return input;
}

Result<sim::PlanRow> plan_one(const Arguments& a, const Seen& seen, const PlanInputs& inputs) {
  sim::PlanStudy study;
  study.fabric = &seen.fabric;
  study.said = &seen.said;
  study.believed = &seen.believed;
  study.wrong = seen.wrong;
  study.check = a.check;
  study.lookup = a.lookup;
  const auto servers = static_cast<int64_t>(inputs.server_ranks.size());
  study.simulate = a.simulate || seen.wrong > 0 ||
                   transfers_of(inputs.collective, servers) <= kSimulatedByItself;
  sim::PlanRow row;
  row.network = seen.name;
  row.asked = inputs.planner;
  row.size = static_cast<int64_t>(inputs.block_bytes);
  row.relay = inputs.relay;
  row.checked = a.check;
  row.wrong = seen.wrong;
  row.error = a.error;
  IBCOLL_ASSIGN(row.result, sim::study_plan(study, inputs));
  return row;
}

/// Calls `one(inputs)` for each size, planner, policy and way of relaying.
template <class One>
Status visit_requests(const Input& input, PlanInputs inputs, One&& one) {
  for (const int64_t size : input.sizes) {
    inputs.block_bytes = static_cast<uint64_t>(size);
    for (const Planner planner : input.planners) {
      inputs.planner = planner;
      const bool by_policy = planner == Planner::kThesis || planner == Planner::kFixed;
      for (const Policy policy : input.policies) {
        for (const bool relay : input.relay) {
          inputs.policy = policy;
          inputs.relay = relay;
          IBCOLL_TRY(one(inputs));
          if (!by_policy) break;  // the others would be the same
        }
        if (!by_policy) break;
      }
    }
  }
  return {};
}

/// Refuses what does not fit into the memory that is available.
Status check_memory(Collective collective, int64_t servers) {
  const int64_t transfers = transfers_of(collective, servers);
  const uint64_t bytes = sim::planning_bytes(collective, servers);
  const uint64_t available = available_memory();
  if (bytes <= available) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      "{} between {} servers: a plan of {} transfers takes some {:.1f} GB, and {:.1f} GB are "
      "available: give fewer with --servers",
      to_string(collective), servers, transfers, static_cast<double>(bytes) / 1e9,
      static_cast<double>(available) / 1e9);
}

/// Plans, proves and runs all that was asked for on one network.
Status study_network(const Arguments& a, const Input& input, const Seen& seen, JsonLines& json,
                     std::vector<sim::PlanRow>& rows) {
  PlanInputs base = input.base;
  IBCOLL_ASSIGN(base.server_ranks, server_ranks(a, seen.fabric));
  const auto servers = static_cast<int>(base.server_ranks.size());
  IBCOLL_TRY(check_memory(base.collective, servers));
  const double seconds = sim::planning_seconds(base.collective, servers, seen.fabric);
  return visit_requests(input, base, [&](const PlanInputs& inputs) -> Status {
    tools::ProgressLine line;
    const bool by_lists = is_alltoall(inputs.collective) &&
                          (inputs.planner == Planner::kList || inputs.planner == Planner::kBest);
    const std::string about =
        by_lists && seconds >= 1 ? fmt::format(", some {:.0f} s", seconds) : "";
    line.show(fmt::format("{} {} {}: {} transfers{} ...", seen.fabric.name(),
                          to_string(inputs.planner),
                          format_size(static_cast<int64_t>(inputs.block_bytes)),
                          transfers_of(inputs.collective, servers), about));
    IBCOLL_ASSIGN(sim::PlanRow row, plan_one(a, seen, inputs));
    line.clear();
    json.write(to_json(row));
    if (!rows.empty()) {  // only the last plan is written or drawn
      rows.back().result.plan.transfers = {};
      rows.back().result.plan.tokens = {};
    }
    rows.push_back(std::move(row));
    return {};
  });
}

Status run(const Arguments& a) {
  IBCOLL_ASSIGN(const Input input, understand(a));
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(a.json));
  for (const std::string& file : {a.plot, a.output}) {
    if (!file.empty()) IBCOLL_TRY(write_file(file, ""));  // fails now rather than at the end
  }
  std::vector<sim::PlanRow> rows;
  std::optional<Seen> last;
  for (const std::string& network : a.networks) {
    for (const double wrong : a.wrong) {
      for (int draw = 0; draw < (wrong == 0 ? 1 : a.draws); ++draw) {
        const uint64_t seed = static_cast<uint64_t>(a.seed) + static_cast<uint64_t>(draw);
        IBCOLL_ASSIGN(last, open_network(network, wrong, seed, input.error));
        IBCOLL_TRY(study_network(a, input, *last, json, rows));
      }
    }
  }
  const Plan& plan = rows.back().result.plan;
  if (!json.to_stdout()) {
    const std::string where =
        a.networks.size() > 1 ? fmt::format("{} networks", a.networks.size())
                              : fmt::format("{}, {} servers", last->fabric.name(), plan.servers);
    print("{} on {}\n\n{}", to_string(plan.collective), where, sim::plan_table(rows));
  }
  if (!a.output.empty()) IBCOLL_TRY(write_file(a.output, json_text(plan_to_json(plan)) + "\n"));
  if (!a.plot.empty() && rows.size() == 1) {
    PlanInputs inputs = input.base;
    inputs.block_bytes = static_cast<uint64_t>(rows[0].size);
    inputs.fabric = &last->believed;
    IBCOLL_ASSIGN(inputs.server_ranks, server_ranks(a, last->fabric));
    IBCOLL_TRY(draw_plan(inputs, plan, a.plot));
  } else if (!a.plot.empty()) {
    IBCOLL_TRY(sim::plan_comparison(rows, input.show).write(a.plot));
  }
  IBCOLL_TRY(json.close());
  for (const sim::PlanRow& row : rows) {
    if (row.result.violation.empty()) continue;
    return fail(ErrorCode::kInvalidProgram, "{}, {}: {}", to_string(row.result.plan.planner),
                format_size(row.size), row.result.violation);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "Plans a collective between servers so that no link ever has to carry more than it can.\n"
      "Compares planners, and checks, simulates and draws plans.");
  Arguments a;
  app.option("--collective", a.collective, planned_names()).with_default();
  app.option("--network", a.networks,
             "Networks, separated by spaces: specifications or files, see below")
      .with_default();
  app.option("--size,--sizes", a.sizes, "Bytes of a block: 100K or 1K-1M").with_default();
  app.option("--servers", a.servers,
             "Number of servers, the first hosts of the network (default: all)");
  app.option(
      "--layout", a.layout,
      "Ranks of each server: 3,1,2 or 8x4 (8 servers of 4 ranks; default: 1 rank per server)");
  app.option("--root", a.root, "Root of gather, scatter, bcast and reduce: the number of a server")
      .with_default();
  app.option("--planner", a.planners,
             "Planners, separated by commas: thesis, fixed (thesis with sound link groups), list, "
             "best (chooses one of these), or all (thesis, fixed and list)")
      .with_default();
  app.option("--policy", a.policies,
             "Policies of the planners thesis and fixed, separated by commas: random, max-cost, "
             "min-cost, max-sync, min-sync; or all")
      .with_default();
  app.option("--relay", a.relay,
             "Whether the planners thesis and fixed may send data through other servers: on, off, "
             "or on,off to compare both")
      .with_default();
  app.option("--tokens", a.tokens,
             "When tokens are sent in plans of the planner list: ahead (before the end of a "
             "transfer, by the known latency) or arrival (when all of its data has arrived)")
      .with_default();
  app.option("--permitted", a.permitted,
             "Pairs of servers that may send to each other, such as 0-1,1-2; data of other pairs "
             "passes through servers in between");
  app.option("--parts", a.parts,
             "Largest number of parts that messages of allgather and bcast are cut into on direct "
             "networks, each of which may take a way of its own; 0: as in the engine, which cuts "
             "messages of bcast only")
      .with_default();
  app.option("--wrong", a.wrong,
             "Make plans with bandwidths and latencies that are wrong by up to this fraction, such "
             "as 0.1, but simulate them with the right ones, and state how long data may have to "
             "wait for other data (jitter_us); several fractions are separated by spaces")
      .with_default();
  app.option("--error", a.error,
             "How wrong the figures of the network may be, as a fraction from 0 to 0.95: links "
             "that may be alike in spite of their figures are treated as alike. auto: 0.3 for "
             "bandwidths if they seem to be measured (most of them occur at one cable only), and 0 "
             "otherwise; the same for latencies")
      .with_default();
  app.option(
         "--draws", a.draws,
         "Number of times that wrong figures are drawn (--wrong), with the seeds from --seed on")
      .with_default();
  app.option("--seed", a.seed, "Seed of everything random").with_default();
  app.flag("--check", a.check,
           "Prove every plan; if one is wrong, say why, and exit with status 1");
  app.flag("--lookup", a.lookup,
           "Also time how long it takes to look up plans in the plan cache, for --json: by the "
           "size of blocks (lookup_ns) and by the sizes of all messages (lookup_counts_ns)");
  app.flag("--simulate", a.simulate,
           "Simulate large plans, too (otherwise, their planned time is shown)");
  app.option("--output", a.output,
             "Write the plan, or the last one of several, to this file (JSON)");
  tools::add_json_option(app, a.json);
  app.option(
      "--plot", a.plot,
      "Draw to this SVG file: for one plan, its busiest links over time; for several plans, --show "
      "over the error of the figures, the number of servers or the size, whichever differs");
  app.option(
         "--show", a.show,
         "What --plot shows of several plans: over_bound, simulated_us, plan_ms, groups, waited_us")
      .with_default();
  app.footer(
      "Networks:\n" + topology::spec_help() +
      "\nExamples:\n"
      "  ib_plan --collective gather --network single-switch:64,bandwidth=1Gbit/s,latency=10us "
      "--size 20K --check\n"
      "  ib_plan --network tree:14x5,hosts=64,trunk-bandwidth=10Gbit/s,bandwidth=1Gbit/s "
      "--planner all --check\n"
      "  ib_plan --collective gather --network wan:32,32,bandwidth=1Gbit/s,long-latency=5ms "
      "--sizes 10K-1M --planner thesis --policy all --plot policies.svg\n"
      "  ib_plan --network twelve-clusters:2 --size 100K --plot links.svg\n"
      "  ib_plan --network fat-tree:4,2 fat-tree:4,3 --plot planning.svg --show plan_ms\n"
      "  ib_plan --network single-switch:16,bandwidth=1Gbit/s,latency=10us --wrong 0.1 0.3 "
      "--draws 5 --json -\n"
      "  ib_plan --network single-switch:4 --permitted 0-1,1-2,2-3 --check --json -");
  return tools::run_tool(app, argc, argv, [&] { return run(a); });
}
