// What ranks of a machine decide together.

#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

#include "engine/core/verdicts.h"

namespace ibcoll {
namespace {

/// Memory as ranks share it.
class VerdictsOfTwo : public ::testing::Test {
 protected:
  VerdictsOfTwo() { Verdicts::prepare(memory()); }
  std::byte* memory() { return reinterpret_cast<std::byte*>(lines_.data()); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_ = std::vector<Line>(Verdicts::bytes(2) / sizeof(Line));
};

TEST_F(VerdictsOfTwo, TheFirstProposalCounts) {
  Verdicts one(memory(), 2), other(memory(), 2);
  EXPECT_EQ(one.settle(7, 3), 3);
  EXPECT_EQ(other.settle(7, -1), 3);
  EXPECT_EQ(other.settle(8, -1), -1);
  EXPECT_EQ(one.settle(8, 5), -1);
}

TEST_F(VerdictsOfTwo, AreAskedAnewOnceTheyAreForgotten) {
  Verdicts verdicts(memory(), 2);
  EXPECT_EQ(verdicts.settle(7, 3), 3);
  verdicts.forget(7);
  EXPECT_EQ(verdicts.settle(7, 4), 4);
}

TEST_F(VerdictsOfTwo, ThereIsRoomAgainForWhatIsForgotten) {
  Verdicts verdicts(memory(), 2);
  uint64_t last = 1;
  while (verdicts.settle(last, 0)) ++last;
  EXPECT_GT(last, 64u);
  EXPECT_EQ(verdicts.settle(last, 0).error().code, ErrorCode::kNoMemory);
  EXPECT_EQ(verdicts.settle(5, 1), 0) << "what is there is found all the same";
  verdicts.forget(5);
  EXPECT_EQ(verdicts.settle(last, 9), 9);
}

TEST_F(VerdictsOfTwo, IsFoundOnceThereIsOne) {
  Verdicts one(memory(), 2), other(memory(), 2);
  EXPECT_EQ(other.find(7), std::nullopt);
  EXPECT_EQ(one.settle(7, 3), 3);
  EXPECT_EQ(other.find(7), 3);
  one.forget(7);
  EXPECT_EQ(other.find(7), std::nullopt);
}

TEST_F(VerdictsOfTwo, AllThreadsGetTheSame) {
  constexpr uint64_t kQuestions = 3000;  // far more than there is room for
  std::vector<int64_t> verdicts[2];
  std::barrier all(2);
  const auto body = [&](int64_t me) {
    Verdicts mine(memory(), 2);
    for (uint64_t question = 1; question <= kQuestions; ++question) {
      all.arrive_and_wait();
      verdicts[me].push_back(mine.settle(question, me).value());
      all.arrive_and_wait();
      if (static_cast<int64_t>(question % 2) == me) mine.forget(question);
    }
  };
  std::thread other(body, 1);
  body(0);
  other.join();
  EXPECT_EQ(verdicts[0], verdicts[1]);
}

}  // namespace
}  // namespace ibcoll
