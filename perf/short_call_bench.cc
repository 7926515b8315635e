/// short_call_bench: what blocking calls of a few bytes take, each collective by itself: through
/// the C interface, with the same arguments again and again.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/json_lines.h"
#include "engine/base/stats.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "ibcoll/ibcoll.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;

struct Options {
  int ranks = 2;
  std::string collective = "all";
  std::string bytes = "8";
  int calls = 20'000;
  int rounds = 9;
  bool joined = false;
  std::string json;
};

/// Buffers for one collective.
struct Buffers {
  std::vector<double> send, recv;
};

struct Tried {
  const char* name;
  ibcoll_call (*describe)(Buffers& buffers, size_t bytes);
};

const std::vector<Tried>& collectives() {
  static const std::vector<Tried> all = {
      {"alltoall",
       [](Buffers& b, size_t bytes) {
         return ibcoll_call_alltoall(b.send.data(), b.recv.data(), bytes, nullptr);
       }},
      {"allgather",
       [](Buffers& b, size_t bytes) {
         return ibcoll_call_allgather(b.send.data(), b.recv.data(), bytes, nullptr);
       }},
      {"gather",
       [](Buffers& b, size_t bytes) {
         return ibcoll_call_gather(b.send.data(), b.recv.data(), bytes, 0, nullptr);
       }},
      {"scatter",
       [](Buffers& b, size_t bytes) {
         return ibcoll_call_scatter(b.send.data(), b.recv.data(), bytes, 0, nullptr);
       }},
      {"bcast", [](Buffers& b,
                   size_t bytes) { return ibcoll_call_bcast(b.send.data(), bytes, 0, nullptr); }},
      {"reduce",
       [](Buffers& b, size_t bytes) {
         return ibcoll_call_reduce(b.send.data(), b.recv.data(), bytes / sizeof(double),
                                   IBCOLL_DOUBLE, IBCOLL_SUM, 0, nullptr);
       }},
      {"allreduce",
       [](Buffers& b, size_t bytes) {
         return ibcoll_call_allreduce(b.send.data(), b.recv.data(), bytes / sizeof(double),
                                      IBCOLL_DOUBLE, IBCOLL_SUM, nullptr);
       }},
      {"barrier", [](Buffers&, size_t) { return ibcoll_call_barrier(nullptr); }},
  };
  return all;
}

struct Job {
  const Options& options;
  size_t bytes;
  JsonLines& json;
};

/// Nanoseconds a call on this rank, of each round.
std::vector<double> measure(ibcoll_group* world, const Tried& one, const Job& job, bool& good) {
  Buffers buffers;
  const auto ranks = static_cast<size_t>(ibcoll_group_size(world));
  buffers.send.assign((job.bytes / sizeof(double) + 1) * ranks, 1);
  buffers.recv = buffers.send;
  const ibcoll_call call = one.describe(buffers, job.bytes);
  const ibcoll_call meet = ibcoll_call_barrier(nullptr);
  std::vector<double> ns;
  for (int round = 0; round <= job.options.rounds && good; ++round) {
    good = ibcoll_group_call(world, &meet) == IBCOLL_OK;
    const int64_t begin = now_ns();
    for (int i = 0; i < job.options.calls && good; ++i)
      good = ibcoll_group_call(world, &call) == IBCOLL_OK;
    // The first one is for caches.
    if (round > 0) ns.push_back(static_cast<double>(now_ns() - begin) / job.options.calls);
  }
  return ns;
}

int run_rank(ibcoll_context* context, void* data) {
  const Job& job = *static_cast<Job*>(data);
  ibcoll_group* const world = ibcoll_world(context);
  Table table({"collective", "ns", "least", "greatest"});
  bool good = true;
  for (const Tried& one : collectives()) {
    if (job.options.collective != "all" && job.options.collective != one.name) continue;
    std::vector<double> ns = measure(world, one, job, good);
    if (!good) {
      tools::complain(ibcoll_last_error());
      return 1;
    }
    if (ibcoll_rank(context) != 0) continue;
    const auto [least, greatest] = std::minmax_element(ns.begin(), ns.end());
    table.add_row({one.name, fmt::format("{:.0f}", median(ns)), fmt::format("{:.0f}", *least),
                   fmt::format("{:.0f}", *greatest)});
    job.json.write({{"collective", one.name},
                    {"ranks", ibcoll_size(context)},
                    {"bytes", job.bytes},
                    {"calls", job.options.calls},
                    {"rounds", job.options.rounds},
                    {"median_ns", median(ns)},
                    {"min_ns", *least},
                    {"max_ns", *greatest}});
  }
  if (ibcoll_rank(context) != 0) return 0;
  if (!job.json.to_stdout()) fmt::print("{}", table.text());
  std::fflush(stdout);
  return job.json.close() ? 0 : 1;
}

Status check_collective(const std::string& name) {
  std::string names = "all";
  for (const Tried& one : collectives()) {
    if (name == one.name) return {};
    names += fmt::format(", {}", one.name);
  }
  if (name == "all") return {};
  return fail(ErrorCode::kInvalidArgument, "unknown collective '{}': one of {}", name, names);
}

/// As a rank of a job that is there.
Status run_joined(const Options& options, size_t bytes) {
  ibcoll_context* context = nullptr;
  if (ibcoll_init(&context) != IBCOLL_OK)
    return fail(ErrorCode::kSystem, "{}", ibcoll_last_error());
  // The others would empty the file.
  Result<JsonLines> json = JsonLines::open(ibcoll_rank(context) == 0 ? options.json : "");
  int result = 1;
  if (json) {
    Job job{options, bytes, *json};
    result = run_rank(context, &job);
  } else {
    ibcoll_abort(context, json.error().message.c_str());
  }
  const ibcoll_status left = ibcoll_finalize(context);
  if (!json) return tl::unexpected<Error>(json.error());
  if (left != IBCOLL_OK || result != 0)
    return fail(ErrorCode::kPeerFailed, "the job failed: {}", ibcoll_last_error());
  return {};
}

Status run(const Options& options) {
  IBCOLL_TRY(check_collective(options.collective));
  IBCOLL_ASSIGN(const int64_t bytes, parse_size(options.bytes));
  if (bytes % static_cast<int64_t>(sizeof(double)) != 0)
    return fail(ErrorCode::kInvalidArgument, "--bytes {}: not a multiple of {}", options.bytes,
                sizeof(double));
  if (options.joined) return run_joined(options, static_cast<size_t>(bytes));
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(options.json));
  Job job{options, static_cast<size_t>(bytes), json};
  ibcoll_launch_options launch = IBCOLL_LAUNCH_OPTIONS_INIT;
  launch.ranks = options.ranks;
  launch.bind = 1;
  int status = 0;
  if (ibcoll_launch(&launch, run_rank, &job, &status) != IBCOLL_OK)
    return fail(ErrorCode::kInvalidArgument, "{}", ibcoll_last_error());
  if (status != 0) return fail(ErrorCode::kPeerFailed, "the job ended with status {}", status);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app("What blocking calls of a few bytes take on one server");
  Options options;
  app.option("--ranks", options.ranks).with_default().between(1, 1024);
  app.option("--collective", options.collective, "all, alltoall, bcast, barrier, ...")
      .with_default();
  app.option("--bytes", options.bytes, "of a block: a multiple of 8").with_default();
  app.option("--calls", options.calls, "of a round, one after the other")
      .with_default()
      .between(1, 100'000'000);
  app.option("--rounds", options.rounds, "medians are shown").with_default().between(1, 1'000'000);
  app.flag("--joined", options.joined,
           "be a rank of the job that a launcher (mpiexec, srun) has started");
  app.option("--json", options.json,
             "one object a collective into this file, - for standard output");
  app.footer(
      "Examples:\n  short_call_bench --ranks 2\n"
      "  short_call_bench --collective allreduce --bytes 64 --json -");
  return tools::run_tool(app, argc, argv, [&] { return run(options); });
}
