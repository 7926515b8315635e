// What a rank learns of peers that nothing comes from.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/launched.h"
#include "ucx/lifelines.h"

namespace ibcoll::ucx {
namespace {

using State = Lifelines::State;

constexpr int64_t kSecond = 1'000'000'000;

/// This process's end of lines to rank 1, which is another one's place here.
class UcxLifelines : public ::testing::Test {
 protected:
  void SetUp() override {
    auto peer = Lifelines::open(kSecond, {"lo"});
    auto own = Lifelines::open(kSecond, {"lo"});
    ASSERT_TRUE(peer) << peer.error().message;
    ASSERT_TRUE(own) << own.error().message;
    peer_ = std::move(*peer);
    own_ = std::move(*own);
  }
  void start(const LifelinePlace& place) { own_->start({own_->place(), place}, {0, 0}, 0); }
  /// What the first look that tells something tells, when looked for every millisecond.
  State answer(int64_t now_ns) {
    State state = State::kUnknown;
    wait_until([&] {
      state = own_->look(1, now_ns);
      now_ns += kSecond / 1000;
      return state != State::kUnknown;
    });
    return state;
  }

  std::unique_ptr<Lifelines> peer_, own_;
};

TEST_F(UcxLifelines, APeerThatTakesNoLineIsGone) {
  const LifelinePlace place = peer_->place();
  peer_.reset();
  start(place);
  EXPECT_EQ(answer(10 * kSecond), State::kGone);
}

/// Such an address is of no machine.
TEST_F(UcxLifelines, AMachineThatNeverAnswersIsSilent) {
  LifelinePlace place = peer_->place();
  place.addresses = {};
  std::string("240.0.0.1").copy(place.addresses[0].data(), place.addresses[0].size() - 1);
  start(place);
  EXPECT_EQ(own_->look(1, 10 * kSecond), State::kUnknown);
  EXPECT_EQ(own_->look(1, 12 * kSecond), State::kSilent);
}

/// Interfaces come in any order, and some lead nowhere (240.0.0.1 is of no machine).
TEST_F(UcxLifelines, OneAddressThatAnswersIsEnough) {
  LifelinePlace place = peer_->place();
  place.addresses[1] = place.addresses[0];
  place.addresses[0] = {};
  std::string("240.0.0.1").copy(place.addresses[0].data(), place.addresses[0].size() - 1);
  start(place);
  EXPECT_EQ(answer(10 * kSecond), State::kThere);
}

TEST_F(UcxLifelines, WhoWasHeardMeanwhileHasBeenSilentFromThenOn) {
  LifelinePlace place = peer_->place();
  place.addresses = {};
  std::string("240.0.0.1").copy(place.addresses[0].data(), place.addresses[0].size() - 1);
  start(place);
  EXPECT_EQ(own_->look(1, 10 * kSecond), State::kUnknown);
  own_->heard(1);
  EXPECT_EQ(own_->look(1, 20 * kSecond), State::kUnknown);
  EXPECT_EQ(own_->look(1, 20 * kSecond + kSecond / 2), State::kUnknown);
  EXPECT_EQ(own_->look(1, 22 * kSecond), State::kSilent);
}

/// Nobody has asked it.
TEST_F(UcxLifelines, APeerIsNotSilentWhereThisHostLacksDescriptors) {
  start(peer_->place());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit none = limit;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const State first = own_->look(1, 10 * kSecond), later = own_->look(1, 20 * kSecond);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(first, State::kUnknown);
  EXPECT_EQ(later, State::kUnknown);
  EXPECT_EQ(answer(20 * kSecond), State::kThere);
}

}  // namespace
}  // namespace ibcoll::ucx
