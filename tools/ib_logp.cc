/// ib_logp: the LogP parameters of message passing between two ranks of this machine, and, with
/// --calls, what messages cost as calls of the engine.

#include <fmt/format.h>

#include <optional>

#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "studies/task_graph/run/real_runs.h"
#include "tools/frame/frame.h"
#include "tools/ib_logp/calls.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::task_graph;

struct Options {
  std::optional<std::string> transport, sizes;
  std::string json;
  int rounds = 1000;
  bool threads = false, calls = false;
  std::optional<int64_t> ranks, servers;
};

Status measure(const Options& o) {
  constexpr int64_t kMaxBytes = 1 << 20;
  const std::string transport = o.transport.value_or("shm");
  IBCOLL_TRY(parse_channel(transport));
  IBCOLL_ASSIGN(const auto sizes, parse_sizes(o.sizes.value_or("8,64,512,4K,32K")));
  if (o.rounds < 10 || o.rounds > 100'000)
    return fail(ErrorCode::kInvalidArgument, "--rounds {}: must be 10 to 100000", o.rounds);
  for (const int64_t size : sizes) {
    if (size < 8 || size > kMaxBytes || size % 8 != 0)
      return fail(ErrorCode::kInvalidArgument,
                  "message size {}: must be a multiple of 8, 8 to {} bytes", size, kMaxBytes);
    if (size * o.rounds > int64_t{1} << 30)
      return fail(ErrorCode::kInvalidArgument,
                  "{} rounds of {} bytes: at most 1 GiB in all (every message has a place of its "
                  "own)",
                  o.rounds, size);
  }
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(o.json));
  Table table({"bytes", "os ns", "or ns", "L ns", "round trip ns"});
  for (const int64_t size : sizes) {
    IBCOLL_ASSIGN(const MeasuredLogP m, run_logp({.channel = transport,
                                                  .threads = o.threads,
                                                  .results = static_cast<int>(size / 8),
                                                  .rounds = o.rounds}));
    table.add_row({std::to_string(size), fmt::format("{:.0f}", m.send_overhead_ns),
                   fmt::format("{:.0f}", m.receive_overhead_ns),
                   fmt::format("{:.0f}", m.latency_ns), fmt::format("{:.0f}", m.round_trip_ns)});
    json.write({{"transport", transport},
                {"bytes", size},
                {"send_overhead_ns", m.send_overhead_ns},
                {"receive_overhead_ns", m.receive_overhead_ns},
                {"latency_ns", m.latency_ns},
                {"round_trip_ns", m.round_trip_ns}});
  }
  if (!json.to_stdout()) print("{}", table.text());
  return json.close();
}

Result<int> run(const Options& o) {
  if (o.calls) {
    if (o.threads)
      return fail(ErrorCode::kInvalidArgument, "--threads: the ranks of --calls are processes");
    return tools::run_calls({.ranks = o.ranks,
                             .servers = o.servers,
                             .transport = o.transport.value_or(""),
                             .sizes = o.sizes.value_or(""),
                             .json = o.json,
                             .rounds = o.rounds});
  }
  if (o.ranks || o.servers)
    return fail(ErrorCode::kInvalidArgument, "--ranks and --servers are for --calls");
  IBCOLL_TRY(measure(o));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "Measures LogP parameters (send overhead os, receive overhead or, latency L) of two ranks");
  Options o;
  app.option("--transport", o.transport,
             fmt::format("Transport, one of {} (default: shm); with --calls, the transport between "
                         "servers (default: IBCOLL_TRANSPORT)",
                         fmt::join(channel_names(), ", ")));
  app.option("--sizes", o.sizes,
             "Message sizes in bytes: multiples of 8 up to 1M (default 8,64,512,4K,32K); with "
             "--calls, any sizes up to 64M (default 8,512,4K,32K,256K,1M)");
  app.option("--rounds", o.rounds,
             "Number of messages each way, for each size (10 to 100000, default 1000)");
  app.flag("--threads", o.threads, "Use threads as ranks instead of processes");
  app.flag("--calls", o.calls,
           "Measure what messages cost as calls of the engine, inside a server and between two "
           "servers, with 99th percentiles and maxima; --json writes the file for IBCOLL_LOGP");
  app.option("--ranks", o.ranks,
             "With --calls: number of processes to start (default 4; under mpirun and the like: as "
             "many as it has started)");
  app.option("--servers", o.servers,
             "With --calls: number of emulated servers that the ranks are spread over (default: 2 "
             "if more than 2 processes are started here)");
  tools::add_json_option(app, o.json);
  app.footer(
      "Overheads include packing and unpacking the message, as in a run of ib_taskgraph.\n"
      "Columns with --calls: hop, the time from the beginning of the call that sends to the end\n"
      "of the call that receives; gap, the time between consecutive messages; wake, the time that\n"
      "is added if the receiver sleeps. All ranks exchange messages at the same time, in pairs:\n"
      "start as many ranks as will share the cores.\n"
      "Examples:\n  ib_logp --transport shm\n  ib_logp --transport verbs --sizes 8,1K,16K --json "
      "-\n  ib_logp --calls --ranks 4 --servers 2 --rounds 200 --json logp.json");
  return tools::run_tool_to_status(app, argc, argv, [&] { return run(o); });
}
