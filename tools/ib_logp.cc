/// ib_logp: the LogP parameters of message passing between two ranks of this machine.

#include <fmt/format.h>

#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/task_graph/run/jobs.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::task_graph;

struct Options {
  std::string transport = "shm", sizes = "8,64,512,4K,32K", json;
  int rounds = 1000;
  bool threads = false;
};

Status measure(const Options& o) {
  constexpr int64_t kMaxBytes = 1 << 20;
  IBCOLL_ASSIGN(const ChannelKind channel, parse_channel_kind(o.transport));
  IBCOLL_ASSIGN(const auto sizes, parse_sizes(o.sizes));
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
    IBCOLL_ASSIGN(const MeasuredLogP m, run_logp({.channel = channel,
                                                  .threads = o.threads,
                                                  .results = static_cast<int>(size / 8),
                                                  .rounds = o.rounds}));
    table.add_row({std::to_string(size), fmt::format("{:.0f}", m.send_overhead_ns),
                   fmt::format("{:.0f}", m.receive_overhead_ns),
                   fmt::format("{:.0f}", m.latency_ns), fmt::format("{:.0f}", m.round_trip_ns)});
    json.write({{"transport", o.transport},
                {"bytes", size},
                {"send_overhead_ns", m.send_overhead_ns},
                {"receive_overhead_ns", m.receive_overhead_ns},
                {"latency_ns", m.latency_ns},
                {"round_trip_ns", m.round_trip_ns}});
  }
  if (!json.to_stdout()) print("{}", table.text());
  return json.close();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures LogP (send overhead os, receive overhead or, latency L) of two ranks");
  Options o;
  app.add_option("--transport", o.transport, "shm, loopback or verbs");
  app.add_option("--sizes", o.sizes, "message sizes in bytes, multiples of 8");
  app.add_option("--rounds", o.rounds, "messages each way a size");
  app.add_flag("--threads", o.threads, "ranks are threads, not processes");
  tools::add_json_option(app, o.json);
  app.footer(
      "Overheads include packing and unpacking the message, as in a run of ib_taskgraph.\n"
      "Examples:\n  ib_logp --transport shm\n  ib_logp --transport verbs --sizes 8,1K,16K --json "
      "-");
  return tools::run_tool(app, argc, argv, [&] { return measure(o); });
}
