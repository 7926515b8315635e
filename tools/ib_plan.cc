/// ib_plan: plans collectives so that no link is contended, checks, simulates and draws the plans.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <optional>

#include "engine/base/json_lines.h"
#include "engine/base/plot.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/planner/contention_free/cache.h"
#include "engine/planner/contention_free/check.h"
#include "engine/planner/contention_free/gantt.h"
#include "engine/planner/contention_free/plan.h"
#include "engine/planner/contention_free/plan_file.h"
#include "engine/schedule/layout.h"
#include "engine/simulate/plan_run.h"
#include "topology/distort.h"
#include "topology/spec.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::contention_free;

/// Plans with more transfers than this are simulated only where asked for.
constexpr size_t kSimulatedByItself = 30'000;

struct Arguments {
  std::string collective = "alltoall", network = "single-switch:64", sizes = "100K";
  std::string planners = "best", policies = "min-sync", relay = "on", tokens = "ahead";
  std::string layout, permitted, json, plot, output;
  std::optional<int64_t> servers;
  int root = 0;
  double wrong = 0, error = 0;
  int64_t seed = 1;
  bool check = false, simulate = false, lookup = false;
};

struct Input {
  topology::Fabric fabric;
  std::optional<topology::Fabric> believed;  ///< where the planner is told something else
  PlanRequest base;
  std::vector<int64_t> sizes;
  std::vector<Planner> planners;
  std::vector<Policy> policies;
  std::vector<bool> relay;
};

struct Row {
  int64_t size;
  bool relay;
  Plan plan;
  double plan_ms;
  std::optional<double> simulated_us, waited_us;
  std::optional<double> lookup_ns, lookup_counts_ns;  ///< of the plan cache
  std::string checked;
  std::string violation;

  double time_us() const {
    return simulated_us ? *simulated_us : static_cast<double>(plan.time_ns) * 1e-3;
  }
  double over_bound() const {
    return plan.bound_ns == 0 ? 1 : time_us() * 1e3 / static_cast<double>(plan.bound_ns);
  }
  bool by_policy() const { return plan.planner != Planner::kList; }
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

Result<Input> understand(const Arguments& a) {
  IBCOLL_ASSIGN(topology::Fabric fabric, topology::open_fabric(a.network));
  Input input{std::move(fabric), {}, {}, {}, {}, {}, {}};
  PlanRequest& base = input.base;
  IBCOLL_ASSIGN(base.kind, parse_kind(a.collective));
  if (!a.layout.empty()) {
    IBCOLL_ASSIGN(const Shape shape, parse_layout(a.layout));
    for (int s = 0; s < shape.servers(); ++s) base.server_ranks.push_back(shape.server_size(s));
    if (a.servers && *a.servers != shape.servers()) {
      return fail(ErrorCode::kInvalidArgument, "--servers {}: the layout {} has {}", *a.servers,
                  a.layout, shape.servers());
    }
  } else {
    const int64_t servers = a.servers.value_or(input.fabric.hosts());
    if (servers < 1 || servers > input.fabric.hosts()) {
      return fail(ErrorCode::kInvalidArgument, "--servers {}: the network has {} hosts", servers,
                  input.fabric.hosts());
    }
    base.server_ranks.assign(static_cast<size_t>(servers), 1);
  }
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
  if (!a.permitted.empty()) {
    IBCOLL_ASSIGN(base.permitted, parse_pairs(a.permitted));
  }
  base.root = a.root;
  if (a.seed < 0) return fail(ErrorCode::kInvalidArgument, "--seed {}: not below 0", a.seed);
  base.seed = static_cast<uint64_t>(a.seed);
  if (a.wrong != 0) {
    IBCOLL_ASSIGN(input.believed, topology::distort(input.fabric, a.wrong, base.seed));
  }
  if (a.error != 0) {
    IBCOLL_ASSIGN(input.believed,
                  topology::merge_alike(input.believed ? *input.believed : input.fabric, a.error));
  }
  return input;
}

/// Nanoseconds of a call of `get`, once what it gets is there.
template <class Get>
Result<double> time_lookups(Get&& get) {
  constexpr int kCalls = 200;
  IBCOLL_TRY(get());
  const std::clock_t begin = std::clock();
  for (int i = 0; i < kCalls; ++i) IBCOLL_TRY(get());
  return 1e9 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / kCalls;
}

Result<Row> plan_one(const Arguments& a, const Input& input, PlanRequest request) {
  request.fabric = input.believed ? &*input.believed : &input.fabric;
  Row row{};
  row.size = static_cast<int64_t>(request.block_bytes);
  row.relay = request.relay;
  const std::clock_t begin = std::clock();
  IBCOLL_ASSIGN(row.plan, plan_transfers(request));
  row.plan_ms = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  row.checked = "-";
  if (a.check) {
    const Status right = check_plan(request, row.plan);
    row.checked = right ? "yes" : "NO";
    if (!right) row.violation = right.error().message;
  }
  if (a.simulate || input.believed || row.plan.transfers.size() <= kSimulatedByItself) {
    IBCOLL_ASSIGN(const sim::PlanTimes times, sim::simulate_plan(input.fabric, {}, row.plan));
    row.simulated_us = times.time_us;
    row.waited_us = times.waited_us;
  }
  if (a.lookup) {
    PlanCache cache(request);
    IBCOLL_ASSIGN(row.lookup_ns, time_lookups([&] {
                    return cache.get(request.kind, request.root, request.block_bytes);
                  }));
    std::vector<uint64_t> counts(request.server_ranks.size(), request.block_bytes);
    if (request.kind == Kind::kAlltoall) {
      counts.assign(counts.size() * counts.size(), request.block_bytes);
    }
    if (request.kind != Kind::kBcast && request.kind != Kind::kReduce) {
      IBCOLL_ASSIGN(row.lookup_counts_ns,
                    time_lookups([&] { return cache.get(request.kind, request.root, counts); }));
    }
  }
  if (input.believed) {  // how good it is on the real network
    request.fabric = &input.fabric;
    request.planner = Planner::kList;
    IBCOLL_ASSIGN(const Plan right, plan_transfers(request));
    row.plan.bound_ns = right.bound_ns;
  }
  return row;
}

nlohmann::ordered_json to_json(const Arguments& a, const Input& input, const Row& row) {
  const Plan& plan = row.plan;
  nlohmann::ordered_json json = {{"collective", to_string(plan.kind)},
                                 {"network", input.fabric.name()},
                                 {"servers", plan.servers},
                                 {"size", row.size},
                                 {"planner", to_string(plan.planner)},
                                 {"policy", row.by_policy() ? to_string(plan.policy) : "-"},
                                 {"relay", row.by_policy() && row.relay},
                                 {"tokens_ahead", plan.tokens_ahead},
                                 {"tasks", plan.transfers.size()},
                                 {"tokens", plan.tokens.size()},
                                 {"groups", plan.groups},
                                 {"plan_ms", row.plan_ms},
                                 {"planned_us", static_cast<double>(plan.time_ns) * 1e-3},
                                 {"simulated_us", nullptr},
                                 {"waited_us", nullptr},
                                 {"lower_bound_us", static_cast<double>(plan.bound_ns) * 1e-3},
                                 {"over_bound", row.over_bound()},
                                 {"relayed_bytes", plan.relayed_bytes},
                                 {"relay_buffer_bytes", plan.relay_buffer_bytes},
                                 {"jitter_ns", plan.jitter_ns},
                                 {"wrong", a.wrong},
                                 {"error", a.error},
                                 {"checked", row.checked == "yes"}};
  if (row.simulated_us) json["simulated_us"] = *row.simulated_us;
  if (row.waited_us) json["waited_us"] = *row.waited_us;
  if (!a.check) json["checked"] = nullptr;
  if (row.lookup_ns) json["lookup_ns"] = *row.lookup_ns;
  if (row.lookup_counts_ns) json["lookup_counts_ns"] = *row.lookup_counts_ns;
  return json;
}

Plot comparison(const Input& input, const std::vector<Row>& rows) {
  Plot plot;
  plot.title = fmt::format("{} on {}", to_string(input.base.kind), input.fabric.name());
  plot.subtitle = "simulated time over the lower bound";
  plot.x.label = "bytes a block";
  plot.x.scale = Scale::kLog2;
  plot.x.ticks = TickLabels::kSize;
  plot.y.label = "time / lower bound";
  plot.y.scale = Scale::kLog2;
  for (const Row& row : rows) {
    const std::string name = row.by_policy() ? fmt::format("{} {}", to_string(row.plan.planner),
                                                           to_string(row.plan.policy))
                                             : to_string(row.plan.planner);
    auto series = std::find_if(plot.series.begin(), plot.series.end(),
                               [&](const Series& s) { return s.name == name; });
    if (series == plot.series.end()) {
      plot.series.push_back({name, {}, {}, {}, {}, Mark::kLine, false});
      series = plot.series.end() - 1;
    }
    series->x.push_back(static_cast<double>(row.size));
    series->y.push_back(row.over_bound());
  }
  return plot;
}

Status run(const Arguments& a) {
  IBCOLL_ASSIGN(const Input input, understand(a));
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(a.json));
  if (!a.plot.empty()) IBCOLL_TRY(write_file(a.plot, ""));  // fails now rather than at the end
  std::vector<Row> rows;
  const auto one = [&](const PlanRequest& request) -> Status {
    if (isatty(STDERR_FILENO) != 0) {
      fmt::print(stderr, "\r\033[K{} {} ...", to_string(request.planner),
                 format_size(static_cast<int64_t>(request.block_bytes)));
    }
    IBCOLL_ASSIGN(Row row, plan_one(a, input, request));
    if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
    json.write(to_json(a, input, row));
    rows.push_back(std::move(row));
    return {};
  };
  for (const int64_t size : input.sizes) {
    PlanRequest request = input.base;
    request.block_bytes = static_cast<uint64_t>(size);
    for (const Planner planner : input.planners) {
      request.planner = planner;
      const bool by_policy = planner == Planner::kThesis || planner == Planner::kFixed;
      for (const Policy policy : input.policies) {
        for (const bool relay : input.relay) {
          request.policy = policy;
          request.relay = relay;
          IBCOLL_TRY(one(request));
          if (!by_policy) break;  // the others would be the same
        }
        if (!by_policy) break;
      }
    }
  }
  if (!json.to_stdout()) {
    Table table({"size", "planner", "policy", "relay", "tasks", "tokens", "groups", "plan_ms",
                 "simulated_us", "lower_bound_us", "ratio", "relayed_bytes", "checked"});
    for (const Row& row : rows) {
      const Plan& p = row.plan;
      table.add_row(
          {format_size(row.size), to_string(p.planner), row.by_policy() ? to_string(p.policy) : "-",
           std::to_string(p.transfers.size()), std::to_string(p.tokens.size()),
           std::to_string(p.groups), fmt::format("{:.2f}", row.plan_ms),
           fmt::format("{:.1f}", row.time_us()),
           fmt::format("{:.1f}", static_cast<double>(p.bound_ns) * 1e-3),
           fmt::format("{:.3f}", row.over_bound()), std::to_string(p.relayed_bytes), row.checked});
    }
    fmt::print("{} on {}, {} servers\n\n{}", to_string(input.base.kind), input.fabric.name(),
               input.base.server_ranks.size(), table.text());
  }
  if (!a.output.empty()) {
    IBCOLL_TRY(write_file(a.output, plan_to_json(rows.back().plan).dump() + "\n"));
  }
  if (!a.plot.empty()) {
    if (rows.size() == 1) {
      PlanRequest request = input.base;
      request.block_bytes = static_cast<uint64_t>(rows[0].size);
      request.fabric = &input.fabric;
      IBCOLL_TRY(draw_plan(request, rows[0].plan, a.plot));
    } else {
      IBCOLL_TRY(comparison(input, rows).write(a.plot));
    }
  }
  IBCOLL_TRY(json.close());
  for (const Row& row : rows) {
    if (row.violation.empty()) continue;
    return fail(ErrorCode::kInvalidProgram, "{}, {}: {}", to_string(row.plan.planner),
                format_size(row.size), row.violation);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Plans a collective between servers so that no link ever has more to carry than it can,\n"
      "compares planners, and checks, simulates and draws plans.");
  Arguments a;
  app.add_option("--collective", a.collective,
                 "gather, scatter, alltoall, allgather, bcast, reduce")
      ->capture_default_str();
  app.add_option("--network", a.network, "A file or a description, see below")
      ->capture_default_str();
  app.add_option("--size,--sizes", a.sizes, "Bytes of a block: 100K or 1K-1M")
      ->capture_default_str();
  app.add_option("--servers", a.servers, "The first so many hosts (default: all)");
  app.add_option("--layout", a.layout, "Ranks of the servers, 8x4 or 3,1,2 (default: one each)");
  app.add_option("--root", a.root, "Server that data goes to or comes from")->capture_default_str();
  app.add_option("--planner", a.planners,
                 "thesis, fixed (sound link groups), list, best of these; several, or all")
      ->capture_default_str();
  app.add_option("--policy", a.policies,
                 "Of thesis and fixed: random, max-cost, min-cost, max-sync, min-sync; several, or "
                 "all")
      ->capture_default_str();
  app.add_option("--relay", a.relay,
                 "Of thesis and fixed: data may go through others: on, off, or both with a comma")
      ->capture_default_str();
  app.add_option("--tokens", a.tokens,
                 "Of list: sent ahead of the end by the known latency (ahead), or at full arrival "
                 "(arrival)")
      ->capture_default_str();
  app.add_option("--permitted", a.permitted,
                 "Pairs of servers that may talk, 0-1,1-2: others' data goes through them");
  app.add_option("--wrong", a.wrong,
                 "Plan with bandwidths and latencies wrong by up to this part, simulate with the "
                 "right ones")
      ->capture_default_str();
  app.add_option(
         "--error", a.error,
         "The network's figures may be wrong by up to this part: plan for links that may be "
         "alike as if they were")
      ->capture_default_str();
  app.add_option("--seed", a.seed, "Of everything random")->capture_default_str();
  app.add_flag("--check", a.check, "Prove every plan; exit 1 and say what is wrong if one is");
  app.add_flag("--lookup", a.lookup,
               "Also time the plan cache: lookup_ns of --json by size of block, lookup_counts_ns "
               "by sizes of all messages");
  app.add_flag("--simulate", a.simulate,
               "Simulate large plans too (else their time is the planned one)");
  app.add_option("--output", a.output, "Write the (last) plan to this file (JSON)");
  app.add_option("--json", a.json, "Write one object a line to this file (- : stdout)");
  app.add_option("--plot", a.plot,
                 "Write a picture (SVG): of one plan its busiest links over time, of several their "
                 "times by size");
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
      "  ib_plan --network single-switch:4 --permitted 0-1,1-2,2-3 --check --json -");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "ib_plan: {}\n", error.what());
    return 2;
  }
  const Status status = run(a);
  if (status) return 0;
  fmt::print(stderr, "ib_plan: {}\n", status.error().message);
  return status.error().code == ErrorCode::kInvalidArgument ? 2 : 1;
}
