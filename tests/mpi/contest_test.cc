// Who of the engine, by which algorithm, and the MPI carries calls out, on ranks that are fed
// times.

#include "integrations/mpi/contest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <vector>

namespace {

using namespace ibcoll::mpi;

/// Nanoseconds of a call on a rank.
using TimeOf = std::function<double(int rank, Candidate who)>;

/// All ranks of a communicator, which make calls of one kind.
class Ranks {
 public:
  explicit Ranks(int ranks, Contest first = Contest(), uint8_t candidates = 2,
                 FirstLooks first_looks = FirstLooks::kSpread)
      : ranks_(static_cast<size_t>(ranks), Rank{first, {}, true}),
        candidates_(candidates),
        first_looks_(first_looks) {}

  /// Who has made the next call, if all ranks said the same. `size_class`: that the last rank sees.
  Candidate call(const TimeOf& time, uint8_t size_class = 0) {
    ++calls_;
    looked_at_ = nullptr;
    std::vector<bool> passes(ranks_.size());
    for (size_t i = 0; i < ranks_.size(); ++i) passes[i] = ranks_[i].contest.passes();
    agreed_ = !passes[0] && contest().must_agree();
    if (agreed_) agree();
    for (size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      passes[i] = passes[i] || rank.contest.passes();
      const LookedAt* const call =
          passes[i] ? nullptr
                    : rank.contest.looked_at(look_of(i),
                                             i + 1 == ranks_.size() ? size_class : uint8_t{0});
      if (i == 0) looked_at_ = call;
      EXPECT_EQ(call, looked_at_) << "rank " << i << ", call " << calls_;
      EXPECT_EQ(rank.contest.kept(), contest().kept()) << "rank " << i << ", call " << calls_;
      if (call != nullptr && rank.has_memory)
        Contest::end(rank.look, *call,
                     static_cast<int64_t>(time(static_cast<int>(i), rank.contest.who(*call))));
    }
    return looked_at_ != nullptr ? contest().who(*looked_at_) : contest().kept();
  }
  /// Calls of a look and before it, until ranks have agreed on what came of it.
  int call_to_decision(const TimeOf& time) {
    const int before = calls_;
    do call(time);
    while (!agreed_ || looked_at_ != nullptr);
    return calls_ - before - 1;  // the one behind it
  }
  void has_no_memory(int rank) { ranks_[static_cast<size_t>(rank)].has_memory = false; }
  const Contest& contest(int rank = 0) const { return ranks_[static_cast<size_t>(rank)].contest; }
  const Look& look() const { return ranks_[0].look; }
  bool is_looked_at() const { return looked_at_ != nullptr; }
  bool begins_turn() const { return is_looked_at() && looked_at_->begins; }
  bool agreed() const { return agreed_; }

 private:
  struct Rank {
    Contest contest;
    Look look;
    bool has_memory = true;
  };
  Look* look_of(size_t rank) { return ranks_[rank].has_memory ? &ranks_[rank].look : nullptr; }
  void agree() {
    Times slowest = {};
    for (size_t i = 0; i < ranks_.size(); ++i) {
      EXPECT_TRUE(ranks_[i].contest.must_agree()) << "rank " << i << ", call " << calls_;
      const Times mine = ranks_[i].contest.proposed(look_of(i));
      for (size_t who = 0; who < kContenders; ++who)
        slowest[who] = std::max(slowest[who], mine[who]);
    }
    for (size_t i = 0; i < ranks_.size(); ++i)
      ranks_[i].contest.settle(look_of(i), slowest, candidates_, first_looks_);
  }

  std::vector<Rank> ranks_;
  uint8_t candidates_;
  FirstLooks first_looks_;
  int calls_ = 0;
  const LookedAt* looked_at_ = nullptr;  ///< the last call, if it was of a look
  bool agreed_ = false;                  ///< in the last call
};

/// The same on all ranks.
TimeOf times(double engine, double mpi) {
  return [=](int, Candidate who) { return who == Candidate::kEngine ? engine : mpi; };
}

/// The same of all that there may be: the engine, the MPI, the engine's other algorithms.
using TimesOfAll = std::array<double, kMostCandidates>;
TimeOf times(const TimesOfAll& all) {
  return [=](int, Candidate who) { return all[static_cast<size_t>(who)]; };
}

TEST(Contest, TheFirstCallsAreTheEngines) {
  Ranks ranks(2);
  for (uint32_t i = 0; i < Contest::kWarmUp; ++i) {
    EXPECT_EQ(ranks.call(times(100, 1)), Candidate::kEngine);
    EXPECT_FALSE(ranks.is_looked_at());
  }
  ranks.call(times(100, 1));
  EXPECT_TRUE(ranks.is_looked_at());
}

TEST(Contest, ALookIsOfDozensOfCallsByBothAlike) {
  Ranks ranks(3);
  int by_engine = 0, by_mpi = 0;
  for (uint32_t i = 0; i <= Contest::kWarmUp + kLook; ++i) {
    const Candidate who = ranks.call(times(1000, 900));
    if (ranks.is_looked_at()) ++(who == Candidate::kEngine ? by_engine : by_mpi);
  }
  EXPECT_EQ(by_engine, by_mpi);
  EXPECT_EQ(by_engine + by_mpi, kLook);
  EXPECT_LE(kLook, 48);
  EXPECT_TRUE(ranks.contest().is_decided());
}

TEST(Contest, TheFasterOneIsKept) {
  for (const auto& [engine, mpi, kept] : {std::tuple{1000.0, 900.0, Candidate::kMpi},
                                          {900.0, 1000.0, Candidate::kEngine},
                                          {1000.0, 100.0, Candidate::kMpi},
                                          {100.0, 1000.0, Candidate::kEngine}}) {
    Ranks ranks(2);
    ranks.call_to_decision(times(engine, mpi));
    EXPECT_EQ(ranks.contest().kept(), kept) << engine << " " << mpi;
    EXPECT_EQ(ranks.look().found[0], engine);
    EXPECT_EQ(ranks.look().found[1], mpi);
  }
}

TEST(Contest, WhoIsALittleFasterDoesNotTakeOver) {
  Ranks ranks(2);
  ranks.call_to_decision(times(1000, 980));
  EXPECT_EQ(ranks.contest().kept(), Candidate::kEngine);
  ranks.call_to_decision(times(1000, 900));
  EXPECT_EQ(ranks.contest().kept(), Candidate::kMpi);
  ranks.call_to_decision(times(980, 1000));
  EXPECT_EQ(ranks.contest().kept(), Candidate::kMpi);
}

TEST(Contest, TheSlowestRankCounts) {
  // A rank that sends and goes on has little to do, whoever carries it out.
  Ranks ranks(3);
  ranks.call_to_decision([](int rank, Candidate who) {
    if (rank != 1) return who == Candidate::kEngine ? 300.0 : 50.0;
    return who == Candidate::kEngine ? 1000.0 : 2000.0;
  });
  EXPECT_EQ(ranks.contest().kept(), Candidate::kEngine);
}

/// What the calls of a first look take, by their places in it.
Candidate kept_after(const std::function<double(const LookedAt&)>& time,
                     decltype(Look::found)* found = nullptr) {
  Ranks ranks(1);
  for (uint32_t i = 0; i < Contest::kWarmUp; ++i) ranks.call(times(1, 1));
  for (const LookedAt& at : kLookedAt) ranks.call([&](int, Candidate) { return time(at); });
  ranks.call(times(1, 1));
  EXPECT_TRUE(ranks.contest().is_decided());
  if (found != nullptr) *found = ranks.look().found;
  return ranks.contest().kept();
}

TEST(Contest, TheFirstCallOfATurnDoesNotCount) {
  decltype(Look::found) found = {};
  EXPECT_EQ(kept_after(
                [](const LookedAt& at) {
                  return at.who == Contender::kKept ? 1000.0 : at.begins ? 1e6 : 900.0;
                },
                &found),
            Candidate::kMpi);
  EXPECT_EQ(found[1], 900u);
}

TEST(Contest, InterruptionsDecideNothing) {
  // Of two turns of five, the first of them a short one.
  const auto is_odd = [](const LookedAt& at) { return at.sample == 1 || at.sample == 3; };
  EXPECT_EQ(kept_after([&](const LookedAt& at) {
              if (at.who == Contender::kKept) return 1000.0;
              return is_odd(at) ? 1e6 : 900.0;
            }),
            Candidate::kMpi);
  // Nor do turns in which all that was waited for was there already.
  EXPECT_EQ(kept_after([&](const LookedAt& at) {
              if (at.who == Contender::kKept) return 1000.0;
              return is_odd(at) ? 300.0 : 1100.0;
            }),
            Candidate::kEngine);
}

TEST(Contest, WhatIsMuchSlowerIsCalledFewTimes) {
  Ranks ranks(2);
  EXPECT_EQ(ranks.call_to_decision(times(1000, 5000000)), int{Contest::kWarmUp} + kShortLook);
  EXPECT_LE(kShortLook, 8);
  // To take over what is kept takes more than a few calls.
  Ranks others(2);
  EXPECT_EQ(others.call_to_decision(times(5000000, 1000)), int{Contest::kWarmUp} + kLook);
  EXPECT_EQ(others.contest().kept(), Candidate::kMpi);
}

TEST(Contest, AllRanksTakeTheSameTurnsWhateverTheyMeasure) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    Ranks ranks(4);
    const double engine = 100 + static_cast<double>(random() % 1000);
    int changes = 0;
    Candidate before = Candidate::kEngine;
    for (int i = 0; i < 100000; ++i) {
      ranks.call([&](int, Candidate who) {
        const double noise = static_cast<double>(random() % 1000);
        return noise + (who == Candidate::kEngine ? engine : 500.0);
      });
      changes += ranks.contest().kept() != before ? 1 : 0;
      before = ranks.contest().kept();
    }
    for (int rank = 1; rank < 4; ++rank)
      EXPECT_EQ(ranks.contest(rank).kept(), ranks.contest(0).kept());
    EXPECT_LT(changes, 20);
  }
}

TEST(Contest, WhatChangesIsSeen) {
  Ranks ranks(2);
  ranks.call_to_decision(times(1000, 1300));
  EXPECT_EQ(ranks.contest().kept(), Candidate::kEngine);
  // Something else runs on the machine now.
  int calls = 0;
  while (ranks.contest().kept() == Candidate::kEngine && calls < 100000)
    calls += ranks.call_to_decision(times(3000, 1300));
  EXPECT_EQ(ranks.contest().kept(), Candidate::kMpi);
  while (ranks.contest().kept() == Candidate::kMpi && calls < 100000)
    calls += ranks.call_to_decision(times(1000, 1300));
  EXPECT_EQ(ranks.contest().kept(), Candidate::kEngine);
}

TEST(Contest, LooksComeAtGrowingDistances) {
  Ranks ranks(2);
  std::vector<int> calls;
  for (int i = 0; i < 8; ++i) calls.push_back(ranks.call_to_decision(times(1000, 1100)));
  for (size_t i = 2; i < calls.size(); ++i) EXPECT_GT(calls[i], calls[i - 1]);
  // When another takes over that is looked at again as after the first time.
  ranks.call_to_decision(times(1000, 500));
  EXPECT_LT(ranks.call_to_decision(times(1000, 500)), calls.back());
}

TEST(Contest, EachOfSeveralIsTriedSoonAndTheFastestOneKept) {
  for (uint8_t candidates = 3; candidates <= kMostCandidates; ++candidates) {
    for (uint8_t fastest = 0; fastest < candidates; ++fastest) {
      SCOPED_TRACE(::testing::Message() << "number " << +fastest << " of " << +candidates);
      TimesOfAll all;
      for (size_t i = 0; i < all.size(); ++i) all[i] = 1000 + 100 * static_cast<double>(i);
      all[fastest] = 700;
      Ranks ranks(3, Contest(), candidates);
      int calls = 0;
      for (uint8_t rivals = candidates - 1; rivals > 0; --rivals)
        calls += ranks.call_to_decision(times(all));
      EXPECT_EQ(ranks.contest().kept(), static_cast<Candidate>(fastest));
      EXPECT_LT(calls, 700 * candidates);
      // All have been looked at, and no others.
      for (size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(ranks.look().found[i], i < candidates ? all[i] : 0) << i;
    }
  }
}

TEST(Contest, OneOfSeveralThatBecomesFasterIsSeen) {
  Ranks ranks(2, Contest(), kMostCandidates);
  TimesOfAll all = {1000, 1100, 1200, 1300, 1400};
  for (int i = 0; i < 4; ++i) ranks.call_to_decision(times(all));
  all[4] = 500;
  int looks = 0;
  while (ranks.contest().kept() == Candidate::kEngine && looks < 100) {
    ranks.call_to_decision(times(all));
    ++looks;
  }
  EXPECT_LE(looks, 4);
  EXPECT_EQ(ranks.contest().kept(), static_cast<Candidate>(4));
}

TEST(Contest, CallsWithoutOtherAlgorithmsGoToTheFasterOfTheTwo) {
  for (const double mpi : {500.0, 2000.0}) {
    Ranks ranks(2, Contest(), 3);
    for (int i = 0; i < 3; ++i) ranks.call_to_decision(times({1000, mpi, 300, 0, 0}));
    EXPECT_EQ(ranks.contest().kept(), Candidate::kFirstOther);
    EXPECT_EQ(ranks.contest().without_others(), mpi < 1000 ? Candidate::kMpi : Candidate::kEngine);
  }
  EXPECT_EQ(Contest(Candidate::kFirstOther, true).without_others(), Candidate::kMpi);
}

TEST(Contest, AllRanksTakeTheSameTurnsAmongSeveral) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20; ++round) {
    Ranks ranks(4, Contest(), static_cast<uint8_t>(3 + round % 3));
    for (int i = 0; i < 30000; ++i)
      ranks.call([&](int, Candidate) { return static_cast<double>(500 + random() % 1000); });
    for (int rank = 1; rank < 4; ++rank)
      EXPECT_EQ(ranks.contest(rank).kept(), ranks.contest(0).kept());
  }
}

/// What looks take of all time, once each rival has been looked at twice. A barrier and an
/// agreement take ranks as long as the shortest of the calls, to read the clock twice a tenth of
/// it.
double part_of_looks(const TimesOfAll& times_of, uint8_t candidates) {
  Ranks ranks(2, Contest(), candidates);
  const double shorter = *std::min_element(times_of.begin(), times_of.begin() + candidates);
  double all = 0, extra = 0;
  for (int i = 0; i < 2 * (candidates - 1); ++i) ranks.call_to_decision(times(times_of));
  for (int i = 0; i < 300000; ++i) {
    const double took = times_of[static_cast<size_t>(ranks.call(times(times_of)))];
    double more = took - shorter;
    if (ranks.is_looked_at()) more += shorter / 10;
    if (ranks.begins_turn()) more += shorter;
    if (ranks.agreed()) more += shorter;
    all += shorter + more;
    extra += more;
  }
  return extra / all;
}

TEST(Contest, LooksTakeLessThanAHundredthOfTheTime) {
  for (const auto& [engine, mpi] : {std::pair{1000.0, 1040.0},
                                    {1000.0, 1500.0},
                                    {1000.0, 3900.0},
                                    {1000.0, 4100.0},
                                    {1000.0, 1e6},
                                    {1e6, 1000.0},
                                    {1500.0, 1000.0},
                                    {4100.0, 1000.0}})
    EXPECT_LT(part_of_looks({engine, mpi}, 2), 0.01) << engine << " " << mpi;
  for (const TimesOfAll& all : {TimesOfAll{1000, 1040, 1100, 1500, 5000},
                                {4100, 1500, 1300, 1000, 1050},
                                {1000, 1e6, 1e6, 1e6, 1e6}})
    EXPECT_LT(part_of_looks(all, kMostCandidates), 0.01) << all[0] << " " << all[1];
}

TEST(Contest, FirstLooksFollowEachOtherAtOnceWhereCallsAreMadeForThem) {
  for (uint8_t candidates = kFewestCandidates; candidates <= kMostCandidates; ++candidates) {
    TimesOfAll all = {1000, 900, 800, 700, 600};
    Ranks ranks(2, Contest(), candidates, FirstLooks::kAtOnce);
    const uint32_t most = Contest::kWarmUp + kLook * (candidates - 1u) + 1;
    uint32_t calls = 0;
    for (; calls < most && !ranks.contest().rests(); ++calls) ranks.call(times(all));
    EXPECT_EQ(calls, most);
    EXPECT_TRUE(ranks.contest().rests());
    for (size_t i = 0; i < candidates; ++i) EXPECT_EQ(ranks.look().found[i], all[i]) << i;
    EXPECT_EQ(static_cast<int>(ranks.contest().kept()), candidates - 1);
    EXPECT_EQ(ranks.contest().calls(&ranks.look()), calls);
    // From then on as in a program.
    for (int i = 0; i < 10; ++i) ranks.call(times(all));
    EXPECT_FALSE(ranks.is_looked_at());
  }
}

TEST(Contest, ACallThatDoesNotEndOnARankIsSlow) {
  // As where an error handler does not come back.
  Contest contest;
  Look look;
  for (uint32_t i = 0; i < Contest::kWarmUp; ++i) ASSERT_TRUE(contest.passes());
  for (int i = 0; i < kLook; ++i) {
    if (contest.must_agree()) contest.settle(&look, {1000, 900});
    const LookedAt* const call = contest.looked_at(&look);
    ASSERT_EQ(call, &kLookedAt[static_cast<size_t>(i)]);
    if (call->who == Contender::kKept) Contest::end(look, *call, 1000);
  }
  ASSERT_TRUE(contest.must_agree());
  EXPECT_EQ(contest.proposed(&look)[0], 1000u);
  EXPECT_GT(contest.proposed(&look)[1], 1000000u);
  EXPECT_LT(contest.proposed(&look)[1], kNoTime);
}

TEST(Contest, WithoutMemoryOnARankNothingIsMeasuredOnAny) {
  Ranks ranks(3);
  ranks.has_no_memory(1);
  for (int i = 0; i < 100000; ++i) ranks.call(times(1000, 100));
  EXPECT_EQ(ranks.contest().kept(), Candidate::kEngine);
  EXPECT_FALSE(ranks.is_looked_at());
  EXPECT_TRUE(ranks.contest(0).is_fixed());
}

TEST(Contest, CallsOfVeryDifferentSizesAreTheEngines) {
  // Only the last rank sees that they are.
  Ranks ranks(3, Contest::of_any_size());
  ranks.call_to_decision(times(1000, 500));
  ASSERT_EQ(ranks.contest().kept(), Candidate::kMpi);
  int calls = 0, looked_at = 0;
  while (ranks.contest().kept() == Candidate::kMpi && calls < 100000) {
    ranks.call(times(1000, 500), ++calls % 3 == 0 ? 9 : 7);
  }
  EXPECT_EQ(ranks.contest().kept(), Candidate::kEngine);
  EXPECT_EQ(ranks.look().found, decltype(Look::found){});
  for (int i = 0; i < 100000; ++i) {
    ranks.call(times(1000, 500), i % 3 == 0 ? 9 : 7);
    looked_at += ranks.is_looked_at() ? 1 : 0;
  }
  EXPECT_EQ(ranks.contest().kept(), Candidate::kEngine);
  EXPECT_GT(looked_at, 0) << "they may become alike";
  EXPECT_LT(looked_at, 1000);
  while (ranks.contest().kept() == Candidate::kEngine && calls < 200000)
    ranks.call(times(1000, 500), static_cast<uint8_t>(7 + ++calls % 2));
  EXPECT_EQ(ranks.contest().kept(), Candidate::kMpi) << "sizes about a power of two are alike";
}

TEST(Contest, LooksAtCallsOfAnySizeStayFrequent) {
  Ranks ranks(2, Contest::of_any_size());
  for (int i = 0; i < 20; ++i) ranks.call_to_decision(times(1000, 1100));
  EXPECT_LT(ranks.call_to_decision(times(1000, 1100)), 10000);
}

TEST(Contest, AFixedOneIsNeverMeasured) {
  for (const Candidate kept : {Candidate::kEngine, Candidate::kMpi}) {
    Contest contest(kept);
    for (int i = 0; i < 100000; ++i) {
      EXPECT_TRUE(contest.passes());
      EXPECT_EQ(contest.kept(), kept);
    }
    EXPECT_EQ(contest.calls(nullptr), 100000u);
  }
}

TEST(Contest, CallsAreCounted) {
  Ranks ranks(2);
  for (int i = 0; i < 5000; ++i) ranks.call(times(1000, 1100));
  ASSERT_TRUE(ranks.contest().is_decided());
  while (ranks.is_looked_at()) ranks.call(times(1000, 1100));
  EXPECT_GE(ranks.contest().calls(&ranks.look()), 5000u);
  EXPECT_LE(ranks.contest().calls(&ranks.look()), 5000u + kLook);
}

TEST(Contest, TimesBeyondAllBoundsAreNotTakenForNone) {
  Ranks ranks(2);
  ranks.call_to_decision(times(1e12, 1e13));
  EXPECT_FALSE(ranks.contest().is_fixed());
  EXPECT_EQ(ranks.contest().kept(), Candidate::kEngine);
  ranks.call_to_decision(times(0, 0));
  EXPECT_EQ(ranks.contest().kept(), Candidate::kEngine);
}

}  // namespace
