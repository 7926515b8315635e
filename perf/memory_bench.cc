/// memory_bench: how much memory a rank of a running job takes, by number of ranks: its share of
/// the engine's resident pages after the start, after one small call and after one large call.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/algorithms/imported.h"
#include "engine/algorithms/registry.h"
#include "engine/base/json_lines.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/core/call.h"
#include "engine/core/context.h"
#include "engine/core/group.h"
#include "studies/measure/process_memory.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;

constexpr size_t kSmallBlock = 64, kLargeBlock = 64 * 1024;
constexpr int kMoments = 4;  ///< before the start, after it, after small calls, after a large one

struct Sample {
  int64_t bytes[kMoments];
};

/// The calls that are made.
struct Calls {
  std::string algorithm = "auto";
  int small = 1;
  bool large = true;
};

Status call_alltoall(Context& context, std::byte* send, std::byte* recv, size_t block_bytes,
                     const std::string& algorithm) {
  CallArguments arguments;
  arguments.collective = Collective::kAlltoall;
  arguments.options.algorithm = algorithm;
  arguments.send = send;
  arguments.recv = recv;
  arguments.block_bytes = block_bytes;
  Call call(context.world());
  IBCOLL_TRY(call.prepare(arguments));
  IBCOLL_TRY(call.start());
  return call.wait();
}

/// What one rank does; the user's own buffers are there from the beginning and do not count.
Status measure(Bootstrap& bootstrap, const ContextOptions& options, const Calls& calls,
               Sample& sample) {
  const size_t bytes =
      (calls.large ? kLargeBlock : kSmallBlock) * static_cast<size_t>(bootstrap.size());
  std::vector<std::byte> send(bytes, std::byte{1}), recv(bytes, std::byte{2});
  const auto look = [&](int moment) -> Status {
    IBCOLL_TRY(bootstrap.barrier());  // everybody has touched what is shared
    sample.bytes[moment] = proportional_bytes();
    return bootstrap.barrier();
  };
  IBCOLL_TRY(look(0));
  IBCOLL_ASSIGN(const std::unique_ptr<Context> context, Context::create(bootstrap, options));
  IBCOLL_TRY(look(1));
  const auto call = [&](size_t block_bytes) {
    return call_alltoall(*context, send.data(), recv.data(), block_bytes, calls.algorithm);
  };
  for (int i = 0; i < calls.small; ++i) IBCOLL_TRY(call(kSmallBlock));
  IBCOLL_TRY(look(2));
  if (calls.large) IBCOLL_TRY(call(kLargeBlock));
  IBCOLL_TRY(look(3));
  return context->close();
}

/// How much ranks have grown since the beginning.
struct Growth {
  Sample greatest{}, mean{};
};

Result<Growth> measure_job(int ranks, int servers, const Calls& calls) {
  LaunchOptions launch;
  launch.ranks = ranks;
  IBCOLL_ASSIGN(ContextOptions options, ContextOptions::from_environment(ranks));
  if (servers > 1) {
    IBCOLL_ASSIGN(Shape shape, Shape::from_layout(std::vector<int>(servers, ranks / servers),
                                                  Placement::kBlock));
    options.shape = std::move(shape);
  }
  int channel[2];
  if (pipe(channel) != 0) return fail_errno("can't make a pipe");
  const Result<int> status = launch_processes(launch, [&](Bootstrap& bootstrap) {
    Sample sample{};
    const Status done = measure(bootstrap, options, calls, sample);
    if (!done) {
      fmt::print(stderr, "memory_bench: {}\n", done.error().message);
      return 1;
    }
    return write(channel[1], &sample, sizeof sample) == sizeof sample ? 0 : 1;
  });
  close(channel[1]);
  Growth growth;
  Sample one{};
  while (read(channel[0], &one, sizeof one) == sizeof one) {
    for (int moment = 1; moment < kMoments; ++moment) {
      const int64_t bytes = one.bytes[moment] - one.bytes[0];
      growth.greatest.bytes[moment] = std::max(growth.greatest.bytes[moment], bytes);
      growth.mean.bytes[moment] += bytes;
    }
  }
  for (int64_t& bytes : growth.mean.bytes) bytes /= ranks;
  close(channel[0]);
  if (!status) return tl::unexpected(status.error());
  if (*status != 0) return fail(ErrorCode::kPeerFailed, "a job of {} ranks failed", ranks);
  return growth;
}

Status run(const std::vector<int>& ranks, int servers, const Calls& calls,
           const std::string& path) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(path));
  Table table(
      {"ranks", "servers", "after the start", "after 64 B", "mean after 64 B", "after 64K"});
  for (const int count : ranks) {
    IBCOLL_ASSIGN(const Growth growth, measure_job(count, servers, calls));
    const Sample &most = growth.greatest, &mean = growth.mean;
    table.add_row({std::to_string(count), std::to_string(servers), format_size(most.bytes[1]),
                   format_size(most.bytes[2]), format_size(mean.bytes[2]),
                   calls.large ? format_size(most.bytes[3]) : "-"});
    nlohmann::ordered_json line = {{"ranks", count},
                                   {"servers", servers},
                                   {"algorithm", calls.algorithm},
                                   {"start_bytes", most.bytes[1]},
                                   {"small_call_bytes", most.bytes[2]},
                                   {"mean_start_bytes", mean.bytes[1]},
                                   {"mean_small_call_bytes", mean.bytes[2]}};
    if (calls.large) line["large_call_bytes"] = most.bytes[3];
    json.write(line);
  }
  if (!json.to_stdout()) fmt::print("{}", table.text());
  return json.close();
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app("How much memory a rank of a running job takes");
  std::string ranks = "2,8,32", json;
  int servers = 1;
  Calls calls;
  bool small_only = false;
  app.option("--ranks", ranks, "numbers of ranks, one job each").with_default();
  app.option("--servers", servers, "emulated servers of equal size")
      .with_default()
      .between(1, 1'000);
  app.option("--algorithm", calls.algorithm, "of the calls").with_default();
  app.option("--calls", calls.small, "how many of 64 bytes").with_default().between(1, 1'000'000);
  app.flag("--small-only", small_only,
           "leave the call of 64K out, whose buffers are large where there are many ranks");
  app.option("--json", json, "one object a job into this file, - for standard output");
  app.footer(
      "Examples:\n"
      "  memory_bench --ranks 8,32,128 --servers 4\n"
      "  memory_bench --ranks 128 --servers 16 --algorithm aggregate --calls 300 --small-only");
  return tools::run_tool(app, argc, argv, [&]() -> Status {
    calls.large = !small_only;
    IBCOLL_TRY(add_imported_of_environment());
    if (calls.algorithm != "auto")
      IBCOLL_TRY(find_algorithm(Collective::kAlltoall, calls.algorithm));
    std::vector<int> counts;
    for (const std::string_view part : split(ranks, ',')) {
      IBCOLL_ASSIGN(const int64_t count, parse_integer(part, 1, 1024, "the number of ranks"));
      if (count % servers != 0) {
        return fail(ErrorCode::kInvalidArgument, "{} ranks can't be spread evenly over {} servers",
                    count, servers);
      }
      counts.push_back(static_cast<int>(count));
    }
    return run(counts, servers, calls, json);
  });
}
