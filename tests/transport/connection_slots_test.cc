#include "engine/transport/connection_slots.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace ibcoll {
namespace {

using Word = ConnectionSlots::Word;

/// Ranks whose words and messages arrive in order, whenever a seed says so.
class Job {
 public:
  Job(std::vector<uint32_t> slots, uint64_t seed) : random_(seed) {
    const auto ranks = static_cast<Rank>(slots.size());
    for (Rank rank = 0; rank < ranks; ++rank)
      ranks_.push_back(std::make_unique<Member>(*this, rank, ranks, slots[rank]));
  }

  /// That many messages are to go from one rank to another.
  void send(Rank from, Rank to, int messages) { ranks_[from]->unsent[to] += messages; }
  /// `from` asks for a connection and never sends anything.
  void ask_in_vain(Rank from, Rank to) { (void)ranks_[from]->slots.may_send(to); }
  /// Of one of them, or the last: nothing it does takes place.
  void keep_away(Rank rank) { away_ = rank; }

  /// Steps until everything has been sent and received; whether it has been.
  bool run() {
    constexpr int kMost = 2'000'000;
    for (int step = 0; step < kMost && !done(); ++step) {
      const auto rank = static_cast<Rank>(random_() % ranks_.size());
      if (rank != away_) ranks_[rank]->step();
    }
    return done();
  }
  /// Some steps more: ranks see the last words.
  void settle() {
    for (int step = 0; step < 10'000; ++step) ranks_[random_() % ranks_.size()]->step();
  }
  uint64_t closed(Rank rank) const { return ranks_[rank]->slots.closed(); }
  uint32_t taken(Rank rank) const { return ranks_[rank]->slots.taken(); }
  const std::string& wrong() const { return wrong_; }

 private:
  static constexpr Word kMessage{};

  struct Member final : ConnectionSlots::Network {
    Member(Job& of, Rank rank, Rank ranks, uint32_t most)
        : job(of), me(rank), limit(most), slots(rank, ranks, most, *this) {}

    bool tell(Rank peer, Word word) override {
      if (job.random_() % 4 == 0) return false;
      job.ways_[{me, peer}].push_back(word);
      return true;
    }
    bool has_arrived(Rank peer) override { return job.ways_[{me, peer}].empty(); }
    void wake() override {}
    void ended(Rank peer) override {
      // The other end may still have to take note of the last word.
      for (const Word word : job.ways_[{me, peer}]) {
        if (word == kMessage) job.complain("a message is lost", me, peer);
      }
    }

    void step() {
      receive();
      slots.advance();
      if (slots.taken() > limit) job.complain("has too many connections", me, me);
      for (auto& [peer, left] : unsent) {
        if (left == 0 || job.random_() % 2 == 0 || !slots.may_send(peer)) continue;
        job.ways_[{me, peer}].push_back(kMessage);
        slots.sent(peer);
        --left;
      }
    }
    void receive() {
      for (auto& [ends, way] : job.ways_) {
        if (ends.second != me || way.empty() || job.random_() % 2 == 0) continue;
        const Word word = way.front();
        way.pop_front();
        const bool sensible =
            word == kMessage ? slots.received(ends.first) : slots.heard(ends.first, word);
        if (!sensible) job.complain("is told nonsense", me, ends.first);
      }
    }

    Job& job;
    const Rank me;
    const uint32_t limit;
    ConnectionSlots slots;
    std::map<Rank, int> unsent;
  };

  bool done() const {
    for (const auto& rank : ranks_) {
      for (const auto& [peer, left] : rank->unsent) {
        if (left != 0) return false;
      }
    }
    for (const auto& [ends, way] : ways_) {
      for (const Word word : way) {
        if (word == kMessage) return false;
      }
    }
    return true;
  }
  void complain(const std::string& text, Rank rank, Rank peer) {
    if (wrong_.empty())
      wrong_ = "rank " + std::to_string(rank) + " " + text + " (" + std::to_string(peer) + ")";
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Member>> ranks_;
  std::map<std::pair<Rank, Rank>, std::deque<Word>> ways_;
  Rank away_ = -1;
  std::string wrong_;
};

TEST(ConnectionSlots, AllGetTheirTurnHoweverFewSlotsThereAre) {
  for (const int ranks : {2, 3, 5, 12}) {
    for (const uint32_t slots : {1u, 2u, 3u}) {
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(::testing::Message()
                     << ranks << " ranks, " << slots << " slots, seed " << seed);
        Job job(std::vector<uint32_t>(static_cast<size_t>(ranks), slots), seed);
        for (Rank from = 0; from < ranks; ++from) {
          for (Rank to = 0; to < ranks; ++to) {
            if (from != to) job.send(from, to, 3);
          }
        }
        ASSERT_TRUE(job.run());
        ASSERT_EQ(job.wrong(), "");
      }
    }
  }
}

TEST(ConnectionSlots, RanksMayHaveDifferentNumbers) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Job job({1, UINT32_MAX, 2, 1, UINT32_MAX}, seed);
    for (Rank from = 0; from < 5; ++from) {
      for (Rank to = 0; to < 5; ++to) {
        if (from != to) job.send(from, to, 5);
      }
    }
    ASSERT_TRUE(job.run()) << seed;
    ASSERT_EQ(job.wrong(), "") << seed;
    EXPECT_GT(job.closed(1), 0U) << "its peers close connections that it could keep";
  }
}

TEST(ConnectionSlots, NothingIsClosedWhereThereIsRoom) {
  Job job({2, 2, 2}, 7);
  for (Rank from = 0; from < 3; ++from) {
    for (Rank to = 0; to < 3; ++to) {
      if (from != to) job.send(from, to, 100);
    }
  }
  ASSERT_TRUE(job.run());
  ASSERT_EQ(job.wrong(), "");
  for (Rank rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job.closed(rank), 0U);
    EXPECT_EQ(job.taken(rank), 2U);
  }
}

TEST(ConnectionSlots, WhoAsksInVainKeepsItForAWhileOnly) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Job job({1, 1, 1}, seed);
    job.ask_in_vain(0, 1);
    job.ask_in_vain(1, 2);
    job.send(0, 2, 10);
    ASSERT_TRUE(job.run()) << seed;
    ASSERT_EQ(job.wrong(), "") << seed;
  }
}

TEST(ConnectionSlots, TheOneUsedLeastRecentlyIsClosed) {
  Job job({2, 3, 3, 3}, 3);
  job.send(0, 1, 1);
  ASSERT_TRUE(job.run());
  job.send(0, 2, 1);
  ASSERT_TRUE(job.run());
  job.send(0, 1, 1);
  ASSERT_TRUE(job.run());
  job.send(0, 3, 1);
  ASSERT_TRUE(job.run());
  job.settle();
  ASSERT_EQ(job.wrong(), "");
  EXPECT_EQ(job.closed(2), 1U);
  EXPECT_EQ(job.closed(1), 0U);
}

TEST(ConnectionSlots, ARankThatIsAwayHoldsUpItsOwnPeersOnly) {
  Job job({2, 2, 2, 2}, 5);
  job.send(0, 1, 1);
  job.send(0, 2, 1);
  ASSERT_TRUE(job.run());
  job.keep_away(3);
  job.send(1, 2, 5);
  job.send(2, 0, 5);
  EXPECT_TRUE(job.run());
  EXPECT_EQ(job.wrong(), "");
}

}  // namespace
}  // namespace ibcoll
