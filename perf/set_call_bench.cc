/// set_call_bench: what a call on a set of ranks costs, beside the same call on a group that is
/// there: whole calls of two ranks, and what a rank of a large job does until its call can start.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/table.h"
#include "engine/bootstrap/launch.h"
#include "engine/core/call.h"
#include "engine/core/context.h"
#include "engine/core/group.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;

/// What is compared; a round measures all of them in turn.
constexpr int kGroup = 0, kFirst = 1, kAgain = 2, kKinds = 3;
using Samples = std::array<std::vector<double>, kKinds>;

std::vector<std::string> header(const std::string& first) {
  return {first, "group ns", "first ns", "again ns", "first/again", "first/group"};
}

std::vector<std::string> row(const std::string& name, const Samples& samples) {
  std::array<double, kKinds> ns;
  for (int kind = 0; kind < kKinds; ++kind) ns[kind] = median(samples[kind]);
  return {name,
          fmt::format("{:.0f}", ns[kGroup]),
          fmt::format("{:.0f}", ns[kFirst]),
          fmt::format("{:.0f}", ns[kAgain]),
          fmt::format("{:.2f}", ns[kFirst] / ns[kAgain]),
          fmt::format("{:.2f}", ns[kFirst] / ns[kGroup])};
}

/// An allgather of eight bytes a rank.
struct Exchange {
  std::vector<int64_t> send = {1}, recv;
  CallArguments arguments;

  explicit Exchange(int ranks) : recv(static_cast<size_t>(ranks)) {
    arguments.collective = Collective::kAllgather;
    arguments.send = send.data();
    arguments.recv = recv.data();
    arguments.block_bytes = sizeof(int64_t);
  }
};

/// With a Call of its own, as each call on a set has one; `whole`: to its end.
Status call_on(Group& group, const CallArguments& arguments, bool whole) {
  Call call(group);
  IBCOLL_TRY(call.prepare(arguments));
  if (!whole) return {};
  IBCOLL_TRY(call.start());
  return call.wait();
}

/// Calls of both ranks. A set of two ranks that calls for the first time is one with a new tag.
Status measure_whole(Context& context, int rounds, Samples& samples) {
  constexpr int kCalls = 200;
  Exchange exchange(context.size());
  std::vector<Rank> members(static_cast<size_t>(context.size()));
  std::iota(members.begin(), members.end(), 0);
  uint64_t next_tag = 1;
  for (int round = 0; round < rounds + 1; ++round) {
    for (int kind = 0; kind < kKinds; ++kind) {
      IBCOLL_TRY(call_on(context.world(), exchange.arguments, true));
      const int64_t begin = now_ns();
      for (int i = 0; i < kCalls; ++i) {
        if (kind == kGroup) {
          IBCOLL_TRY(call_on(context.world(), exchange.arguments, true));
          continue;
        }
        IBCOLL_ASSIGN(const std::shared_ptr<Group> group,
                      context.groups().of_call(members, kind == kAgain ? 0 : next_tag++));
        IBCOLL_TRY(call_on(*group, exchange.arguments, true));
      }
      const double ns = static_cast<double>(now_ns() - begin) / kCalls;
      if (round > 0) samples[kind].push_back(ns);
    }
  }
  return {};
}

/// So many of the job's ranks, of which this one is one.
std::vector<Rank> some_members(std::mt19937& random, const Context& context, int size) {
  std::vector<Rank> all(static_cast<size_t>(context.size()));
  std::iota(all.begin(), all.end(), 0);
  std::swap(all[0], all[static_cast<size_t>(context.rank())]);
  std::shuffle(all.begin() + 1, all.end(), random);
  all.resize(static_cast<size_t>(size));
  std::sort(all.begin(), all.end());
  return all;
}

/// Of calls on sets of `size` ranks, up to their start: nothing is sent. Each set is drawn anew, so
/// that the call is the first one in all; the next one on the same set and tag is the one again.
Status measure_start(Context& context, int size, int rounds, Samples& samples) {
  constexpr int kSets = 100;
  Exchange exchange(context.size());
  std::mt19937 random(1);
  for (int round = 0; round < rounds + 1; ++round) {
    std::vector<std::vector<Rank>> sets;
    for (int i = 0; i < kSets; ++i) sets.push_back(some_members(random, context, size));
    std::vector<std::shared_ptr<Group>> groups;
    for (const int kind : {kFirst, kAgain, kGroup}) {
      for (int i = 0; i < kSets && kind == kGroup; ++i) {
        IBCOLL_ASSIGN(std::shared_ptr<Group> group, context.groups().create(sets[i]));
        IBCOLL_TRY(call_on(*group, exchange.arguments, false));
        groups.push_back(std::move(group));
      }
      const int64_t begin = now_ns();
      for (int i = 0; i < kSets; ++i) {
        if (kind == kGroup) {
          IBCOLL_TRY(call_on(*groups[i], exchange.arguments, false));
          continue;
        }
        IBCOLL_ASSIGN(const std::shared_ptr<Group> group, context.groups().of_call(sets[i], 7));
        IBCOLL_TRY(call_on(*group, exchange.arguments, false));
      }
      const double ns = static_cast<double>(now_ns() - begin) / kSets;
      if (round > 0) samples[kind].push_back(ns);
    }
  }
  return {};
}

/// Rank `printer` prints what `measure` has put into the table.
template <class Measure>
RankMain main_of(ContextOptions options, const char* first_column, Rank printer, Measure measure) {
  return [=](Bootstrap& bootstrap) {
    Status done;
    auto context = Context::create(bootstrap, options);
    if (!context) {
      done = tl::unexpected<Error>(context.error());
    } else {
      Table table(header(first_column));
      done = measure(**context, table);
      if (done) done = bootstrap.barrier();
      if (done && bootstrap.rank() == printer) {
        fmt::print("{}\n", table.text());
        std::fflush(stdout);
      }
      if (done) done = (*context)->close();
    }
    if (!done && bootstrap.rank() == printer)
      fmt::print(stderr, "set_call_bench: {}\n", done.error().message);
    return done ? 0 : 1;
  };
}

/// Whole calls, between processes; the ranks in one server or in two.
Result<int> run_whole(int servers, int rounds) {
  ContextOptions options;
  options.shape = *Shape::from_layout(std::vector<int>(servers, 2 / servers), Placement::kBlock);
  options.transport = "loopback";
  LaunchOptions launch;
  launch.ranks = 2;
  const std::string name = fmt::format("2 ranks, servers: {}", servers);
  return launch_processes(
      launch, main_of(options, "whole call", 0, [=](Context& context, Table& table) -> Status {
        Samples samples;
        IBCOLL_TRY(measure_whole(context, rounds, samples));
        table.add_row(row(name, samples));
        return {};
      }));
}

/// Calls up to their start, on a rank in the middle of a job of 64 servers of 8 ranks.
Result<int> run_start(int rounds) {
  constexpr int kServers = 64, kOnEach = 8, kRanks = kServers * kOnEach;
  ContextOptions options;
  options.shape = *Shape::from_layout(std::vector<int>(kServers, kOnEach), Placement::kBlock);
  options.transport = "loopback";
  options.heap_bytes = size_t{1} << 20;
  constexpr Rank kMeasuring = kRanks / 2;
  return launch_threads(
      kRanks,
      main_of(options, "members of 512", kMeasuring, [=](Context& context, Table& table) -> Status {
        if (context.rank() != kMeasuring) return {};
        for (const int size : {2, 8, 64, 512}) {
          Samples samples;
          IBCOLL_TRY(measure_start(context, size, rounds, samples));
          table.add_row(row(std::to_string(size), samples));
        }
        return {};
      }));
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "What a call on a set of ranks costs, beside one on a group that is there");
  int rounds = 51;
  app.option("--rounds", rounds, "medians are over so many").with_default().between(1, 100'000);
  app.footer("Example: set_call_bench --rounds 11");
  return tools::run_tool_to_status(app, argc, argv, [&]() -> Result<int> {
    for (const int servers : {1, 2}) {
      IBCOLL_ASSIGN(const int status, run_whole(servers, rounds));
      if (status != 0) return status;
    }
    return run_start(rounds);
  });
}
