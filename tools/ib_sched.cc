/// ib_sched: shows, verifies and draws the schedules of collectives, and reads and writes others'.

#include <algorithm>
#include <optional>

#include "engine/algorithms/imported.h"
#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/schedule/describe.h"
#include "engine/schedule/json.h"
#include "engine/schedule/layout.h"
#include "studies/drawing/draw.h"
#include "studies/drawing/recording.h"
#include "studies/verification/verification.h"
#include "tools/frame/frame.h"
#include "tools/frame/graph_option.h"
#include "tools/frame/progress.h"
#include "tools/ib_sched/convert.h"
#include "topology/spec.h"

namespace {

using namespace ibcoll;

constexpr int kMostRanksTogether = 1024;  // verify needs memory in proportion to their square
constexpr int kMostRanksOnNetwork = 256;  // with --network, to their cube
constexpr int64_t kMostPieces = 64;

/// The command line as it was typed.
struct Arguments {
  std::string collective = "alltoall", algorithm, placement = "block", program;
  std::vector<std::string> layouts;
  std::string pacing = "gate_token", json, output, network, recorded;
  std::optional<int64_t> ranks, servers, rank;
  int64_t window = 1, pieces = 0, root = 0;
  std::string size = "64K", graph;
  bool ordered = false, acks = false;
  tools::ConvertArguments convert;
};

/// What the command is about.
struct Settings : VerificationSettings {
  std::optional<Rank> rank;
  std::optional<Recording> recording;
};

/// The network of --network: server i is its host i.
Status open_network(const Arguments& arguments, Settings& settings) {
  if (arguments.network.empty()) return {};
  IBCOLL_ASSIGN(settings.fabric, topology::open_fabric(arguments.network));
  if (settings.fabric->hosts() < settings.shape.servers()) {
    return fail(ErrorCode::kInvalidArgument, "{} servers on a network of {} hosts",
                settings.shape.servers(), settings.fabric->hosts());
  }
  if (settings.shape.ranks() > kMostRanksOnNetwork) {
    return fail(ErrorCode::kInvalidArgument, "{} ranks: verify takes up to {} with --network",
                settings.shape.ranks(), kMostRanksOnNetwork);
  }
  return {};
}

Status choose_rank(const Arguments& arguments, Settings& settings) {
  if (!arguments.rank) return {};
  if (*arguments.rank < 0 || *arguments.rank >= settings.shape.ranks()) {
    return fail(ErrorCode::kInvalidArgument, "rank {}: must be 0 to {}", *arguments.rank,
                settings.shape.ranks() - 1);
  }
  settings.rank = static_cast<Rank>(*arguments.rank);
  return {};
}

/// `layout`: one of the arguments' layouts, or empty. `named`: the algorithms must be named.
Result<Settings> understand(const Arguments& arguments, const std::string& layout, bool named) {
  Settings settings;
  if (arguments.pieces < 0 || arguments.pieces > kMostPieces) {
    return fail(ErrorCode::kInvalidArgument, "{} pieces: must be 1 to {}", arguments.pieces,
                kMostPieces);
  }
  settings.pieces = static_cast<uint32_t>(arguments.pieces);
  if (!arguments.recorded.empty()) {
    IBCOLL_ASSIGN(settings.recording, load_recording(arguments.recorded));
    const Recording& recording = *settings.recording;
    settings.shape = recording.shape;
    settings.options = recording.options;
    settings.pieces = recording.pieces;
    settings.options.cut = recording.pieces;
    if (arguments.program.empty()) {
      IBCOLL_ASSIGN(const Algorithm* algorithm,
                    find_algorithm(recording.collective, recording.algorithm));
      settings.algorithms.push_back(algorithm);
      return settings;
    }
  }
  if (!arguments.program.empty()) {
    if (arguments.layouts.size() > 1) {
      return fail(ErrorCode::kInvalidArgument,
                  "--program has the layout of its file: leave --layout out");
    }
    IBCOLL_ASSIGN(settings.loaded, load_schedule(arguments.program));
    settings.shape = settings.loaded->shape;
    IBCOLL_TRY(choose_rank(arguments, settings));
    IBCOLL_TRY(open_network(arguments, settings));
    return settings;
  }
  IBCOLL_ASSIGN(const Collective collective, parse_collective(arguments.collective));
  IBCOLL_ASSIGN(settings.options.pacing, parse_pacing(arguments.pacing));
  if (arguments.window < 0 || arguments.window > kMaxLayoutRanks) {
    return fail(ErrorCode::kInvalidArgument, "window {}: must be 0 (no limit) to {}",
                arguments.window, kMaxLayoutRanks);
  }
  settings.options.window = static_cast<uint32_t>(arguments.window);
  IBCOLL_ASSIGN(const Placement placement, parse_placement(arguments.placement));
  IBCOLL_ASSIGN(settings.shape,
                shape_from_options(layout, arguments.ranks, arguments.servers, placement));
  settings.options.ordered = arguments.ordered;
  if (arguments.root < 0 || arguments.root >= settings.shape.ranks()) {
    return fail(ErrorCode::kInvalidArgument, "root {}: must be 0 to {}", arguments.root,
                settings.shape.ranks() - 1);
  }
  settings.options.root = static_cast<Rank>(arguments.root);
  const bool all = arguments.algorithm == "all" || (arguments.algorithm.empty() && !named);
  if (arguments.algorithm.empty() && named) IBCOLL_TRY(find_algorithm(collective, ""));
  IBCOLL_ASSIGN(settings.algorithms,
                find_algorithms(collective, all ? "all" : arguments.algorithm));
  if (all) {  // what can't combine in order is left out
    std::erase_if(settings.algorithms, [&](const Algorithm* algorithm) {
      return !check_order(*algorithm, settings.shape, settings.options);
    });
  }
  for (const Algorithm* algorithm : settings.algorithms)
    IBCOLL_TRY(check_order(*algorithm, settings.shape, settings.options));
  IBCOLL_TRY(choose_rank(arguments, settings));
  settings.options.acks = arguments.acks;
  settings.options.cut = settings.pieces;
  IBCOLL_TRY(open_network(arguments, settings));
  IBCOLL_ASSIGN(settings.block_bytes, parse_size(arguments.size));
  IBCOLL_ASSIGN(settings.options.graph,
                tools::graph_of(collective, arguments.graph, settings.shape));
  return settings;
}

/// Of what needs the programs of all ranks at once.
Status check_together(const Settings& settings) {
  if (settings.shape.ranks() <= kMostRanksTogether) return {};
  return fail(ErrorCode::kInvalidArgument, "{} ranks: verify, draw and export take up to {}",
              settings.shape.ranks(), kMostRanksTogether);
}

size_t schedules(const Settings& settings) {
  return settings.loaded ? 1 : settings.algorithms.size();
}

/// Of a file that holds one schedule.
Status check_one(const std::vector<Settings>& all, std::string_view option) {
  size_t count = 0;
  for (const Settings& settings : all) count += schedules(settings);
  if (count == 1) return {};
  return fail(ErrorCode::kInvalidArgument,
              "{} takes one schedule, not {}: name one algorithm and one layout", option, count);
}

std::shared_ptr<const RankProgram> program_of(const Settings& settings, size_t schedule,
                                              Rank rank) {
  if (settings.loaded) return settings.loaded->programs[rank];
  return settings.algorithms[schedule]->build(settings.shape, rank, settings.options);
}

/// The algorithms there are, as their files describe them.
Status list_algorithms(const Arguments& arguments) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(arguments.json));
  Table table({"collective", "algorithm", "what it does", "for", "paced", "relays", "source"});
  std::vector<const Algorithm*> all;
  for (const Algorithm& own : algorithms()) all.push_back(&own);
  for (const Algorithm* imported : imported_algorithms()) all.push_back(imported);
  for (const Algorithm* one : all) {
    const Algorithm& algorithm = *one;
    const AlgorithmSpec& spec = *algorithm.spec;
    const auto text = [](std::string_view view) { return std::string(view); };
    table.add_row({to_string(algorithm.collective), text(spec.name), text(spec.summary),
                   text(spec.when), algorithm.paced ? "yes" : "no", algorithm.relays ? "yes" : "no",
                   text(spec.source)});
    json.write({{"kind", "algorithm"},
                {"collective", to_string(algorithm.collective)},
                {"algorithm", spec.name},
                {"summary", spec.summary},
                {"when", spec.when},
                {"source", spec.source},
                {"paced", algorithm.paced},
                {"relays", algorithm.relays},
                {"eager", algorithm.largest_put != nullptr}});
  }
  if (!json.to_stdout()) print("{}", table.text());
  return json.close();
}

/// One schedule after the other; of several each has a heading.
Status show(const std::vector<Settings>& all, const std::string& path) {
  if (!path.empty() && path != "-") IBCOLL_TRY(check_one(all, "--json FILE"));
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(path));
  const bool several = !check_one(all, "");
  const char* between = "";
  for (const Settings& settings : all) {
    const Rank first = settings.rank.value_or(0);
    const Rank last = settings.rank.value_or(settings.shape.ranks() - 1);
    for (size_t schedule = 0; schedule < schedules(settings); ++schedule) {
      for (Rank rank = first; rank <= last; ++rank) {
        const auto program = program_of(settings, schedule, rank);
        if (!json.to_stdout()) {
          print("{}", between);
          if (several && rank == first) {
            print("{} {}, {}\n\n", to_string(program->collective), program->algorithm,
                  settings.shape.describe());
          }
          print("{}", list(*program));
          between = "\n";
        }
        if (!json.active()) continue;
        if (rank == first) json.write(schedule_header_to_json(settings.shape, *program));
        json.write(program_to_json(*program));
      }
    }
  }
  return json.close();
}

Status verify_all(const std::vector<Settings>& all, const std::string& path) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(path));
  for (const Settings& settings : all) {
    if (&settings != all.data() && !json.to_stdout()) print("\n");
    IBCOLL_TRY(check_together(settings));
    tools::ProgressLine line;
    IBCOLL_TRY(verify_and_report(settings, json, [&](const std::string& text) {
      text.empty() ? line.clear() : line.show(text);
    }));
  }
  return json.close();
}

/// Says what the imported schedule costs, and writes it to the file of --json.
Status import(const Arguments& arguments) {
  Settings settings;
  IBCOLL_ASSIGN(settings.loaded,
                tools::import_schedule(arguments.convert,
                                       arguments.layouts.empty() ? "" : arguments.layouts.front(),
                                       arguments.ranks, arguments.servers, arguments.placement));
  settings.shape = settings.loaded->shape;
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(arguments.json));
  if (!json.to_stdout()) {
    IBCOLL_ASSIGN(JsonLines none, JsonLines::open(""));
    IBCOLL_TRY(verify_and_report(settings, none));
  }
  if (json.active()) {
    json.write(schedule_header_to_json(settings.shape, *settings.loaded->programs.front()));
    for (const auto& program : settings.loaded->programs) json.write(program_to_json(*program));
  }
  return json.close();
}

/// The programs of all ranks, proved: what is written or drawn must hold.
Result<Programs> proved_programs(const Settings& settings) {
  IBCOLL_TRY(check_together(settings));
  if (settings.loaded) return settings.loaded->programs;
  const Algorithm& algorithm = *settings.algorithms.front();
  Programs programs = build_all(algorithm, settings.shape, settings.options);
  IBCOLL_TRY(verify(settings.shape, programs, settings.pieces));
  return programs;
}

Status export_to(const Settings& settings, const Arguments& arguments) {
  LoadedSchedule schedule{settings.shape, {}, {}};
  IBCOLL_ASSIGN(schedule.programs, proved_programs(settings));
  tools::ConvertArguments convert = arguments.convert;
  convert.size = arguments.size;
  return tools::export_schedule(convert, schedule);
}

Status draw_to(const Settings& settings, const std::string& output) {
  IBCOLL_ASSIGN(const Programs programs, proved_programs(settings));
  std::string title = fmt::format("{} {}, {}", to_string(programs.front()->collective),
                                  programs.front()->algorithm, settings.shape.describe());
  if (!settings.loaded && settings.algorithms.front()->paced) {
    title += fmt::format(", pacing {}", to_string(settings.options.pacing));
  }
  const uint32_t pieces = std::max(1u, settings.pieces);
  if (!settings.recording) return write_file(output, draw(settings.shape, programs, title, pieces));
  const Recording& recording = *settings.recording;
  IBCOLL_ASSIGN(std::vector<Activity> recorded, activities_of(recording, programs));
  double end_us = 0;
  for (const Activity& activity : recorded) end_us = std::max(end_us, activity.arrival);
  std::string what = fmt::format("recorded: {} a block, {} between servers, {:.0f} us",
                                 format_size(static_cast<int64_t>(recording.block_bytes)),
                                 recording.transport, end_us);
  if (recording.clock_error_ns > 0) {
    what += fmt::format("; clocks of different machines may be {:.0f} us apart",
                        static_cast<double>(recording.clock_error_ns) / 1e3);
  }
  return write_file(output, draw_beside(settings.shape, programs, "planned: " + title, pieces,
                                        std::move(recorded), what));
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app("Shows, verifies and draws the schedules of collectives");
  Arguments a;
  tools::Command list_command = app.command("list", "List all algorithms");
  tools::Command show_command = app.command("show", "List the operations of ranks");
  tools::Command verify_command = app.command("verify",
                                              "Prove that schedules deliver all data and can "
                                              "neither race nor deadlock, and show what they cost");
  tools::Command draw_command = app.command("draw", "Draw a space-time chart");
  tools::Command import_command =
      app.command("import", "Read a schedule in another format, and prove it as verify does");
  import_command.option("file", a.convert.file, "File to read").required().type_name("FILE");
  import_command.option("--format", a.convert.format, "Format of the file: msccl-xml")
      .with_default();
  import_command.option(
      "--name", a.convert.name,
      "Name of the algorithm that the schedule becomes (default: its name in the file)");
  import_command.option("--collective", a.convert.collective,
                        "Collective that the schedule carries out, if the file says custom");
  import_command
      .option("--root", a.convert.root,
              "Root of a collective that has one, if the file does not name it")
      .with_default();
  import_command
      .option("--layout", a.layouts,
              "Ranks of each server: 3,1,2 or 24x8 (default: all ranks on one server)")
      .values(1);
  import_command.option("--ranks", a.ranks, "Number of ranks, instead of a layout");
  import_command.option("--servers", a.servers,
                        "Number of servers that the ranks are spread over (default 1)");
  import_command
      .option("--placement", a.placement, "How ranks are placed on servers: block or cyclic")
      .with_default();
  tools::add_json_option(import_command, a.json);
  tools::Command export_command = app.command(
      "export", "Write a schedule in another format: MSCCL's XML, or GOAL for LogGOPSim");
  export_command.option("--format", a.convert.format, "Format of the file: msccl-xml")
      .with_default();
  export_command.flag("--goal", a.convert.goal, "Write the text form of GOAL instead");
  export_command.option("--output", a.convert.output, "File to write").required();
  for (tools::Command command : {show_command, verify_command, draw_command, export_command}) {
    command.option("--collective", a.collective, "One of " + collective_names()).with_default();
    command.option("--algorithm", a.algorithm,
                   command == verify_command ? "Algorithms, separated by commas, or all (default)"
                   : command == show_command ? "Algorithms, separated by commas, or all"
                                             : "Algorithm (see ib_sched list)");
    command.option("--root", a.root, "Root of gather(v), scatter(v), bcast and reduce")
        .with_default();
    command
        .option("--size", a.size,
                "Bytes of a block, for contention_free (which plans for this size) and for export "
                "--goal")
        .with_default();
    tools::add_graph_option(command, a.graph);
    command.flag("--ordered", a.ordered, "Combine data in the order of ranks in reductions");
    command.flag("--acks", a.acks, "In a bcast, have all ranks acknowledge to the root");
    command.option("--layout", a.layouts,
                   fmt::format("Ranks of each server: 3,1,2 or 24x8 (24 servers of 8 ranks){}",
                               command == verify_command ? "; of several layouts, each is proved"
                               : command == show_command ? "; several are shown one after the other"
                                                         : ""));
    command.option("--ranks", a.ranks, "Number of ranks, instead of a layout");
    command.option("--servers", a.servers,
                   "Number of servers that the ranks are spread over (default 1)");
    command.option("--placement", a.placement, "How ranks are placed on servers: block or cyclic")
        .with_default();
    command
        .option("--pacing", a.pacing, "Pacing of paced algorithms: free, gate, token, gate_token")
        .with_default();
    command
        .option("--window", a.window,
                "Number of steps that may be in flight if neither gates nor tokens pace them (0: "
                "no limit)")
        .with_default();
    command.option(
        "--pieces", a.pieces,
        "Number of pieces that blocks are cut into, in streams and by algorithms that cut blocks");
    command.option("--program", a.program,
                   "Instead of building a schedule, read it from this file (see show --json)");
  }
  show_command.option("--rank", a.rank, "Show only this rank (default: all)");
  for (tools::Command command : {list_command, show_command, verify_command}) {
    tools::add_json_option(command, a.json);
  }
  verify_command.option("--network", a.network,
                        "Also prove that simultaneous puts never need more than a link of this "
                        "network can carry (networks: see ib_topo --help)");
  draw_command.option("--output", a.output, "SVG file to write").required();
  const auto recorded =
      draw_command.option("--recorded", a.recorded,
                          "Draw the schedule of the call that was recorded in this file, and what "
                          "ranks did in it (see ib_a2a_bench --timeline)");
  for (const char* given : {"--collective", "--algorithm", "--layout", "--ranks", "--servers",
                            "--placement", "--pacing", "--window", "--pieces"}) {
    recorded.excludes(draw_command.described(given));
  }
  app.footer(
      "Examples:\n"
      "  ib_sched list\n"
      "  ib_sched verify --collective alltoall --algorithm all --layout 24x8\n"
      "  ib_sched verify --algorithm ring,two_level_ring --layout 24x8 3,1,2\n"
      "  ib_sched verify --algorithm two_level_ring --layout 24x2 --network single-switch:24\n"
      "  ib_sched show --algorithm two_level_ring --layout 3,1,2 --rank 4\n"
      "  ib_sched show --algorithm ring,two_level_ring --layout 3,1,2 2x3 --json -\n"
      "  ib_sched draw --algorithm aggregate --ranks 24 --servers 6 --output aggregate.svg\n"
      "  ib_a2a_bench --layout 3,1,2 --algorithm ring --sizes 64K --timeline ring.jsonl\n"
      "  ib_sched draw --recorded ring.jsonl --output ring.svg\n"
      "  ib_sched show --algorithm ring --ranks 4 --json ring.json\n"
      "  ib_sched verify --program ring.json\n"
      "  ib_sched export --collective allgather --algorithm linear --ranks 4 --output linear.xml\n"
      "  ib_sched import linear.xml --name ours --layout 2x2 --json ours.jsonl\n"
      "  ib_sched export --program ours.jsonl --goal --size 1M --output ours.goal\n"
      "  ib_sched verify --collective neighbor_alltoall --graph grid:3x4x2 --layout 4x6\n"
      "  ib_sched verify --collective reduce --algorithm all --layout 3,1,2 --root 4 --ordered");
  return tools::run_tool(app, argc, argv, [&]() -> Status {
    IBCOLL_TRY(add_imported_of_environment());
    if (app.given("list")) return list_algorithms(a);
    if (app.given("import")) return import(a);
    if (a.layouts.empty()) a.layouts.emplace_back();
    std::vector<Settings> all;
    for (const std::string& layout : a.layouts) {
      IBCOLL_ASSIGN(all.emplace_back(), understand(a, layout, !app.given("verify")));
    }
    if (app.given("show")) return show(all, a.json);
    if (app.given("verify")) return verify_all(all, a.json);
    IBCOLL_TRY(check_one(all, "--output"));
    return app.given("draw") ? draw_to(all.front(), a.output) : export_to(all.front(), a);
  });
}
