/// ib_map: places ranks on the nodes of a network so that their messages travel short and spread.

#include <unistd.h>

#include <fmt/ranges.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>

#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "studies/drawing/plot.h"
#include "studies/mapping/bounds.h"
#include "studies/mapping/fabric_network.h"
#include "studies/mapping/gilmore_lawler.h"
#include "studies/mapping/launch_file.h"
#include "studies/mapping/matrix_file.h"
#include "studies/mapping/patterns.h"
#include "studies/mapping/random.h"
#include "studies/mapping/refine.h"
#include "studies/mapping/scotch.h"
#include "studies/mapping/small.h"
#include "studies/mapping/starts.h"
#include "studies/simulate/placed_traffic.h"
#include "tools/frame/frame.h"
#include "tools/frame/progress.h"
#include "topology/spec.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::topology;

/// The command line as it was typed.
struct Arguments {
  std::string network, hierarchy, distances, matrix, pattern, method = "refine", objective = "hops",
                                                              budget = "5s";
  std::string distance = "torus", clock = "wall", output, output_file, hosts, json, plot, curve;
  std::vector<int> exclude;
  std::optional<int> per_node;
  std::optional<double> imbalance;
  uint64_t seed = 1;
  bool scramble = false, no_simulation = false;
};

struct Settings {
  Network network;
  CommMatrix matrix;
  Room room;
  Goal goal;
  double budget_seconds = 0;
  Clock clock = Clock::kWall;  ///< that the budget is counted in
  std::vector<std::string> hosts;
  std::optional<Fabric> fabric = {};  ///< to simulate on; none where that would take too long
  Bounds bounds = {};
  std::optional<double> gilmore_lawler = {};  ///< none where there are too many places for it
  std::optional<double> fastest_rate = {};    ///< bytes a second of the fastest link, if known
};

/// What one method came to.
struct Outcome {
  std::string method;
  Placement placement;
  Evaluation evaluation;
  double seconds = 0, cpu_seconds = 0;
  double simulated_us = std::nan("");
};

const std::map<std::string, JoinRule> kJoinRules = {{"mopt-none", JoinRule::kNone},
                                                    {"mopt-mincost", JoinRule::kMinCost},
                                                    {"mopt-minlink", JoinRule::kMinLink}};
constexpr std::string_view kMethods[] = {"xyz",    "mopt-none",  "mopt-mincost", "mopt-minlink",
                                         "refine", "exhaustive", "scotch"};
const std::map<std::string, LaunchFormat> kFormats = {{"rankfile", LaunchFormat::kRankfile},
                                                      {"slurm", LaunchFormat::kSlurm},
                                                      {"json", LaunchFormat::kJson}};

/// Beyond these a simulation would take longer than a search.
constexpr int kMostSimulatedNodes = 4096;
constexpr size_t kMostSimulatedPairs = 60'000;

/// A network and the names of its hosts.
struct NamedNetwork {
  Network network;
  std::vector<std::string> hosts;
  std::optional<Fabric> fabric;
  std::optional<double> fastest_rate;
};

std::vector<std::string> numbered_hosts(int nodes) {
  std::vector<std::string> hosts;
  for (int node = 0; node < nodes; ++node) hosts.push_back(fmt::format("node{}", node));
  return hosts;
}

Result<NamedNetwork> open_network(const Arguments& arguments) {
  if (arguments.network.empty() == arguments.hierarchy.empty())
    return fail(ErrorCode::kInvalidArgument, "give one of --network and --hierarchy");
  if (arguments.hierarchy.empty() != arguments.distances.empty())
    return fail(ErrorCode::kInvalidArgument, "--hierarchy and --distances go together");
  std::vector<std::string> hosts;
  if (!arguments.hierarchy.empty()) {
    IBCOLL_ASSIGN(Hierarchy hierarchy, Hierarchy::parse(arguments.hierarchy, arguments.distances));
    hosts = numbered_hosts(hierarchy.nodes());
    return NamedNetwork{std::move(hierarchy), std::move(hosts), {}, {}};
  }
  const std::string& text = arguments.network;
  if (text.starts_with("torus:") || text.starts_with("mesh:")) {
    IBCOLL_ASSIGN(Grid grid, Grid::parse(text));
    std::optional<Fabric> fabric;
    if (grid.nodes() <= kMostSimulatedNodes) {
      if (auto made = sim::fabric_of(grid)) fabric = std::move(*made);
    }
    hosts = numbered_hosts(grid.nodes());
    return NamedNetwork{std::move(grid), std::move(hosts), std::move(fabric), sim::kGridLinkRate};
  }
  IBCOLL_ASSIGN(Fabric fabric, open_fabric(text));
  for (int host = 0; host < fabric.hosts(); ++host) hosts.push_back(fabric.node(host).name);
  IBCOLL_ASSIGN(RoutedNetwork network, tabled_network(fabric));
  const double fastest = network.fastest_rate();
  return NamedNetwork{std::move(network), std::move(hosts), std::move(fabric), fastest};
}

/// The same traffic with its tasks in random order.
CommMatrix scrambled(const CommMatrix& matrix, uint64_t seed) {
  std::vector<int> name(matrix.tasks());
  std::iota(name.begin(), name.end(), 0);
  FastRandom random(seed);
  for (int i = matrix.tasks() - 1; i > 0; --i) std::swap(name[i], name[random.below(i + 1)]);
  return matrix.renamed(name);
}

/// How many tasks a node takes.
Result<int> tasks_a_node(const Arguments& arguments, const Settings& settings) {
  if (!arguments.imbalance) return arguments.per_node.value_or(1);
  if (arguments.per_node)
    return fail(ErrorCode::kInvalidArgument, "give one of --per-node and --imbalance");
  if (!(*arguments.imbalance >= 0) || *arguments.imbalance > 1e6)
    return fail(ErrorCode::kInvalidArgument, "--imbalance {}: a percentage, 0 or more",
                *arguments.imbalance);
  const std::vector<char>& usable = settings.room.usable;
  const auto nodes = usable.empty() ? node_count(settings.network)
                                    : static_cast<int>(std::ranges::count(usable, 1));
  if (nodes == 0) return 1;
  const int even = (settings.matrix.tasks() + nodes - 1) / nodes;
  return static_cast<int>(
      std::min<double>(settings.matrix.tasks(), even * (1 + *arguments.imbalance / 100)));
}

Result<Settings> understand(const Arguments& arguments) {
  if (arguments.matrix.empty() == arguments.pattern.empty()) {
    return fail(ErrorCode::kInvalidArgument, "give one of --matrix and --pattern");
  }
  IBCOLL_ASSIGN(NamedNetwork named, open_network(arguments));
  Settings settings{std::move(named.network), {}, {}, {}, 0, Clock::kWall, std::move(named.hosts)};
  IBCOLL_ASSIGN(settings.matrix, arguments.matrix.empty()
                                     ? parse_pattern(arguments.pattern, arguments.seed)
                                     : read_matrix_file(arguments.matrix));
  if (arguments.scramble) settings.matrix = scrambled(settings.matrix, arguments.seed);
  if (!arguments.no_simulation && settings.matrix.pairs() <= kMostSimulatedPairs)
    settings.fabric = std::move(named.fabric);
  settings.fastest_rate = named.fastest_rate;
  const int nodes = node_count(settings.network);
  if (!arguments.exclude.empty()) settings.room.usable.assign(nodes, 1);
  for (const int node : arguments.exclude) {
    if (node < 0 || node >= nodes) {
      return fail(ErrorCode::kInvalidArgument, "excluded node {}: there are 0 to {}", node,
                  nodes - 1);
    }
    settings.room.usable[node] = 0;
  }
  IBCOLL_ASSIGN(settings.room.per_node, tasks_a_node(arguments, settings));
  IBCOLL_TRY(check_room(settings.room, settings.network, settings.matrix.tasks()));
  settings.goal.mesh_hops = arguments.distance == "mesh";
  settings.bounds = lower_bounds(settings.matrix, settings.network, settings.room);
  settings.gilmore_lawler =
      gilmore_lawler(settings.matrix, settings.network, settings.room, settings.goal.mesh_hops);
  settings.goal.link_share = arguments.objective == "hops"   ? 0
                             : arguments.objective == "both" ? 0.5
                                                             : 1;
  IBCOLL_ASSIGN(const int64_t budget_ns, parse_duration(arguments.budget));
  settings.budget_seconds = static_cast<double>(budget_ns) / 1e9;
  settings.clock = arguments.clock == "cpu" ? Clock::kProcessor : Clock::kWall;
  if (budget_ns <= 0) {
    return fail(ErrorCode::kInvalidArgument, "a budget of {}: more than 0", arguments.budget);
  }
  if (!arguments.hosts.empty()) {
    IBCOLL_ASSIGN(settings.hosts, read_hosts(arguments.hosts, nodes));
  }
  return settings;
}

void show_progress(tools::ProgressLine& line, const RefineProgress& progress) {
  static std::chrono::steady_clock::time_point shown;
  const auto now = std::chrono::steady_clock::now();
  if (now - shown < std::chrono::milliseconds(100)) return;
  shown = now;
  line.show(fmt::format("{:3.0f} % {:<7} hop-bytes {:.4g}, largest link {:.4g} bytes",
                        100 * progress.part, progress.stage, progress.best.hop_bytes,
                        progress.best.max_link_load));
}

Result<Outcome> run(const Settings& settings, const std::string& method, uint64_t seed) {
  Outcome outcome{method, {}, {}};
  const Stopwatch wall(Clock::kWall), cpu(Clock::kProcessor);
  if (method == "xyz") {
    outcome.placement = in_order(settings.matrix.tasks(), settings.network, settings.room);
  } else if (const auto rule = kJoinRules.find(method); rule != kJoinRules.end()) {
    IBCOLL_ASSIGN(outcome.placement,
                  mopt_in_room(settings.matrix, settings.network, settings.room, rule->second));
  } else if (method == "exhaustive") {
    IBCOLL_ASSIGN(outcome.placement,
                  exhaustive(settings.matrix, settings.network, settings.room, settings.goal));
  } else if (method == "scotch") {
    ScotchOptions options{settings.goal, settings.budget_seconds, settings.clock, seed};
    IBCOLL_ASSIGN(outcome.placement,
                  scotch_map(settings.matrix, settings.network, settings.room, options));
  } else {
    RefineOptions options;
    options.goal = settings.goal;
    options.limits.seconds = settings.budget_seconds;
    options.limits.clock = settings.clock;
    options.seed = seed;
    tools::ProgressLine line;
    if (line.visible()) options.progress = [&](const RefineProgress& p) { show_progress(line, p); };
    outcome.placement = refine(settings.matrix, settings.network, settings.room, options);
  }
  outcome.seconds = wall.seconds();
  outcome.cpu_seconds = cpu.seconds();
  IBCOLL_TRY(
      check_placement(outcome.placement, settings.network, settings.room, settings.matrix.tasks()));
  outcome.evaluation = evaluate(settings.matrix, settings.network, outcome.placement);
  if (settings.fabric) {
    IBCOLL_ASSIGN(outcome.simulated_us,
                  sim::placed_traffic_us(settings.matrix, outcome.placement, *settings.fabric));
  }
  return outcome;
}

/// Whether some links are slower than others.
bool uneven(const Settings& settings) {
  const auto* routed = std::get_if<RoutedNetwork>(&settings.network);
  for (int link = 0; routed != nullptr && link < routed->links(); ++link) {
    if (routed->slowness(link) > 1) return true;
  }
  return false;
}

/// What the busiest link takes, in microseconds; not a number where nobody knows how fast it is.
double link_us(const Settings& settings, double load) {
  return settings.fastest_rate ? load / *settings.fastest_rate * 1e6 : std::nan("");
}

/// The network as the command line names it.
std::string named(const Arguments& arguments) {
  if (arguments.hierarchy.empty()) return arguments.network;
  return fmt::format("hierarchy {}, distances {}", arguments.hierarchy, arguments.distances);
}

/// How many links carry how much: a histogram of link loads, one line a method.
Plot link_plot(const Arguments& arguments, const Settings& settings,
               const std::vector<Outcome>& outcomes) {
  constexpr int kBins = 40;
  Plot plot;
  plot.title = "Bytes on the links";
  plot.subtitle = fmt::format("{} on {}", arguments.pattern + arguments.matrix, named(arguments));
  plot.x.label = uneven(settings) ? "bytes that would take as long on the fastest link (MB)"
                                  : "bytes on a link (MB)";
  plot.y.label = "links";
  double most = 0;
  for (const Outcome& outcome : outcomes) {
    most = std::max(most, outcome.evaluation.max_link_load);
  }
  for (const Outcome& outcome : outcomes) {
    Series series;
    series.name = outcome.method;
    series.x.resize(kBins);
    series.y.assign(kBins, 0);
    for (int bin = 0; bin < kBins; ++bin) series.x[bin] = (bin + 0.5) * most / kBins / 1e6;
    for (const double bytes : outcome.evaluation.link_loads) {
      const int bin = most > 0 ? static_cast<int>(bytes / most * kBins) : 0;
      ++series.y[std::min(bin, kBins - 1)];
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

/// Hop-bytes against the largest link: placements by refine for more and more weight on the link,
/// and what the methods at hand came to.
Status draw_curve(const Arguments& arguments, const Settings& settings,
                  const std::vector<Outcome>& outcomes) {
  Plot plot;
  plot.title = "Hop-bytes against the largest link";
  plot.subtitle = fmt::format("{} on {}", arguments.pattern + arguments.matrix, named(arguments));
  plot.x.label = arguments.distance == "mesh" ? "hop x MB, without wraparound" : "hop x MB";
  plot.y.label = uneven(settings) ? "largest link, as bytes on the fastest (MB)"
                                  : "bytes on the largest link (MB)";
  const auto add = [&](Series& series, const Evaluation& evaluation) {
    series.x.push_back(
        (settings.goal.mesh_hops ? evaluation.hop_bytes_mesh : evaluation.hop_bytes) / 1e6);
    series.y.push_back(evaluation.max_link_load / 1e6);
  };
  Series curve{.name = "refine"};
  std::vector<Evaluation> points;
  for (const double share : {0.0, 0.25, 0.5, 0.75, 0.9, 1.0}) {
    Settings weighted = settings;
    weighted.fabric.reset();
    weighted.goal.link_share = share;
    IBCOLL_ASSIGN(const Outcome outcome, run(weighted, "refine", arguments.seed));
    points.push_back(outcome.evaluation);
  }
  std::ranges::sort(points, {}, &Evaluation::hop_bytes);
  for (const Evaluation& point : points) add(curve, point);
  plot.series.push_back(std::move(curve));
  for (const Outcome& outcome : outcomes) {
    if (outcome.method == "xyz" || outcome.method == "refine") continue;
    plot.series.push_back({.name = outcome.method, .mark = Mark::kScatter});
    add(plot.series.back(), outcome.evaluation);
  }
  return plot.write(arguments.curve);
}

nlohmann::ordered_json to_json(const Arguments& arguments, const Settings& settings,
                               const Outcome& outcome) {
  return {{"method", outcome.method},
          {"network", named(arguments)},
          {"tasks", settings.matrix.tasks()},
          {"hop_bytes_mesh", outcome.evaluation.hop_bytes_mesh},
          {"hop_bytes_torus", outcome.evaluation.hop_bytes},
          {"max_link_bytes", outcome.evaluation.max_link_bytes},
          {"max_link_us", link_us(settings, outcome.evaluation.max_link_load)},
          {"hop_bytes_bound", settings.bounds.hop_bytes},
          {"hop_bytes_gilmore_lawler", settings.gilmore_lawler.value_or(std::nan(""))},
          {"max_link_bound", settings.bounds.max_link_load},
          {"max_link_us_bound", link_us(settings, settings.bounds.max_link_load)},
          {"simulated_us", outcome.simulated_us},
          {"seconds", outcome.seconds},
          {"cpu_seconds", outcome.cpu_seconds}};
}

/// What no placement can go below.
std::string bounds_text(const Settings& settings) {
  const Bounds& bounds = settings.bounds;
  std::string text = fmt::format("No placement is below {:.5g} hop x MB", bounds.hop_bytes / 1e6);
  if (settings.gilmore_lawler) {
    text += fmt::format(" (by Gilmore and Lawler {:.5g}{})", *settings.gilmore_lawler / 1e6,
                        settings.goal.mesh_hops ? ", mesh" : "");
  }
  text += settings.fastest_rate
              ? fmt::format(" or {:.5g} us on a link.\n", link_us(settings, bounds.max_link_load))
              : fmt::format(" or {:.5g} MB on a link.\n", bounds.max_link_load / 1e6);
  return text;
}

Status map_and_report(const Arguments& arguments) {
  IBCOLL_ASSIGN(const Settings settings, understand(arguments));
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(arguments.json));
  for (const std::string& file : {arguments.plot, arguments.curve, arguments.output_file}) {
    if (!file.empty()) IBCOLL_TRY(write_file(file, ""));  // fails now rather than at the end
  }
  std::vector<Outcome> outcomes;
  std::vector<std::string> methods{"xyz"};
  for (const std::string_view method : split(arguments.method, ',')) {
    if (std::ranges::find(kMethods, method) == std::end(kMethods)) {
      return fail(ErrorCode::kInvalidArgument, "method \"{}\": must be one of {}", method,
                  fmt::join(kMethods, ", "));
    }
    if (method != "xyz") methods.emplace_back(method);
  }
  for (const std::string& method : methods) {
    IBCOLL_ASSIGN(Outcome outcome, run(settings, method, arguments.seed));
    outcomes.push_back(std::move(outcome));
  }
  Table table({"method", "hop x MB (mesh)", "hop x MB (torus)", "largest link MB",
               "largest link us", "simulated us", "seconds"});
  for (const Outcome& outcome : outcomes) {
    json.write(to_json(arguments, settings, outcome));
    table.add_row(
        {outcome.method, fmt::format("{:.5g}", outcome.evaluation.hop_bytes_mesh / 1e6),
         fmt::format("{:.5g}", outcome.evaluation.hop_bytes / 1e6),
         fmt::format("{:.5g}", outcome.evaluation.max_link_bytes / 1e6),
         settings.fastest_rate
             ? fmt::format("{:.5g}", link_us(settings, outcome.evaluation.max_link_load))
             : "-",
         std::isnan(outcome.simulated_us) ? "-" : fmt::format("{:.0f}", outcome.simulated_us),
         fmt::format("{:.2f}", outcome.seconds)});
  }
  const bool to_stdout = !arguments.output.empty() && arguments.output_file.empty();
  if (!json.to_stdout()) {
    const std::string text = table.text() + bounds_text(settings);
    if (to_stdout) {
      (void)std::fputs(text.c_str(), stderr);
    } else {
      print_text(text);
    }
  }
  if (!arguments.curve.empty()) IBCOLL_TRY(draw_curve(arguments, settings, outcomes));
  if (!arguments.plot.empty())
    IBCOLL_TRY(link_plot(arguments, settings, outcomes).write(arguments.plot));
  if (!arguments.output.empty()) {
    const std::string text =
        launch_file(kFormats.at(arguments.output), outcomes.back().placement, settings.hosts);
    if (!arguments.output_file.empty()) {
      IBCOLL_TRY(write_file(arguments.output_file, text));
    } else if (json.to_stdout()) {
      return fail(ErrorCode::kInvalidArgument,
                  "--json - and --output both want standard output: give --output-file");
    } else {
      print("{}", text);
    }
  }
  return json.close();
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "Places ranks on the nodes of a network, so that messages have short ways and share few "
      "links");
  Arguments a;
  app.option("--network", a.network,
             "Network: torus:AxBxC or mesh:AxB, with any number of dimensions; or a fabric or its "
             "file, see below");
  app.option("--hierarchy", a.hierarchy,
             "Instead of --network: 4:16:16 for sixteen racks of sixteen machines of four nodes");
  app.option("--distances", a.distances,
             "Cost of a byte in the hierarchy: 1:10:100 inside a machine, inside a rack and "
             "between racks");
  app.option("--matrix", a.matrix,
             "File with the bytes that ranks send: CSV, MatrixMarket, an edge list, or a METIS "
             "graph (NAME.graph)");
  app.option("--pattern", a.pattern,
             "Instead of --matrix: the traffic of a known program, see below");
  app.option("--method", a.method,
             fmt::format("Methods, separated by commas: {}; xyz is always included, and --output "
                         "writes the placement of the last one",
                         fmt::join(kMethods, ", ")))
      .with_default();
  app.option("--objective", a.objective,
             "What refine, scotch and exhaustive minimize: hop-bytes (hops), the largest load of a "
             "link (link), or both")
      .one_of({"hops", "link", "both"})
      .with_default();
  app.option("--distance", a.distance,
             "Hops that refine, scotch and exhaustive count: with the wraparound links (torus) or "
             "without (mesh)")
      .one_of({"torus", "mesh"})
      .with_default();
  app.option("--budget", a.budget, "Time for a run of refine or scotch").with_default();
  app.option("--clock", a.clock,
             "Clock of the budget: wall time (wall) or processor time of this process (cpu)")
      .one_of({"wall", "cpu"})
      .with_default();
  app.option("--per-node", a.per_node, "Number of ranks that a node takes (default 1)");
  app.option(
      "--imbalance", a.imbalance,
      "Instead of --per-node: percentage by which the ranks of a node may exceed an even share");
  app.option("--exclude", a.exclude, "Numbers of nodes that are not available, separated by commas")
      .delimiter(',');
  app.flag("--scramble", a.scramble, "Renumber the ranks at random first");
  app.flag("--no-simulation", a.no_simulation,
           "Leave out the simulated time; simulating can take longer than the search");
  app.option("--seed", a.seed, "Seed of random patterns and searches").with_default();
  app.option("--output", a.output, "Print the placement in this format")
      .one_of({"rankfile", "slurm", "json"});
  app.option("--output-file", a.output_file,
             "Write the placement to this file instead of standard output");
  app.option("--hosts", a.hosts,
             "File with the host names of the nodes (default: those of a fabric, otherwise node0, "
             "node1, ...)");
  tools::add_json_option(app, a.json, "one object per method");
  app.option("--plot", a.plot,
             "Draw the distribution of link loads to this SVG file (link_loads.svg)")
      .values(0, 1)
      .with_default("link_loads.svg");
  app.option("--curve", a.curve,
             "Draw to this SVG file how many hop-bytes it costs to lower the largest load of a "
             "link; takes six more runs of refine");
  app.footer(fmt::format(
      "JSON: hop_bytes_torus and hop_bytes_mesh are in bytes x hops (hierarchies: x distances).\n"
      "max_link_bytes and max_link_us are those of the link that takes longest (max_link_us is\n"
      "null in hierarchies, whose links have no rates). No placement is below the bounds:\n"
      "hop_bytes_bound, hop_bytes_gilmore_lawler (null beyond {} places; with --distance mesh, it\n"
      "is a bound of hop_bytes_mesh), max_link_us_bound, and max_link_bound (in bytes on the\n"
      "fastest link).\n"
      "Simulated time: all messages start at once and share links fairly (5 GB/s and 120 ns per\n"
      "hop on meshes and tori). Left out for hierarchies and for large matrices and networks.\n"
      "To record the matrix of a program (ib_info --mpi says where the library is):\n"
      "mpirun -x LD_PRELOAD=/FULL/PATH/libibcoll_mpi.so -x IBCOLL_MPI_RECORD=FILE ...\n"
      "(MPICH: mpiexec -env LD_PRELOAD .../libibcoll_mpi.so -env IBCOLL_MPI_RECORD FILE ...),\n"
      "then pass --matrix FILE.\n"
      "To start a program with a placement that --output has written: mpirun --rankfile FILE\n"
      "(Open MPI), or SLURM_HOSTFILE=FILE srun --distribution=arbitrary.\n"
      "Patterns:\n{}\nFabrics:\n{}\nExamples:\n"
      "  ib_map --network torus:16x16x16 --pattern bruck:4096 --method mopt-minlink\n"
      "  ib_map --network torus:8x8x8 --pattern sp:484 --objective link --budget 30s --plot l.svg\n"
      "  ib_map --network mesh:5x7 --matrix traffic.csv --output rankfile --output-file ranks\n"
      "  ib_map --network fat-tree:8,3 --pattern cg:256 --objective both\n"
      "  ib_map --network torus:4x4 --matrix m.mtx --per-node 8 --output slurm --hosts hosts.txt\n"
      "  ib_map --hierarchy 4:16:16 --distances 1:10:100 --matrix mesh.graph --imbalance 3",
      kMostBoundedPlaces, pattern_help(), spec_help()));
  return tools::run_tool(app, argc, argv, [&] { return map_and_report(a); });
}
