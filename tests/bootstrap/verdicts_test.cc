// What the ranks of a job decide together.

#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

#include "engine/bootstrap/verdicts.h"

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

constexpr auto kHere = Verdicts::Given::kHere;
constexpr auto kElsewhere = Verdicts::Given::kElsewhere;

TEST_F(VerdictsOfTwo, TheFirstProposalCounts) {
  Verdicts one(memory(), 2), other(memory(), 2);
  EXPECT_EQ(one.settle({7, 3}, kHere).value(), 3);
  EXPECT_EQ(other.settle({7, -1}, kHere).value(), 3);
  EXPECT_EQ(other.settle({8, -1}, kHere).value(), -1);
  EXPECT_EQ(one.settle({8, 5}, kHere).value(), -1);
}

TEST_F(VerdictsOfTwo, AreAskedAnewOnceTheyAreForgotten) {
  Verdicts verdicts(memory(), 2);
  EXPECT_EQ(verdicts.settle({7, 3}, kHere).value(), 3);
  verdicts.forget(7, kHere);
  EXPECT_EQ(verdicts.settle({7, 4}, kHere).value(), 4);
}

TEST_F(VerdictsOfTwo, ThereIsRoomAgainForWhatIsForgotten) {
  Verdicts verdicts(memory(), 2);
  uint64_t last = 1;
  while (verdicts.settle({last, 0}, kHere)) ++last;
  EXPECT_GT(last, 64u);
  EXPECT_EQ(verdicts.settle({last, 0}, kHere).error().code, ErrorCode::kNoMemory);
  EXPECT_EQ(verdicts.settle({5, 1}, kHere).value(), 0) << "what is there is found all the same";
  verdicts.forget(5, kHere);
  EXPECT_EQ(verdicts.settle({last, 9}, kHere).value(), 9);
}

TEST_F(VerdictsOfTwo, IsFoundOnceThereIsOne) {
  Verdicts one(memory(), 2), other(memory(), 2);
  EXPECT_EQ(other.find(7), std::nullopt);
  EXPECT_EQ(one.settle({7, 3}, kHere).value(), 3);
  EXPECT_EQ(other.find(7), 3);
  one.forget(7, kHere);
  EXPECT_EQ(other.find(7), std::nullopt);
}

TEST_F(VerdictsOfTwo, AreOutUntilTheyComeFromElsewhere) {
  Verdicts one(memory(), 2), other(memory(), 2);
  EXPECT_EQ(one.settle({7, 3}, kElsewhere).value(), std::nullopt);
  EXPECT_EQ(other.settle({7, 5}, kElsewhere).value(), std::nullopt);
  EXPECT_EQ(one.find(7), std::nullopt);
  const std::vector<Verdict> questions = other.take_questions();
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(questions[0].question, 7u);
  EXPECT_EQ(questions[0].answer, 3) << "who asks first on this machine";
  EXPECT_TRUE(other.take_questions().empty()) << "it has been passed on";
  EXPECT_EQ(one.settle({7, 9}, kHere).value(), 9) << "as it is given to all";
  EXPECT_EQ(other.find(7), 9);
  EXPECT_EQ(one.settle({7, 3}, kElsewhere).value(), 9);
  ASSERT_EQ(one.given().size(), 1u);
  EXPECT_EQ(one.given()[0].answer, 9);
}

TEST_F(VerdictsOfTwo, AreAskedOfSomebodyElse) {
  Verdicts verdicts(memory(), 2);
  EXPECT_EQ(verdicts.settle({7, 3}, kElsewhere).value(), std::nullopt);
  EXPECT_EQ(verdicts.settle({8, 4}, kElsewhere).value(), std::nullopt);
  EXPECT_EQ(verdicts.take_questions().size(), 2u);
  EXPECT_EQ(verdicts.settle({8, 4}, kHere).value(), 4);
  verdicts.ask_again();
  const std::vector<Verdict> questions = verdicts.take_questions();
  ASSERT_EQ(questions.size(), 1u) << "the other one has been answered";
  EXPECT_EQ(questions[0].question, 7u);
}

TEST_F(VerdictsOfTwo, AreForgottenElsewhereToo) {
  Verdicts verdicts(memory(), 2);
  EXPECT_EQ(verdicts.settle({7, 3}, kHere).value(), 3);
  verdicts.forget(7, kElsewhere);
  EXPECT_EQ(verdicts.find(7), std::nullopt);
  EXPECT_EQ(verdicts.take_forgotten(), std::vector<uint64_t>{7});
  EXPECT_TRUE(verdicts.take_forgotten().empty());
  EXPECT_EQ(verdicts.settle({7, 4}, kHere).value(), 4) << "its place is free";
}

TEST_F(VerdictsOfTwo, AllThreadsGetTheSame) {
  constexpr uint64_t kQuestions = 3000;  // far more than there is room for
  std::vector<int64_t> verdicts[2];
  std::barrier all(2);
  const auto body = [&](int64_t me) {
    Verdicts mine(memory(), 2);
    for (uint64_t question = 1; question <= kQuestions; ++question) {
      all.arrive_and_wait();
      verdicts[me].push_back(mine.settle({question, me}, kHere).value().value());
      all.arrive_and_wait();
      if (static_cast<int64_t>(question % 2) == me) mine.forget(question, kHere);
    }
  };
  std::thread other(body, 1);
  body(0);
  other.join();
  EXPECT_EQ(verdicts[0], verdicts[1]);
}

}  // namespace
}  // namespace ibcoll
