// How often the clock is read between rounds of any length.

#include "engine/execute/clock_pace.h"

#include <gtest/gtest.h>

#include <vector>

namespace ibcoll {
namespace {

/// When the clock is read in so many rounds of that length, counted in rounds.
std::vector<int> reads(int first, int rounds, int64_t round_ns) {
  std::vector<int> read;
  ClockPace pace(first);
  for (int round = 1; round <= rounds; ++round) {
    if (!pace.is_due()) continue;
    pace.read(round * round_ns);
    read.push_back(round);
  }
  return read;
}

TEST(ClockPace, ReadsItFirstAfterAsManyRoundsAsItIsTold) {
  EXPECT_EQ(reads(8, 100, 10).front(), 8);
  EXPECT_EQ(reads(1, 100, 10).front(), 1);
}

TEST(ClockPace, ReadsItInEachRoundThatIsLong) {
  EXPECT_EQ(reads(1, 100, 2 * ClockPace::kAimNs).size(), 100u);
}

TEST(ClockPace, ReadsItSeldomWhereRoundsAreShort) {
  constexpr int kRounds = 100 * ClockPace::kMost;
  const std::vector<int> read = reads(8, kRounds, 10);
  EXPECT_LE(read.size(), 110u);
  for (size_t i = 1; i < read.size(); ++i) EXPECT_LE(read[i] - read[i - 1], ClockPace::kMost);
}

TEST(ClockPace, NeverWaitsMuchLongerThanItAimsAt) {
  constexpr int64_t kRoundNs = ClockPace::kAimNs / 50;
  const std::vector<int> read = reads(1, 10'000, kRoundNs);
  for (size_t i = 1; i < read.size(); ++i)
    EXPECT_LE((read[i] - read[i - 1]) * kRoundNs, 2 * ClockPace::kAimNs);
  EXPECT_LT(read.size(), 10'000u / 4);
}

}  // namespace
}  // namespace ibcoll
