// What costs look like as text, where jobs keep them, and what measuring them gives.

#include "engine/costs/machine_costs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/costs/measure_costs.h"
#include "engine/costs/server_costs.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

MachineCosts some_costs() {
  MachineCosts costs;
  PairCosts pair;
  pair.round_trip = 120.5;
  pair.write = {150, 1400, 9500};
  pair.read = {200, 550, 1800};
  pair.stream_write = {100, 300, 1500};
  pair.stream_read = {700, 2250, 6260};
  pair.vm_call = 1400;
  pair.vm_page = 380;
  costs.pair(Distance::kNear) = pair;
  pair.round_trip = 500;
  costs.pair(Distance::kFar) = pair;
  costs.copy = {70, 350, 1440};
  costs.spread = 0.1;
  return costs;
}

cpu_set_t own_processors() {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  sched_getaffinity(0, sizeof processors, &processors);
  return processors;
}

TEST(MachineCosts, ATextSaysThemAll) {
  const std::string text = costs_text(some_costs());
  const Result<MachineCosts> parsed = parse_costs(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(costs_text(*parsed), text);
  EXPECT_EQ(parsed->pair(Distance::kNear)->round_trip, 120.5);
  EXPECT_EQ(parsed->pair(Distance::kFar)->round_trip, 500);
  EXPECT_FALSE(parsed->pair(Distance::kSiblings));
  EXPECT_EQ(parsed->copy, some_costs().copy);
}

TEST(MachineCosts, WhatIsWrongWithATextIsNamed) {
  const std::string text = costs_text(some_costs());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    const Result<MachineCosts> parsed = parse_costs(changed);
    return parsed ? "none" : parsed.error().message;
  };
  EXPECT_THAT(with("\"round_trip_ns\":120.5", "\"round_trip_ns\":-1"),
              HasSubstr("line 1: 'round_trip_ns' is no time from 0 on"));
  EXPECT_THAT(with("\"round_trip_ns\":120.5,", ""), HasSubstr("'round_trip_ns' is missing"));
  EXPECT_THAT(with("\"round_trip_ns\"", "\"other\""), HasSubstr("is missing"));
  EXPECT_THAT(with("[150.0,1400.0,9500.0]", "[150.0,1400.0]"),
              HasSubstr("'write_ns' is no array of 3 times"));
  EXPECT_THAT(with("[150.0,1400.0,9500.0]", "[0,1400.0,9500]"), HasSubstr("in no time"));
  EXPECT_THAT(with("[4096,16384,65536]", "[4096,16384]"), HasSubstr("'bytes' is not [4096,"));
  EXPECT_THAT(with("\"near\"", "\"nearby\""), HasSubstr("'distance' is 'nearby'"));
  EXPECT_THAT(with("\"distance\"", "\"surplus\":1,\"distance\""), HasSubstr("'surplus'"));
  EXPECT_THAT(with("pair_costs", "costs"), HasSubstr("'kind' is 'costs'"));
  EXPECT_THAT(parse_costs("").error().message, HasSubstr("no line is about the machine"));
  EXPECT_THAT(parse_costs("{").error().message, HasSubstr("line 1"));
}

TEST(MachineCosts, MeasuredOnesAreThoseOfAMachine) {
  const Result<std::vector<CorePair>> pairs = core_pairs(own_processors());
  ASSERT_TRUE(pairs) << pairs.error().message;
  if (pairs->empty()) GTEST_SKIP() << "one processor only";
  const Result<MachineCosts> costs =
      measure_costs(*pairs, {.samples = 5, .all = true, .limit_ns = 60'000'000'000});
  ASSERT_TRUE(costs) << costs.error().message;
  for (const CorePair& pair : *pairs) {
    const PairCosts& between = *costs->pair(pair.distance);
    EXPECT_GT(between.round_trip, 1);
    for (size_t i = 0; i < kCopyBytes.size(); ++i) {
      // Faster than 1000 GB/s none is.
      const double least = static_cast<double>(kCopyBytes[i]) / 1000;
      for (const CopyTimes* times :
           {&between.write, &between.read, &between.stream_write, &between.stream_read})
        EXPECT_GT((*times)[i], least);
    }
  }
  EXPECT_TRUE(parse_costs(costs_text(*costs)));
  // The thread that has asked runs where it did.
  const cpu_set_t before = own_processors(), after = own_processors();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(MachineCosts, WhatTakesTooLongIsGivenUp) {
  const Result<std::vector<CorePair>> pairs = core_pairs(own_processors());
  ASSERT_TRUE(pairs);
  if (pairs->empty()) GTEST_SKIP() << "one processor only";
  const Result<MachineCosts> costs =
      measure_costs(*pairs, {.samples = 1'000'000, .all = false, .limit_ns = 20'000'000});
  ASSERT_FALSE(costs);
  EXPECT_THAT(costs.error().message, HasSubstr("longer than 20 ms: the machine is busy"));
}

class KeptCosts : public ::testing::Test {
 protected:
  KeptCosts() { std::filesystem::create_directory(folder_); }
  ~KeptCosts() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = ::testing::TempDir() + "costs" + std::to_string(getpid());
  const std::string path_ = folder_ + "/ibcoll/costs.jsonl";
};

TEST_F(KeptCosts, WhatWasKeptIsFound) {
  EXPECT_FALSE(kept_costs(path_));
  keep_costs(path_, some_costs());
  const std::optional<MachineCosts> kept = kept_costs(path_);
  ASSERT_TRUE(kept);
  EXPECT_EQ(costs_text(*kept), costs_text(some_costs()));
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  // Nothing else is left there.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ + "/ibcoll"), {}), 1);
}

TEST_F(KeptCosts, FiguresOfABusyMachineAreNotKept) {
  MachineCosts costs = some_costs();
  costs.spread = 0.3;
  keep_costs(path_, costs);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(KeptCosts, OnlyAnOwnFreshFileCounts) {
  keep_costs(path_, some_costs());
  ASSERT_EQ(chmod(path_.c_str(), 0620), 0);
  EXPECT_FALSE(kept_costs(path_)) << "others can write it";
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  const timespec times[] = {{time(nullptr) - 3700, 0}, {time(nullptr) - 3700, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_FALSE(kept_costs(path_)) << "it is old";
  keep_costs(path_, some_costs());
  EXPECT_TRUE(kept_costs(path_)) << "it is replaced";
  std::filesystem::create_symlink(path_, folder_ + "/link");
  EXPECT_FALSE(kept_costs(folder_ + "/link"));
  std::ofstream(path_) << "{";
  EXPECT_FALSE(kept_costs(path_)) << "it is not valid";
  if (geteuid() == 0) {
    keep_costs(path_, some_costs());
    ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
    EXPECT_FALSE(kept_costs(path_)) << "it is somebody else's";
  }
}

TEST_F(KeptCosts, EachPinningHasItsOwn) {
  setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  cpu_set_t one, two;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  two = one;
  CPU_SET(1, &two);
  EXPECT_NE(kept_costs_path(one), kept_costs_path(two));
  EXPECT_THAT(kept_costs_path(one), HasSubstr(folder_ + "/ibcoll/costs-"));
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", folder_.c_str(), 1);
  EXPECT_THAT(kept_costs_path(one), HasSubstr(folder_ + "/.cache/ibcoll/costs-"));
  keep_costs(kept_costs_path(one), some_costs());
  EXPECT_TRUE(kept_costs(kept_costs_path(one)));
  setenv("HOME", (folder_ + "/nobody").c_str(), 1);
  keep_costs(kept_costs_path(one), some_costs());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/nobody")) << "a user without a home gets none";
  unsetenv("HOME");
  EXPECT_EQ(kept_costs_path(one), "");
  keep_costs("", some_costs());
}

TEST_F(KeptCosts, AFileOfTheUsersMustBeRight) {
  const cpu_set_t processors = own_processors();
  EXPECT_FALSE(*server_costs(kCostsOff, processors));
  const std::string file = folder_ + "/costs.jsonl";
  EXPECT_THAT(server_costs(file, processors).error().message, HasSubstr(file));
  std::ofstream(file) << "{}\n";
  EXPECT_THAT(server_costs(file, processors).error().message, HasSubstr(file + ": line 1: "));
  std::ofstream(file) << costs_text(some_costs());
  const auto costs = server_costs(file, processors);
  ASSERT_TRUE(costs && *costs);
  EXPECT_THAT((*costs)->round_trip, ::testing::AnyOf(120.5, 500.0));
}

}  // namespace
}  // namespace ibcoll
