// What the ranks of a job tell each other first, and how often they meet while it starts: each time
// all of them wait for the last.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "engine/bootstrap/machine.h"
#include "engine/core/context.h"
#include "engine/core/job_start.h"
#include "tests/forwarding_bootstrap.h"
#include "tests/launched.h"

namespace ibcoll {
namespace {

class CountingBootstrap final : public ForwardingBootstrap {
 public:
  using ForwardingBootstrap::ForwardingBootstrap;
  Status allgather(const void* mine, size_t bytes, void* all) override {
    ++rounds_;
    bytes_ += bytes;
    return ForwardingBootstrap::allgather(mine, bytes, all);
  }
  Status allgather_of(std::span<const Rank> givers, const void* mine, size_t bytes,
                      void* all) override {
    ++rounds_;
    bytes_ += std::count(givers.begin(), givers.end(), rank()) > 0 ? bytes : 0;
    return ForwardingBootstrap::allgather_of(givers, mine, bytes, all);
  }
  Status barrier() override {
    ++rounds_;
    return ForwardingBootstrap::barrier();
  }
  size_t rounds() const { return rounds_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t rounds_ = 0, bytes_ = 0;
};

struct Most {
  size_t rounds, bytes;
};

void expect_at_most(const std::vector<int>& layout, const Most& most) {
  const Shape shape = Shape::from_layout(layout, Placement::kBlock).value();
  InSharedMemory<Most> met;
  const auto result = launch_processes(quiet(shape.ranks()), [&](Bootstrap& bootstrap) -> int {
    CountingBootstrap counting(bootstrap);
    ContextOptions options;
    options.shape = shape;
    const auto context = Context::create(counting, options);
    if (!context) return kWrong;
    if (bootstrap.rank() == 0) *met = {counting.rounds(), counting.bytes()};
    return (*context)->close() ? kGood : kWrong;
  });
  ASSERT_EQ(result.value(), kGood);
  EXPECT_LE(met->rounds, most.rounds);
  EXPECT_LE(met->bytes, most.bytes);
}

TEST(JobStart, RanksOfAServerMeetFiveTimes) { expect_at_most({6}, {5, 117}); }
TEST(JobStart, RanksOfAnEmulatedNetworkMeetNineTimes) { expect_at_most({3, 1, 2}, {9, 208}); }

/// A rank that runs on a machine of that number, by what it tells the others.
class PretendedMachine final : public ForwardingBootstrap {
 public:
  PretendedMachine(Bootstrap& job, int machine)
      : ForwardingBootstrap(job), pretended_(digest_of_value(machine)) {}
  Status allgather(const void* mine, size_t bytes, void* all) override {
    std::vector<char> told(static_cast<const char*>(mine), static_cast<const char*>(mine) + bytes);
    const MachineId real = this_machine();
    if (void* const name = memmem(told.data(), told.size(), &real, sizeof real))
      std::memcpy(name, &pretended_, sizeof pretended_);
    return ForwardingBootstrap::allgather(told.data(), bytes, all);
  }

 private:
  const MachineId pretended_;
};

TEST(JobStart, NumbersMachinesInTheOrderOfTheirLowestRanks) {
  const std::vector<int> pretended{7, 7, 3, 9, 3, 7}, numbers{0, 0, 1, 2, 1, 0}, firsts{0, 2, 3};
  const auto result = launch_threads(6, [&](Bootstrap& job) {
    PretendedMachine bootstrap(job, pretended[static_cast<size_t>(job.rank())]);
    const auto start = JobStart::exchange(bootstrap, {});
    if (!start || start->machines.numbers != numbers || start->machines.firsts != firsts)
      return kWrong;
    const auto places = exchange_places(bootstrap);
    if (!places || places->machines != numbers) return kWrong;
    std::vector<int> here, expected;
    for (const ProcessPlace& place : places->here) here.push_back(place.process.rank);
    for (int rank = 0; rank < 6; ++rank)
      if (pretended[rank] == pretended[job.rank()]) expected.push_back(rank);
    return here == expected ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), kGood);
}

/// What each rank says of settings that rank `odd` of three changes.
std::vector<std::string> told(const std::function<void(ContextOptions&)>& change, Rank odd) {
  std::vector<std::string> all(3);
  const auto result = launch_threads(3, [&](Bootstrap& bootstrap) {
    ContextOptions options;
    if (bootstrap.rank() == odd) change(options);
    const auto start = JobStart::exchange(bootstrap, options);
    const Status alike = start ? start->agreed_eager_bytes(5000).map([](int64_t) {})
                               : tl::unexpected<Error>(start.error());
    if (!alike) all[static_cast<size_t>(bootstrap.rank())] = alike.error().message;
    return 0;
  });
  EXPECT_EQ(result.value(), 0);
  return all;
}

std::vector<std::string> everybody(const std::string& text) { return {text, text, text}; }

TEST(JobStart, AllRanksOrNoneHaveAFabricProgramsAndRules) {
  EXPECT_EQ(told([](ContextOptions& options) { options.fabric.fabric = "single-switch:2"; }, 0),
            everybody("IBCOLL_FABRIC is set on rank 0, but not on rank 1: all ranks must have it"));
  EXPECT_EQ(
      told([](ContextOptions& options) { options.programs = "there"; }, 2),
      everybody("IBCOLL_PROGRAMS is set on rank 2, but not on rank 0: all ranks must have it"));
  EXPECT_EQ(told([](ContextOptions& options) { options.rules_file = "rules"; }, 1),
            everybody("IBCOLL_RULES is set on rank 1, but not on rank 0: all ranks must have it"));
}

TEST(JobStart, WhatGoesUnaskedIsAlikeAsFarAsItFitsAMail) {
  EXPECT_EQ(told([](ContextOptions& options) { options.eager_bytes = 100; }, 2),
            everybody("IBCOLL_EAGER is 5000 on rank 0, but 100 on rank 2: it must be the same on "
                      "all ranks"));
  EXPECT_EQ(told([](ContextOptions& options) { options.eager_bytes = 6000; }, 2), everybody(""));
}

TEST(JobStart, KeepsTheFirstRankOfEachNumberOfBytesThatGoUnasked) {
  const std::vector<int64_t> of_ranks{5000, 6000, 5000, 100, 6000, 200, 100};
  const auto result = launch_threads(7, [&](Bootstrap& bootstrap) {
    ContextOptions options;
    options.eager_bytes = of_ranks[static_cast<size_t>(bootstrap.rank())];
    const auto start = JobStart::exchange(bootstrap, options);
    if (!start || start->eager_bytes.size() != 4) return kWrong;
    const auto error = [&](int64_t longest) {
      const auto agreed = start->agreed_eager_bytes(longest);
      return agreed ? std::string() : agreed.error().message;
    };
    const std::string end = ": it must be the same on all ranks";
    const bool right = start->agreed_eager_bytes(100) == 100 &&
                       error(150) == "IBCOLL_EAGER is 150 on rank 0, but 100 on rank 3" + end &&
                       error(5000) == "IBCOLL_EAGER is 5000 on rank 0, but 100 on rank 3" + end &&
                       error(9000) == "IBCOLL_EAGER is 5000 on rank 0, but 6000 on rank 1" + end;
    return right ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), kGood);
}

}  // namespace
}  // namespace ibcoll
