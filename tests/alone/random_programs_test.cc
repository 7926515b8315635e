// Random programs of the whole interface on real processes, every byte checked against a model of
// the interface. TEST_PROGRAM_SEED=4711 runs the programs from that seed on, TEST_PROGRAMS=500 so
// many.

#include <gtest/gtest.h>

#include <ctime>
#include <list>
#include <thread>

#include "tests/api_job.h"
#include "tests/faults.h"
#include "tests/lockstep/algorithms.h"
#include "tests/lockstep/run.h"
#include "tests/named.h"

namespace ibcoll {
namespace {

using lockstep::Expectations;
using lockstep::Faults;
using lockstep::Operation;
using lockstep::Program;
using lockstep::ProgramOptions;
using testing::ApiRank;
using testing::launched;
using testing::number_from_environment;

/// A rank that is a process.
class ProcessRunner : public lockstep::Runner {
 public:
  /// `may_end`: the job is meant to end early.
  ProcessRunner(const ApiRank& rank, Expectations& expectations, bool may_end)
      : rank_(rank), expectations_(expectations), may_end_(may_end) {}
  ~ProcessRunner() override {
    for (void* const memory : memory_) std::free(memory);
  }
  ProcessRunner(const ProcessRunner&) = delete;
  ProcessRunner& operator=(const ProcessRunner&) = delete;

  void* memory(size_t bytes) override {
    memory_.push_back(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    return memory_.back();
  }
  void pause(int64_t ns) override { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }
  void look_again() override { std::this_thread::yield(); }
  Faults faults() override { return {}; }
  Expectations& expectations() override { return expectations_; }
  void finished(Operation, ibcoll_status) override { ++finished_; }
  void over(ibcoll_status status, const std::string& text) override {
    if (!may_end_)
      rank_.complain(fmt::format("the job is over, status {}: {}", static_cast<int>(status), text));
  }
  void unnoticed() override {}
  void violation(const std::string& text) override { rank_.complain(text); }
  uint64_t finished() const { return finished_; }

 private:
  const ApiRank& rank_;
  Expectations& expectations_;
  const bool may_end_;
  std::list<void*> memory_;
  uint64_t finished_ = 0;
};

struct Layout {
  friend void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

  const char* name;
  const char* layout;
  std::vector<int> servers;
};

/// Runs programs one after the other on the same job, until one is not as it should be.
std::string run_programs(const Layout& layout, ProgramOptions options, uint64_t first,
                         uint32_t programs) {
  int ranks = 0;
  for (const int here : layout.servers) ranks += here;
  options.layout = layout.servers;
  options.algorithms = lockstep::registered_algorithms();
  options.multicast_algorithms = lockstep::registered_multicast_algorithms();
  int status = 0;
  return launched(
      layout.layout, ranks,
      [&](const ApiRank& rank) {
        Expectations expectations;
        for (uint64_t seed = first; seed < first + programs; ++seed) {
          const Program program = lockstep::random_program(seed, options);
          ProcessRunner runner(rank, expectations, options.features.mismatch);
          lockstep::run_rank(rank.context, program, ibcoll_rank(rank.context), runner);
          if (rank.complaints.of(ibcoll_rank(rank.context)).empty()) continue;
          rank.complain(fmt::format("seed {}", seed));
          return;
        }
      },
      options.features.mismatch ? &status : nullptr);
}

/// The same where each needs a job of its own, as things end early in it.
std::string run_jobs(const Layout& layout, const ProgramOptions& options, uint64_t first,
                     uint32_t jobs) {
  for (uint64_t seed = first; seed < first + jobs; ++seed) {
    const std::string wrong = run_programs(layout, options, seed, 1);
    if (!wrong.empty()) return fmt::format("seed {}: {}", seed, wrong);
  }
  return {};
}

const Layout kLayouts[] = {
    {"OneServer", "4", {4}},
    {"TwoByTwo", "2,2", {2, 2}},
    {"Unequal", "2,1,3", {2, 1, 3}},
    {"OneEach", "1,1,1,1,1", {1, 1, 1, 1, 1}},
};

ProgramOptions with_ends() {
  ProgramOptions options;
  options.features.ends = true;
  return options;
}

ProgramOptions with_mismatch() {
  ProgramOptions options;
  options.features.mismatch = true;
  options.calls = 10;
  return options;
}

class RandomPrograms : public ::testing::TestWithParam<Layout> {
 protected:
  static uint64_t fixed() { return number_from_environment("TEST_PROGRAM_SEED", 1); }
  static uint64_t fresh() {
    return number_from_environment("TEST_PROGRAM_SEED",
                                   static_cast<uint32_t>(std::time(nullptr)) * 1000);
  }
  static uint32_t programs(uint32_t otherwise) {
    return number_from_environment("TEST_PROGRAMS", otherwise);
  }
};

TEST_P(RandomPrograms, GiveWhatTheInterfacePromises) {
  EXPECT_EQ(run_programs(GetParam(), {}, fixed(), programs(20)), "");
}
TEST_P(RandomPrograms, GoOnWhereGroupsEndEarly) {
  EXPECT_EQ(run_jobs(GetParam(), with_ends(), fixed(), programs(4)), "");
}
TEST_P(RandomPrograms, EndWithOneErrorWhereRanksDisagree) {
  EXPECT_EQ(run_jobs(GetParam(), with_mismatch(), fixed(), programs(2)), "");
}

class RandomProgramsFull : public RandomPrograms {};

TEST_P(RandomProgramsFull, GiveWhatTheInterfacePromisesWithFreshSeeds) {
  const uint64_t seed = fresh();
  EXPECT_EQ(run_programs(GetParam(), {}, seed, programs(1000)), "") << "from seed " << seed;
}
TEST_P(RandomProgramsFull, GoOnWhereGroupsEndEarlyWithFreshSeeds) {
  EXPECT_EQ(run_jobs(GetParam(), with_ends(), fresh(), programs(300)), "");
}
TEST_P(RandomProgramsFull, EndWithOneErrorWhereRanksDisagreeWithFreshSeeds) {
  EXPECT_EQ(run_jobs(GetParam(), with_mismatch(), fresh(), programs(100)), "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, RandomPrograms, ::testing::ValuesIn(kLayouts), testing::named);
INSTANTIATE_TEST_SUITE_P(Layouts, RandomProgramsFull, ::testing::ValuesIn(kLayouts),
                         testing::named);

}  // namespace
}  // namespace ibcoll
