/// ib_sched: shows, verifies and draws the schedules of collectives.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <optional>

#include "engine/algorithms/registry.h"
#include "engine/base/json_lines.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/planner/link_sharing.h"
#include "engine/schedule/describe.h"
#include "engine/schedule/draw.h"
#include "engine/schedule/json.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/recording.h"
#include "topology/spec.h"

namespace {

using namespace ibcoll;

constexpr int kMostRanksTogether = 1024;  // verify needs memory in proportion to their square
constexpr int kMostRanksOnNetwork = 256;  // with --network, to their cube
constexpr int64_t kMostPieces = 64;

/// The command line as it was typed.
struct Arguments {
  std::string collective = "alltoall", algorithm, layout, placement = "block", program;
  std::string pacing = "gate_token", json, output, network, recorded;
  std::optional<int64_t> ranks, servers, rank;
  int64_t window = 1, pieces = 0, root = 0;
  std::string size = "64K";
  bool ordered = false;
};

/// What the command is about.
struct Request {
  Shape shape = Shape::single_server(1);
  AlgorithmOptions options;
  uint32_t pieces = 0;
  std::optional<Rank> rank;
  std::vector<const Algorithm*> algorithms;  // or else:
  std::optional<LoadedSchedule> loaded;
  std::optional<topology::Fabric> fabric;
  int64_t block_bytes = 0;
  std::optional<Recording> recording;

  std::vector<int> hosts() const {  // of each server, on the network
    std::vector<int> all(shape.servers());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
};

/// The network of --network: server i is its host i.
Status open_network(const Arguments& arguments, Request& request) {
  if (arguments.network.empty()) return {};
  IBCOLL_ASSIGN(request.fabric, topology::open_fabric(arguments.network));
  if (request.fabric->hosts() < request.shape.servers()) {
    return fail(ErrorCode::kInvalidArgument, "{} servers on a network of {} hosts",
                request.shape.servers(), request.fabric->hosts());
  }
  if (request.shape.ranks() > kMostRanksOnNetwork) {
    return fail(ErrorCode::kInvalidArgument, "{} ranks: verify takes up to {} with --network",
                request.shape.ranks(), kMostRanksOnNetwork);
  }
  return {};
}

Status choose_rank(const Arguments& arguments, Request& request) {
  if (!arguments.rank) return {};
  if (*arguments.rank < 0 || *arguments.rank >= request.shape.ranks()) {
    return fail(ErrorCode::kInvalidArgument, "rank {}: must be 0 to {}", *arguments.rank,
                request.shape.ranks() - 1);
  }
  request.rank = static_cast<Rank>(*arguments.rank);
  return {};
}

bool is_planned(const Request& request, const Algorithm& algorithm) {
  return request.fabric && algorithm.name == "contention_free" && request.shape.servers() > 1 &&
         !(algorithm.collective == Collective::kReduce && request.options.ordered);
}

/// Makes the plan that contention_free carries out on the network, if there is one.
Status plan_for_network(const Algorithm& algorithm, bool tokens_ahead, Request& request) {
  contention_free::PlanStore plans(*request.fabric, {.tokens_ahead = tokens_ahead});
  IBCOLL_ASSIGN(request.options.plan,
                plans.find(algorithm.collective, request.shape, request.hosts(),
                           request.options.root, request.block_bytes));
  return {};
}

Result<Request> understand(const Arguments& arguments, bool one) {
  Request request;
  if (arguments.pieces < 0 || arguments.pieces > kMostPieces) {
    return fail(ErrorCode::kInvalidArgument, "{} pieces: must be 1 to {}", arguments.pieces,
                kMostPieces);
  }
  request.pieces = static_cast<uint32_t>(arguments.pieces);
  if (!arguments.recorded.empty()) {
    IBCOLL_ASSIGN(request.recording, load_recording(arguments.recorded));
    const Recording& recording = *request.recording;
    request.shape = recording.shape;
    request.options = recording.options;
    request.pieces = recording.pieces;
    if (arguments.program.empty()) {
      IBCOLL_ASSIGN(const Algorithm* algorithm,
                    find_algorithm(recording.collective, recording.algorithm));
      request.algorithms.push_back(algorithm);
      return request;
    }
  }
  if (!arguments.program.empty()) {
    IBCOLL_ASSIGN(request.loaded, load_schedule(arguments.program));
    request.shape = request.loaded->shape;
    IBCOLL_TRY(choose_rank(arguments, request));
    IBCOLL_TRY(open_network(arguments, request));
    return request;
  }
  IBCOLL_ASSIGN(const Collective collective, parse_collective(arguments.collective));
  IBCOLL_ASSIGN(request.options.pacing, parse_pacing(arguments.pacing));
  if (arguments.window < 0 || arguments.window > kMaxLayoutRanks) {
    return fail(ErrorCode::kInvalidArgument, "window {}: must be 0 (no limit) to {}",
                arguments.window, kMaxLayoutRanks);
  }
  request.options.window = static_cast<uint32_t>(arguments.window);
  if (arguments.algorithm == "all" && !one) {
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.collective == collective) request.algorithms.push_back(&algorithm);
    }
  } else {
    IBCOLL_ASSIGN(const Algorithm* algorithm, find_algorithm(collective, arguments.algorithm));
    request.algorithms.push_back(algorithm);
  }
  IBCOLL_ASSIGN(const Placement placement, parse_placement(arguments.placement));
  IBCOLL_ASSIGN(request.shape, shape_from_options(arguments.layout, arguments.ranks,
                                                  arguments.servers, placement));
  IBCOLL_TRY(choose_rank(arguments, request));
  if (arguments.root < 0 || arguments.root >= request.shape.ranks()) {
    return fail(ErrorCode::kInvalidArgument, "root {}: must be 0 to {}", arguments.root,
                request.shape.ranks() - 1);
  }
  request.options.root = static_cast<Rank>(arguments.root);
  request.options.ordered = arguments.ordered;
  IBCOLL_TRY(open_network(arguments, request));
  IBCOLL_ASSIGN(request.block_bytes, parse_size(arguments.size));
  return request;
}

/// Of what needs the programs of all ranks at once.
Status check_together(const Request& request) {
  if (request.shape.ranks() <= kMostRanksTogether) return {};
  return fail(ErrorCode::kInvalidArgument, "{} ranks: verify and draw take up to {}",
              request.shape.ranks(), kMostRanksTogether);
}

std::shared_ptr<const RankProgram> program_of(const Request& request, Rank rank) {
  if (request.loaded) return request.loaded->programs[rank];
  return request.algorithms.front()->build(request.shape, rank, request.options);
}

Status show(const Request& request, JsonLines& json) {
  const Rank first = request.rank.value_or(0);
  const Rank last = request.rank.value_or(request.shape.ranks() - 1);
  for (Rank rank = first; rank <= last; ++rank) {
    const auto program = program_of(request, rank);
    if (!json.to_stdout()) fmt::print("{}{}", rank == first ? "" : "\n", list(*program));
    if (!json.active()) continue;
    if (rank == first) json.write(schedule_header_to_json(request.shape, *program));
    json.write(program_to_json(*program));
  }
  return {};
}

/// What the puts of a schedule do to the links of the network.
struct LinkProof {
  std::optional<LinkSharing> sharing;                       ///< without a clock
  std::optional<contention_free::PlanStore::Proof> timing;  ///< of tokens sent ahead
};

nlohmann::ordered_json to_json(const Request& request, const RankProgram& any, bool paced,
                               const ScheduleReport& report, const LinkProof& links) {
  nlohmann::ordered_json json = {{"collective", to_string(any.collective)},
                                 {"algorithm", any.algorithm},
                                 {"layout", request.shape.describe()},
                                 {"ranks", request.shape.ranks()},
                                 {"servers", request.shape.servers()},
                                 {"pacing", paced ? to_string(request.options.pacing) : "none"},
                                 {"root", any.root},
                                 {"paced", report.paced},
                                 {"witness", report.witness},
                                 {"steps", report.steps},
                                 {"net_messages_per_rank", report.net_messages},
                                 {"net_blocks_per_rank", report.net_blocks},
                                 {"net_tokens_per_rank", report.net_tokens},
                                 {"local_messages_per_rank", report.local_messages},
                                 {"local_blocks_per_rank", report.local_blocks},
                                 {"copied_blocks_per_rank", report.copied_blocks},
                                 {"combined_blocks_per_rank", report.combined_blocks},
                                 {"scratch_slots", report.scratch_slots},
                                 {"operations", report.operations},
                                 {"program_bytes", report.memory_bytes}};
  if (links.sharing) {
    json["network"] = request.fabric->name();
    json["network_holds"] = links.sharing->holds;
    json["network_witness"] = links.sharing->witness;
    json["network_small"] = links.sharing->small;
    json["network_puts"] = links.sharing->puts;
  }
  if (links.timing) {
    json["tokens"] = "ahead";
    json["network"] = request.fabric->name();
    json["network_holds"] = true;  // or there would be an error
    json["network_jitter_us"] = static_cast<double>(links.timing->jitter_ns) / 1e3;
    json["network_plan_us"] = static_cast<double>(links.timing->time_ns) / 1e3;
  }
  return json;
}

/// Verifies schedules and says what was found.
class Verification {
 public:
  Verification(const Request& request, JsonLines& json)
      : request_(request),
        json_(json),
        table_({"algorithm", "steps", "messages", "blocks", "tokens", "local messages",
                "local blocks", "copied", "scratch", "pace", request.fabric ? "links" : ""}) {}

  Status run() {
    IBCOLL_TRY(check_together(request_));
    if (request_.loaded) {
      if (request_.fabric) {
        IBCOLL_TRY(verify(request_.shape, request_.loaded->programs, request_.pieces, &puts_));
      }
      add(*request_.loaded->programs.front(), false, request_.loaded->report, share_links());
    }
    for (const Algorithm* algorithm : request_.algorithms) {
      if (!is_planned(request_, *algorithm)) {
        IBCOLL_TRY(verify_one(*algorithm, std::nullopt));
        continue;
      }
      IBCOLL_TRY(plan_for_network(*algorithm, false, request_));
      IBCOLL_TRY(verify_one(*algorithm, std::nullopt));
      IBCOLL_TRY(verify_ahead(*algorithm));
    }
    return report();
  }

 private:
  /// As the engine runs it: tokens sent ahead order the puts in time only.
  Status verify_ahead(const Algorithm& algorithm) {
    IBCOLL_TRY(plan_for_network(algorithm, true, request_));
    contention_free::PlanStore plans(*request_.fabric);
    const auto proof = plans.check(algorithm.collective, request_.shape, request_.hosts(),
                                   request_.options.root, request_.block_bytes);
    if (!proof) {
      return fail(proof.error().code, "{}, tokens ahead: {}", algorithm.name,
                  proof.error().message);
    }
    timed_ += fmt::format(
        "{}, tokens ahead: no link is asked for more than it carries in the {:.1f} us of the plan "
        "for blocks of {}, bytes being up to {:.1f} us early or late; a program's tokens go with "
        "whole pieces, of which each block has {}\n",
        algorithm.name, static_cast<double>(proof->time_ns) / 1e3,
        format_size(request_.block_bytes), static_cast<double>(proof->jitter_ns) / 1e3,
        request_.options.plan->pieces);
    return verify_one(algorithm, *proof);
  }

  Status verify_one(const Algorithm& algorithm,
                    std::optional<contention_free::PlanStore::Proof> timing) {
    const bool progress = isatty(STDERR_FILENO) != 0;
    if (progress) fmt::print(stderr, "\r\033[Kverifying {} ...", algorithm.name);
    const Programs programs = build_all(algorithm, request_.shape, request_.options);
    puts_.clear();
    const bool links = request_.fabric && !timing;
    const auto report = verify(request_.shape, programs, request_.pieces, links ? &puts_ : nullptr);
    if (progress) fmt::print(stderr, "\r\033[K");
    if (!report) {
      return fail(report.error().code, "{}: {}", algorithm.name, report.error().message);
    }
    add(*programs.front(), algorithm.paced, *report,
        timing ? LinkProof{std::nullopt, timing} : share_links());
    return {};
  }

  /// Whether puts share links of the network, if there is one.
  LinkProof share_links() const {
    if (!request_.fabric) return {};
    return {prove_link_sharing(*request_.fabric, request_.shape, request_.hosts(), puts_,
                               request_.block_bytes),
            std::nullopt};
  }

  void add(const RankProgram& any, bool paced, const ScheduleReport& report,
           const LinkProof& links) {
    json_.write(to_json(request_, any, paced, report, links));
    const auto& sharing = links.sharing;
    table_.add_row({links.timing ? "  tokens ahead" : any.algorithm,
                    fmt::format("{}", report.steps), fmt::format("{}", report.net_messages),
                    fmt::format("{}", report.net_blocks), fmt::format("{}", report.net_tokens),
                    fmt::format("{}", report.local_messages),
                    fmt::format("{}", report.local_blocks), fmt::format("{}", report.copied_blocks),
                    fmt::format("{}", report.scratch_slots), report.paced ? "paced" : "free",
                    links.timing             ? "in time"
                    : !sharing               ? ""
                    : !sharing->holds        ? "shared"
                    : sharing->small.empty() ? "hold"
                                             : "small"});
    if (sharing && !sharing->holds)
      shared_ += fmt::format("{}: {}\n", any.algorithm, sharing->witness);
    if (sharing) {
      for (const std::string& one : sharing->small)
        small_ += fmt::format("{}: {}\n", any.algorithm, one);
    }
    if (!report.paced && !links.timing)
      witnesses_ += fmt::format("{}: {}\n", any.algorithm, report.witness);
  }

  Status report() const {
    const Status result =
        shared_.empty()
            ? Status()
            : Status(fail(ErrorCode::kInvalidProgram,
                          "puts that nothing orders share links of {}{}", request_.fabric->name(),
                          json_.to_stdout() ? "" : " beyond their bandwidth, see above"));
    if (json_.to_stdout()) return result;
    const auto print = [](const char* title, const std::string& lines) {
      if (!lines.empty()) fmt::print("\n{}:\n{}", title, lines);
    };
    fmt::print("{} ranks on {} servers ({}): holds. Counts of the rank with most:\n\n{}",
               request_.shape.ranks(), request_.shape.servers(), request_.shape.describe(),
               table_.text());
    print("Puts into a server that nothing orders", witnesses_);
    print("Proved in time", timed_);
    print("Left in no order, being less in all than is under way on the link (bandwidth x latency)",
          small_);
    print("Puts that need more than a link carries", shared_);
    return result;
  }

  Request request_;
  JsonLines& json_;
  Table table_;
  std::vector<OrderedPut> puts_;  ///< of the schedule in hand
  std::string witnesses_, timed_, small_, shared_;
};

Status draw_to(const Request& request, const std::string& output) {
  IBCOLL_TRY(check_together(request));
  Programs programs;
  for (Rank rank = 0; rank < request.shape.ranks(); ++rank) {
    programs.push_back(program_of(request, rank));
  }
  IBCOLL_TRY(verify(request.shape, programs, request.pieces));  // what is drawn must hold
  std::string title = fmt::format("{} {}, {}", to_string(programs.front()->collective),
                                  programs.front()->algorithm, request.shape.describe());
  if (!request.loaded && request.algorithms.front()->paced) {
    title += fmt::format(", pacing {}", to_string(request.options.pacing));
  }
  const uint32_t pieces = std::max(1u, request.pieces);
  if (!request.recording) return write_file(output, draw(request.shape, programs, title, pieces));
  const Recording& recording = *request.recording;
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
  return write_file(output, draw_beside(request.shape, programs, "planned: " + title, pieces,
                                        std::move(recorded), what));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Shows, verifies and draws the schedules of collectives");
  app.require_subcommand(1);
  Arguments a;
  CLI::App* show_command = app.add_subcommand("show", "List the operations of ranks");
  CLI::App* verify_command = app.add_subcommand(
      "verify", "Prove that a schedule delivers, can't race and can't deadlock; say what it costs");
  CLI::App* draw_command = app.add_subcommand("draw", "Draw a space-time chart");
  for (CLI::App* command : {show_command, verify_command, draw_command}) {
    command->add_option("--collective", a.collective, "One of " + collective_names())
        ->capture_default_str();
    command->add_option(
        "--algorithm", a.algorithm,
        command == verify_command ? "One of the collective's, or all" : "One of the collective's");
    command->add_option("--root", a.root, "Of gather, scatter, bcast and reduce")
        ->capture_default_str();
    command->add_option("--size", a.size, "Bytes of a block, which contention_free plans for")
        ->capture_default_str();
    command->add_flag("--ordered", a.ordered, "Reduce in the order of ranks");
    command->add_option("--layout", a.layout,
                        "Servers one by one: 3,1,2 or 24x8 (24 servers of 8 ranks)");
    command->add_option("--ranks", a.ranks, "Number of ranks, instead of a layout");
    command->add_option("--servers", a.servers, "Spread them over so many servers (default 1)");
    command->add_option("--placement", a.placement, "How ranks are dealt to servers: block, cyclic")
        ->capture_default_str();
    command->add_option("--pacing", a.pacing, "Of paced algorithms: free, gate, token, gate_token")
        ->capture_default_str();
    command->add_option("--window", a.window, "Steps in flight where steps are free (0: no limit)")
        ->capture_default_str();
    command->add_option("--program", a.program,
                        "Take the schedule from this file (see show --json) instead");
  }
  show_command->add_option("--rank", a.rank, "Only this one (default: all)");
  for (CLI::App* command : {verify_command, draw_command}) {
    command->add_option("--pieces", a.pieces, "Cut blocks of streams into so many pieces");
  }
  for (CLI::App* command : {show_command, verify_command}) {
    command->add_option("--json", a.json, "Write one object a line to this file (- : stdout)");
  }
  verify_command->add_option("--network", a.network,
                             "Prove as well that puts at the same time never need more than a link "
                             "of this network carries "
                             "(what ib_topo --help lists)");
  draw_command->add_option("--output", a.output, "SVG file to write")->required();
  auto* recorded = draw_command->add_option(
      "--recorded", a.recorded,
      "Draw the plan of this call and what ranks did in it (see ib_a2a_bench --timeline)");
  for (const char* given : {"--collective", "--algorithm", "--layout", "--ranks", "--servers",
                            "--placement", "--pacing", "--window", "--pieces"}) {
    recorded->excludes(draw_command->get_option(given));
  }
  app.footer(
      "Examples:\n"
      "  ib_sched verify --collective alltoall --algorithm all --layout 24x8\n"
      "  ib_sched verify --algorithm two_level_ring --layout 24x2 --network single-switch:24\n"
      "  ib_sched show --algorithm two_level_ring --layout 3,1,2 --rank 4\n"
      "  ib_sched draw --algorithm aggregate --ranks 24 --servers 6 --output aggregate.svg\n"
      "  ib_a2a_bench --layout 3,1,2 --algorithm ring --sizes 64K --timeline ring.jsonl\n"
      "  ib_sched draw --recorded ring.jsonl --output ring.svg\n"
      "  ib_sched show --algorithm ring --ranks 4 --json ring.json\n"
      "  ib_sched verify --program ring.json\n"
      "  ib_sched verify --collective reduce --algorithm all --layout 3,1,2 --root 4 --ordered");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "ib_sched: {}\n", error.what());
    return 2;
  }
  const Status status = [&]() -> Status {
    IBCOLL_ASSIGN(const Request request, understand(a, !verify_command->parsed()));
    IBCOLL_ASSIGN(JsonLines json, JsonLines::open(a.json));
    if (draw_command->parsed()) return draw_to(request, a.output);
    IBCOLL_TRY(show_command->parsed() ? show(request, json) : Verification(request, json).run());
    return json.close();
  }();
  if (status) return 0;
  fmt::print(stderr, "ib_sched: {}\n", status.error().message);
  return status.error().code == ErrorCode::kInvalidProgram ? 1 : 2;
}
