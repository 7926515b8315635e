#include "tools/ib_info/job.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/base/config.h"
#include "engine/base/output.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/bootstrap/start_memory.h"
#include "engine/core/call_plans.h"
#include "engine/core/context_memory.h"
#include "engine/core/job_start.h"
#include "engine/core/opened_job.h"
#include "engine/core/plan_sources.h"
#include "engine/core/program_cache.h"
#include "engine/execute/mail.h"
#include "engine/schedule/builder.h"
#include "engine/schedule/layout.h"
#include "engine/transport/open.h"
#include "engine/tuner/choose.h"
#include "shm/transport.h"
#include "tools/ib_info/partners.h"
#include "tools/ib_info/sizes.h"

namespace ibcoll {
namespace {

constexpr int64_t kMaxBlockBytes = int64_t{1} << 40;
/// In a larger job it is the ranks at the ends and in the middle of some servers that are looked
/// at: all programs of ten thousand ranks take gigabytes.
constexpr int kAllRanks = 1024;

/// A call of the job, and how the engine would carry it out.
struct PlannedCall {
  Collective collective{};
  int64_t bytes = 0;
  std::string name;  ///< empty: the engine chooses
  const Algorithm* algorithm = nullptr;
  AlgorithmOptions options;
  bool eager = false;  ///< its messages between servers carry their data at once
};

Result<PlannedCall> parse_call(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.empty() || parts.size() > 3)
    return fail(ErrorCode::kInvalidArgument,
                "--calls '{}': a call is COLLECTIVE[:SIZE][:ALGORITHM], as in alltoall:64K", text);
  PlannedCall call;
  IBCOLL_ASSIGN(call.collective, parse_collective(parts[0]));
  if (has_graph(call.collective))
    return fail(ErrorCode::kInvalidArgument, "--calls '{}': who are neighbours is not known here",
                text);
  size_t next = 1;
  if (parts.size() > next && !parts[next].empty() && parts[next][0] >= '0' &&
      parts[next][0] <= '9') {
    IBCOLL_ASSIGN(call.bytes, parse_size(parts[next]));
    if (call.bytes > kMaxBlockBytes)
      return fail(ErrorCode::kInvalidArgument, "size {} is over the limit of {} bytes a pair",
                  call.bytes, format_size(kMaxBlockBytes));
    ++next;
  } else if (moves_data(call.collective)) {
    call.bytes = 64 << 10;
  }
  if (parts.size() > next + 1)
    return fail(ErrorCode::kInvalidArgument, "--calls '{}': '{}' is not a size", text, parts[1]);
  if (parts.size() > next) {
    call.name = parts[next];
    IBCOLL_ASSIGN(call.algorithm, find_algorithm(call.collective, call.name));
  }
  return call;
}

/// As CallPlans does it for a job without rules and without a known network.
Status plan_call(const Shape& shape, bool costs_cores, int64_t eager_bytes, uint32_t connections,
                 PlannedCall& call) {
  const CallFacts facts{.collective = call.collective,
                        .shape = shape,
                        .block_bytes = size_to_choose_by(call.collective, call.bytes),
                        .costs_cores = costs_cores,
                        .connections = connections};
  const Choice choice = choose(facts, {.named = {.algorithm = call.name}});
  IBCOLL_ASSIGN(call.algorithm, find_algorithm(call.collective, choice.algorithm));
  call.options = choice.options;
  IBCOLL_TRY(check_order(*call.algorithm, shape, call.options));
  call.algorithm->set_pieces(choice.pieces, call.options);
  call.eager =
      !is_unequal(call.collective) &&
      call.bytes <= eager_block_bytes(*call.algorithm, shape, call.options.pacing, eager_bytes) &&
      !call.algorithm->build(shape, 0, call.options)->has_uneven_slots();
  return {};
}

/// All ranks, or those that may have most to do in a job with so many.
std::vector<Rank> ranks_to_look_at(const Shape& shape) {
  std::set<Rank> ranks;
  if (shape.ranks() <= kAllRanks) {
    for (Rank rank = 0; rank < shape.ranks(); ++rank) ranks.insert(rank);
  } else {
    const int last = shape.servers() - 1;
    int largest = 0, smallest = 0;
    for (int server = 1; server <= last; ++server) {
      if (shape.server_size(server) > shape.server_size(largest)) largest = server;
      if (shape.server_size(server) < shape.server_size(smallest)) smallest = server;
    }
    for (const int server : {0, last / 2, last, largest, smallest}) {
      const int end = shape.server_size(server) - 1;
      for (const int local : {0, end / 2, end}) ranks.insert(shape.rank_at(server, local));
    }
  }
  return {ranks.begin(), ranks.end()};
}

uint64_t count(const std::vector<bool>& ranks) {
  return static_cast<uint64_t>(std::count(ranks.begin(), ranks.end(), true));
}

void add(std::vector<bool>& all, const std::vector<bool>& more) {
  for (size_t i = 0; i < all.size(); ++i) all[i] = all[i] || more[i];
}

/// What one rank has to do in all calls of the job.
struct RankLoad {
  Rank rank = -1;
  NetworkLoad network;
  shm::LocalLoad local;
  uint64_t programs = 0;  ///< bytes of those that are kept
  uint64_t building = 0;  ///< the same while one is written, with what that takes
  uint64_t scratch = 0;   ///< bytes, of the call that takes most
  MemoryItems call;       ///< of the call that takes most

  uint64_t call_bytes() const {
    uint64_t bytes = scratch;
    for (const MemoryItem& item : call) bytes += item.bytes;
    return bytes;
  }
};

RankLoad load_of(const Shape& shape, Rank me, const std::vector<PlannedCall>& calls) {
  const int server = shape.server_of(me);
  RankLoad load;
  load.rank = me;
  Partners all(shape.ranks());
  ProgramCache programs(PlanSources::kProgramBytes);
  for (const PlannedCall& call : calls) {
    const ProgramPtr program = programs.find(*call.algorithm, shape, me, call.options);
    load.building = std::max<uint64_t>(
        load.building, programs.bytes() + ProgramBuilder::bytes_beside(*program, shape));
    const auto bytes = static_cast<uint64_t>(call.bytes);
    // Where ranks may run ahead, one call in some is not eager.
    std::vector<Partners> ways{partners_of(*program, shape, bytes, call.eager)};
    if (call.eager && is_one_way(call.collective))
      ways.push_back(partners_of(*program, shape, bytes, false));
    RankLoad one;
    one.scratch = program->scratch.size() * cut_slot_bytes(bytes, program->cut);
    for (const Partners& way : ways) {
      one.call = call_memory(way.call);
      if (one.call_bytes() > load.call_bytes()) {
        load.call = one.call;
        load.scratch = one.scratch;
      }
      add(all.connected, way.connected);
      add(all.mailed, way.mailed);
      add(all.local, way.local);
      all.longest_mail = std::max(all.longest_mail, way.longest_mail);
      all.longest_local = std::max(all.longest_local, way.longest_local);
      all.gates = all.gates || way.gates;
      load.local.local_mails = std::max(load.local.local_mails, way.call.exposures);
    }
  }
  load.network = {.ranks = static_cast<uint64_t>(shape.ranks()),
                  .outside = static_cast<uint64_t>(shape.ranks() - shape.server_size(server)),
                  .connections = count(all.connected),
                  .mailed = count(all.mailed),
                  .longest_mail = all.longest_mail};
  load.local.ranks = static_cast<size_t>(shape.server_size(server));
  load.local.partners = count(all.local);
  load.local.longest = all.longest_local;
  load.local.gates = all.gates;
  load.programs = programs.bytes();
  return load;
}

/// What a part comes to, and how JSON calls that.
struct PartSum {
  MemoryPart part;
  const char* member;
  const char* name;
};
constexpr PartSum kParts[] = {
    {MemoryPart::kQueuePairs, "queue_pair_bytes", "queue pairs"},
    {MemoryPart::kMails, "mail_bytes", "mails"},
    {MemoryPart::kReceives, "receive_bytes", "receives"},
    {MemoryPart::kTables, "table_bytes", "tables"},
    {MemoryPart::kPrograms, "program_bytes", "programs"},
    {MemoryPart::kCalls, "call_bytes", "calls"},
    {MemoryPart::kShared, "shared_bytes", "shared memory"},
};

class JobMemory {
 public:
  JobMemory(const JobQuestion& question, Shape shape)
      : question_(question), shape_(std::move(shape)) {}

  Status reckon() {
    IBCOLL_TRY(plan_calls());
    for (const Rank rank : ranks_to_look_at(shape_)) {
      RankLoad load = load_of(shape_, rank, calls_);
      if (load_.rank < 0 || load.network.connections > load_.network.connections ||
          (load.network.connections == load_.network.connections &&
           load.programs + load.call_bytes() > load_.programs + load_.call_bytes()))
        load_ = std::move(load);
    }
    return collect();
  }

  nlohmann::ordered_json json() const {
    nlohmann::ordered_json line = {{"kind", "job_memory"},
                                   {"layout", shape_.describe()},
                                   {"ranks", shape_.ranks()},
                                   {"servers", shape_.servers()},
                                   {"transport", transport()},
                                   {"connections", "ranks"},
                                   {"rank", load_.rank},
                                   {"queue_pairs", network_.queue_pairs},
                                   {"machine_queue_pairs", machine_queue_pairs()},
                                   {"device_queue_pairs", network_.device_queue_pairs}};
    for (const PartSum& part : kParts) line[part.member] = bytes_of(part.part);
    line["build_bytes"] = load_.building;
    line["start_bytes"] = start_;
    line["start_root_bytes"] = start_root_;
    line["total_bytes"] = total();
    line["reserved_bytes"] = reserved();
    line["calls"] = nlohmann::ordered_json::array();
    for (const PlannedCall& call : calls_)
      line["calls"].push_back({{"collective", to_string(call.collective)},
                               {"bytes", call.bytes},
                               {"algorithm", call.algorithm->name},
                               {"pacing", to_string(call.options.pacing)},
                               {"eager", call.eager}});
    line["parts"] = nlohmann::ordered_json::array();
    for (const MemoryItem& item : items_)
      line["parts"].push_back({{"part", part_of(item).member},
                               {"what", item.what},
                               {"bytes", item.bytes},
                               {"reserved_bytes", item.reserved}});
    line["tables"] = nlohmann::ordered_json::array();
    for (const MemoryItem& item : items_)
      if (item.each_rank > 0)
        line["tables"].push_back({{"what", item.what},
                                  {"bytes", item.bytes},
                                  {"bytes_per_rank", item.each_rank},
                                  {"why", item.why}});
    return line;
  }

  std::string text() const {
    std::string text =
        fmt::format("Job of {} ranks on {} servers ({}), {} between servers\n", shape_.ranks(),
                    shape_.servers(), shape_.describe(), transport());
    for (const PlannedCall& call : calls_)
      text += fmt::format("  {} of {} bytes: {}{}\n", to_string(call.collective),
                          format_size(call.bytes), call.algorithm->name,
                          call.eager ? ", data at once" : "");
    text += fmt::format("  rank {} has most to do: {} connections to ranks of other servers\n\n",
                        load_.rank, load_.network.connections);
    Table parts({"A rank's memory", "", "touched", "reserved on top"});
    for (const PartSum& part : kParts) {
      bool first = true;
      for (const MemoryItem& item : items_) {
        if (item.part != part.part) continue;
        parts.add_row({first ? part.name : "", std::string(item.what), size_text(item.bytes),
                       item.reserved == 0 ? "" : size_text(item.reserved)});
        first = false;
      }
    }
    parts.add_row({"before", "for the start and to build programs, as far as it is not used again",
                   size_text(left_from_before())});
    parts.add_row({"total", "", size_text(total()), size_text(reserved())});
    text += parts.text() + "\n";
    Table tables({"Grows with the job", "bytes a rank", "of one rank", "why"});
    for (const MemoryItem& item : items_)
      if (item.each_rank > 0)
        tables.add_row({std::string(item.what), fmt::format("{:.4g}", item.each_rank),
                        size_text(item.bytes), std::string(item.why)});
    text += tables.text() + "\n";
    if (network_.queue_pairs < load_.network.connections)
      text += fmt::format("The rank has at most {} of its {} connections at a time.\n",
                          network_.queue_pairs, load_.network.connections);
    return text + fmt::format(
                      "While the job starts, each rank holds {}; rank 0 of a job that a launcher "
                      "has started holds {} more. While programs are built, a rank holds {}.\n",
                      size_text(start_), size_text(start_root_), size_text(load_.building));
  }

 private:
  std::string transport() const { return shape_.servers() > 1 ? question_.transport : "none"; }
  /// Emulated servers are on one machine.
  int on_machine() const {
    return kind_->on_one_machine ? shape_.ranks()
                                 : shape_.server_size(shape_.server_of(load_.rank));
  }

  uint64_t machine_queue_pairs() const {
    return (network_.queue_pairs + network_.other_queue_pairs) *
           static_cast<uint64_t>(on_machine());
  }

  Status plan_calls() {
    int64_t eager_bytes = 0;
    bool costs_cores = false;
    uint32_t connections = 0;
    const Result<const NetworkKind*> kind = find_network(question_.transport);
    if (!kind) return fail(ErrorCode::kInvalidArgument, "--transport: {}", kind.error().message);
    kind_ = *kind;
    if (shape_.servers() > 1) {
      costs_cores = kind_->costs_cores;
      IBCOLL_ASSIGN(const int64_t wanted, config_size("IBCOLL_EAGER"));
      eager_bytes =
          std::min(wanted, longest_eager(NetworkTransport::kMaxMailBytes - sizeof(MailHeader),
                                         static_cast<size_t>(shape_.ranks())));
      IBCOLL_ASSIGN(connections, max_connections());
    }
    for (const std::string_view text : split(question_.calls, ',')) {
      IBCOLL_ASSIGN(PlannedCall call, parse_call(text));
      IBCOLL_TRY(plan_call(shape_, costs_cores, eager_bytes, connections, call));
      calls_.push_back(std::move(call));
    }
    if (calls_.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "--calls '': at least one call, such as alltoall:64K");
    return {};
  }

  int machines() const { return kind_->on_one_machine ? 1 : shape_.servers(); }

  /// Before it is known what there is to do.
  Result<uint32_t> max_connections() const {
    NetworkLoad load{.ranks = static_cast<uint64_t>(shape_.ranks()),
                     .machines = static_cast<uint64_t>(machines()),
                     .outside = static_cast<uint64_t>(shape_.ranks() - shape_.max_server_size())};
    IBCOLL_ASSIGN(load.max_connections, config_integer("IBCOLL_MAX_CONNECTIONS"));
    const Result<NetworkMemory> memory = network_memory(question_.transport, load);
    if (!memory)
      return fail(ErrorCode::kInvalidArgument, "--transport: {}", memory.error().message);
    return memory->max_connections;
  }

  Status collect() {
    const JobSize size{.ranks = shape_.ranks(), .machines = machines(), .ranks_here = on_machine()};
    load_.network.machines = static_cast<uint64_t>(size.machines);
    IBCOLL_ASSIGN(load_.network.max_connections, config_integer("IBCOLL_MAX_CONNECTIONS"));
    if (shape_.servers() > 1) {
      Result<NetworkMemory> network = network_memory(question_.transport, load_.network);
      if (!network)
        return fail(ErrorCode::kInvalidArgument, "--transport: {}", network.error().message);
      network_ = std::move(*network);
    }
    const StartRecords records{.first = JobStart::record_bytes(),
                               .regions = OpenedJob::kRegions,
                               .of_transport = network_.start_told};
    std::set<Collective> collectives;
    for (const PlannedCall& call : calls_) collectives.insert(call.collective);
    for (const MemoryItems& more : {network_.items, shm::Transport::memory(load_.local), load_.call,
                                    context_memory(shape_, static_cast<int>(collectives.size())),
                                    bootstrap_memory(size, records)})
      items_.insert(items_.end(), more.begin(), more.end());
    items_.push_back(
        {.part = MemoryPart::kPrograms, .what = "programs of the calls", .bytes = load_.programs});
    items_.push_back(
        {.part = MemoryPart::kCalls, .what = "scratch of programs", .bytes = load_.scratch});
    start_ = start_bytes(size, records, network_.start_bytes);
    start_root_ = start_root_bytes(size, records);
    return {};
  }

  static const PartSum& part_of(const MemoryItem& item) {
    return *std::find_if(std::begin(kParts), std::end(kParts),
                         [&](const PartSum& part) { return part.part == item.part; });
  }
  uint64_t bytes_of(MemoryPart part) const {
    uint64_t bytes = 0;
    for (const MemoryItem& item : items_)
      if (item.part == part) bytes += item.bytes;
    return bytes;
  }
  uint64_t reserved() const {
    uint64_t bytes = 0;
    for (const MemoryItem& item : items_) bytes += item.reserved;
    return bytes;
  }
  /// What the start has taken is there for programs and calls afterwards, and what it has taken to
  /// build programs for calls.
  uint64_t left_from_before() const {
    const uint64_t before = std::max(start_, load_.building);
    const uint64_t later = bytes_of(MemoryPart::kPrograms) + bytes_of(MemoryPart::kCalls);
    return before - std::min(before, later);
  }
  uint64_t total() const {
    uint64_t bytes = left_from_before();
    for (const MemoryItem& item : items_) bytes += item.bytes;
    return bytes;
  }

  const JobQuestion& question_;
  const Shape shape_;
  const NetworkKind* kind_ = nullptr;  ///< of the transport that the question names
  std::vector<PlannedCall> calls_;
  RankLoad load_;
  NetworkMemory network_;
  MemoryItems items_;
  uint64_t start_ = 0, start_root_ = 0;
};

}  // namespace

Status report_job(const JobQuestion& question, JsonLines& json) {
  if (question.connections == "servers")
    return fail(ErrorCode::kInvalidArgument,
                "--connections servers: there are no such connections yet; ranks have a queue pair "
                "for each rank that they exchange data with (ranks)");
  if (question.connections != "auto" && question.connections != "ranks")
    return fail(ErrorCode::kInvalidArgument, "--connections '{}': one of auto, ranks",
                question.connections);
  IBCOLL_ASSIGN(const Placement placement, parse_placement(question.placement));
  IBCOLL_ASSIGN(Shape shape, parse_layout(question.layout, placement));
  JobMemory memory(question, std::move(shape));
  IBCOLL_TRY(memory.reckon());
  json.write(memory.json());
  if (!json.to_stdout()) print("{}", memory.text());
  return {};
}

}  // namespace ibcoll
