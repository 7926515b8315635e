/// memory_bench: how much memory a rank of a running job takes, by number of ranks: its share of
/// the engine's resident pages after the start, after one small call and after one large call.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/json_lines.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/core/call.h"
#include "engine/core/context.h"
#include "engine/core/group.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;

constexpr size_t kSmallBlock = 64, kLargeBlock = 64 * 1024;
constexpr int kMoments = 4;  ///< before the start, after it, after a small call, after a large one

struct Sample {
  int64_t bytes[kMoments];
};

/// This process's proportional share of its resident pages: pages that n processes map count as a
/// n-th in each.
int64_t proportional_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  int64_t kilobytes = -1;
  while (file >> word) {
    if (word == "Pss:" && file >> kilobytes) break;
  }
  return kilobytes < 0 ? -1 : kilobytes * 1024;
}

Status call_alltoall(Context& context, std::byte* send, std::byte* recv, size_t block_bytes) {
  CallArguments arguments;
  arguments.collective = Collective::kAlltoall;
  arguments.send = send;
  arguments.recv = recv;
  arguments.block_bytes = block_bytes;
  Call call(context.world());
  IBCOLL_TRY(call.prepare(arguments));
  IBCOLL_TRY(call.start());
  return call.wait();
}

/// What one rank does; the user's own buffers are there from the beginning and do not count.
Status measure(Bootstrap& bootstrap, const ContextOptions& options, Sample& sample) {
  const size_t bytes = kLargeBlock * static_cast<size_t>(bootstrap.size());
  std::vector<std::byte> send(bytes, std::byte{1}), recv(bytes, std::byte{2});
  const auto look = [&](int moment) -> Status {
    IBCOLL_TRY(bootstrap.barrier());  // everybody has touched what is shared
    sample.bytes[moment] = proportional_bytes();
    return bootstrap.barrier();
  };
  IBCOLL_TRY(look(0));
  IBCOLL_ASSIGN(const std::unique_ptr<Context> context, Context::create(bootstrap, options));
  IBCOLL_TRY(look(1));
  IBCOLL_TRY(call_alltoall(*context, send.data(), recv.data(), kSmallBlock));
  IBCOLL_TRY(look(2));
  IBCOLL_TRY(call_alltoall(*context, send.data(), recv.data(), kLargeBlock));
  IBCOLL_TRY(look(3));
  return context->close();
}

/// The largest growth of any rank since the beginning.
Result<Sample> measure_job(int ranks, int servers) {
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
    const Status done = measure(bootstrap, options, sample);
    if (!done) {
      fmt::print(stderr, "memory_bench: {}\n", done.error().message);
      return 1;
    }
    return write(channel[1], &sample, sizeof sample) == sizeof sample ? 0 : 1;
  });
  close(channel[1]);
  Sample greatest{}, one{};
  while (read(channel[0], &one, sizeof one) == sizeof one) {
    for (int moment = 1; moment < kMoments; ++moment) {
      greatest.bytes[moment] = std::max(greatest.bytes[moment], one.bytes[moment] - one.bytes[0]);
    }
  }
  close(channel[0]);
  if (!status) return tl::unexpected(status.error());
  if (*status != 0) return fail(ErrorCode::kPeerFailed, "a job of {} ranks failed", ranks);
  return greatest;
}

Status run(const std::vector<int>& ranks, int servers, const std::string& path) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(path));
  Table table({"ranks", "servers", "after the start", "after 64 B", "after 64K"});
  for (const int count : ranks) {
    IBCOLL_ASSIGN(const Sample sample, measure_job(count, servers));
    table.add_row({std::to_string(count), std::to_string(servers), format_size(sample.bytes[1]),
                   format_size(sample.bytes[2]), format_size(sample.bytes[3])});
    json.write({{"ranks", count},
                {"servers", servers},
                {"start_bytes", sample.bytes[1]},
                {"small_call_bytes", sample.bytes[2]},
                {"large_call_bytes", sample.bytes[3]}});
  }
  if (!json.to_stdout()) fmt::print("{}", table.text());
  return json.close();
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app("How much memory a rank of a running job takes");
  std::string ranks = "2,8,32", json;
  int servers = 1;
  app.option("--ranks", ranks, "numbers of ranks, one job each").with_default();
  app.option("--servers", servers, "emulated servers of equal size")
      .with_default()
      .between(1, 1'000);
  app.option("--json", json, "one object a job into this file, - for standard output");
  app.footer("Example: memory_bench --ranks 8,32,128 --servers 4");
  return tools::run_tool(app, argc, argv, [&]() -> Status {
    std::vector<int> counts;
    for (const std::string_view part : split(ranks, ',')) {
      IBCOLL_ASSIGN(const int64_t count, parse_integer(part, 1, 1024, "the number of ranks"));
      if (count % servers != 0) {
        return fail(ErrorCode::kInvalidArgument, "{} ranks can't be spread evenly over {} servers",
                    count, servers);
      }
      counts.push_back(static_cast<int>(count));
    }
    return run(counts, servers, json);
  });
}
