// The C++ interface: every call in place, blocking, nonblocking and persistent, with blocks of
// equal and of different lengths.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <span>
#include <string>
#include <vector>

#include "tests/job.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using Numbers = std::vector<int64_t>;

/// What is in no block.
constexpr int64_t kGap = -7;
/// The target of what is for all ranks.
constexpr int kForAll = -1;

/// What rank `from` has for rank `to` at index i, in that round.
int64_t number(int from, int to, size_t i, int round) {
  return ((int64_t{round} * 97 + from) * 101 + to) * 100'003 + static_cast<int64_t>(i);
}

/// A block of numbers a rank.
class Blocks {
 public:
  /// `gap`: numbers between them.
  Blocks(int ranks, size_t gap, const std::function<size_t(int)>& length_of) {
    for (int peer = 0; peer < ranks; ++peer) {
      counts_.push_back(static_cast<int64_t>(length_of(peer) * sizeof(int64_t)));
      places_.push_back(static_cast<int64_t>(all_.size() * sizeof(int64_t)));
      all_.resize(all_.size() + length_of(peer) + gap, kGap);
    }
  }
  Numbers& all() { return all_; }
  layout places() const { return {counts_, places_}; }
  std::span<int64_t> of(int rank) {
    const auto i = static_cast<size_t>(rank);
    return std::span(all_).subspan(static_cast<size_t>(places_[i]) / sizeof(int64_t),
                                   static_cast<size_t>(counts_[i]) / sizeof(int64_t));
  }
  /// What rank `from` has for each.
  void fill(int from, int round) {
    for (int peer = 0; peer < ranks(); ++peer)
      for (size_t i = 0; i < of(peer).size(); ++i) of(peer)[i] = number(from, peer, i, round);
  }
  /// What rank `from` has for all in its own block, and nothing elsewhere.
  void fill_own(int from, int round) {
    all_.assign(all_.size(), kGap);
    for (size_t i = 0; i < of(from).size(); ++i) of(from)[i] = number(from, kForAll, i, round);
  }
  /// Whether they are what each rank has for `to`, and nothing else was written to.
  bool came(int to, int round) {
    Blocks right = *this;
    right.all_.assign(all_.size(), kGap);
    for (int peer = 0; peer < ranks(); ++peer)
      for (size_t i = 0; i < of(peer).size(); ++i) right.of(peer)[i] = number(peer, to, i, round);
    return right.all_ == all_;
  }

 private:
  int ranks() const { return static_cast<int>(counts_.size()); }
  Numbers counts_, places_;  ///< in bytes
  Numbers all_;
};

/// One rank's calls with blocks of `length` numbers, or of about so many.
class InPlace {
 public:
  InPlace(const context& c, size_t length, Complaints& complaints)
      : world_(c.world()),
        me_(world_.rank()),
        root_(world_.size() / 2),
        length_(length),
        complaints_(complaints) {}

  void all_to_all() {
    Blocks equal(world_.size(), 0, [&](int) { return length_; });
    each_form(
        "alltoall", [&](int round) { equal.fill(me_, round); },
        [&](int round) { return equal.came(me_, round); },
        [&] { world_.alltoall_in_place<int64_t>(equal.all()); },
        [&] { return world_.ialltoall_in_place<int64_t>(equal.all()); },
        [&] { return world_.alltoall_in_place_init<int64_t>(equal.all()); });
    // What is sent to a rank is as long as what comes from it.
    Blocks own(world_.size(), 1, [&](int peer) { return length_of(me_ + peer); });
    const layout l = own.places();
    each_form(
        "alltoallv", [&](int round) { own.fill(me_, round); },
        [&](int round) { return own.came(me_, round); },
        [&] { world_.alltoallv_in_place<int64_t>(own.all(), l); },
        [&] { return world_.ialltoallv_in_place<int64_t>(own.all(), l); },
        [&] { return world_.alltoallv_in_place_init<int64_t>(own.all(), l); });
  }

  void all_gather() {
    Blocks equal(world_.size(), 0, [&](int) { return length_; });
    each_form(
        "allgather", [&](int round) { equal.fill_own(me_, round); },
        [&](int round) { return equal.came(kForAll, round); },
        [&] { world_.allgather_in_place<int64_t>(equal.all()); },
        [&] { return world_.iallgather_in_place<int64_t>(equal.all()); },
        [&] { return world_.allgather_in_place_init<int64_t>(equal.all()); });
    Blocks all(world_.size(), 1, [&](int peer) { return length_of(peer); });
    const layout l = all.places();
    each_form(
        "allgatherv", [&](int round) { all.fill_own(me_, round); },
        [&](int round) { return all.came(kForAll, round); },
        [&] { world_.allgatherv_in_place<int64_t>(all.all(), l); },
        [&] { return world_.iallgatherv_in_place<int64_t>(all.all(), l); },
        [&] { return world_.allgatherv_in_place_init<int64_t>(all.all(), l); });
  }

  /// `all`: the root's blocks, of which this rank sends one as long as its own.
  void gather(Blocks all, bool equal) {
    Numbers mine;
    const layout l = all.places(), none;
    std::span<int64_t> to = all.all();
    each_form(
        equal ? "gather" : "gatherv",
        [&](int round) {
          all.fill_own(me_, round);
          mine.assign(all.of(me_).begin(), all.of(me_).end());
        },
        [&](int round) { return me_ != root_ || all.came(kForAll, round); },
        [&] {
          if (me_ == root_) {
            equal ? world_.gather_in_place(to) : world_.gatherv_in_place(to, l);
          } else {
            equal ? world_.gather<int64_t>(mine, {}, root_)
                  : world_.gatherv<int64_t>(mine, {}, none, root_);
          }
        },
        [&] {
          if (me_ == root_)
            return equal ? world_.igather_in_place(to) : world_.igatherv_in_place(to, l);
          return equal ? world_.igather<int64_t>(mine, {}, root_)
                       : world_.igatherv<int64_t>(mine, {}, none, root_);
        },
        [&] {
          if (me_ == root_)
            return equal ? world_.gather_in_place_init(to) : world_.gatherv_in_place_init(to, l);
          return equal ? world_.gather_init<int64_t>(mine, {}, root_)
                       : world_.gatherv_init<int64_t>(mine, {}, none, root_);
        });
  }

  /// `all`: the root's blocks, of which this rank receives one as long as its own.
  void scatter(Blocks all, bool equal) {
    Numbers mine(all.of(me_).size()), before;
    const layout l = all.places(), none;
    const std::span<const int64_t> from = all.all();
    each_form(
        equal ? "scatter" : "scatterv",
        [&](int round) {
          mine.assign(mine.size(), kGap);
          all.fill(root_, round);
          before = all.all();
        },
        [&](int round) {
          if (me_ == root_) return all.all() == before;
          for (size_t i = 0; i < mine.size(); ++i)
            if (mine[i] != number(root_, me_, i, round)) return false;
          return true;
        },
        [&] {
          if (me_ == root_) {
            equal ? world_.scatter_in_place(from) : world_.scatterv_in_place(from, l);
          } else {
            equal ? world_.scatter<int64_t>({}, mine, root_)
                  : world_.scatterv<int64_t>({}, none, mine, root_);
          }
        },
        [&] {
          if (me_ == root_)
            return equal ? world_.iscatter_in_place(from) : world_.iscatterv_in_place(from, l);
          return equal ? world_.iscatter<int64_t>({}, mine, root_)
                       : world_.iscatterv<int64_t>({}, none, mine, root_);
        },
        [&] {
          if (me_ == root_)
            return equal ? world_.scatter_in_place_init(from)
                         : world_.scatterv_in_place_init(from, l);
          return equal ? world_.scatter_init<int64_t>({}, mine, root_)
                       : world_.scatterv_init<int64_t>({}, none, mine, root_);
        });
  }

  void rooted() {
    const Blocks equal(world_.size(), 0, [&](int) { return length_; });
    const Blocks unequal(world_.size(), 1, [&](int peer) { return length_of(peer); });
    gather(equal, true);
    gather(unequal, false);
    scatter(equal, true);
    scatter(unequal, false);
  }

  void reduce() {
    Numbers values(length_);
    const std::span<int64_t> recv = values;
    each_form(
        "reduce",
        [&](int round) {
          for (size_t i = 0; i < length_; ++i) values[i] = number(me_, kForAll, i, round);
        },
        [&](int round) {
          for (size_t i = 0; me_ == root_ && i < length_; ++i) {
            int64_t sum = 0;
            for (int peer = 0; peer < world_.size(); ++peer) sum += number(peer, kForAll, i, round);
            if (values[i] != sum) return false;
          }
          return true;
        },
        [&] {
          if (me_ == root_) return world_.reduce_in_place(recv, IBCOLL_SUM);
          world_.reduce<int64_t>(values, {}, IBCOLL_SUM, root_);
        },
        [&] {
          return me_ == root_ ? world_.ireduce_in_place(recv, IBCOLL_SUM)
                              : world_.ireduce<int64_t>(values, {}, IBCOLL_SUM, root_);
        },
        [&] {
          return me_ == root_ ? world_.reduce_in_place_init(recv, IBCOLL_SUM)
                              : world_.reduce_init<int64_t>(values, {}, IBCOLL_SUM, root_);
        });
  }

 private:
  /// 0, less than length_, length_ or more.
  size_t length_of(int i) const { return static_cast<size_t>(i % 4) * length_ / 2; }

  /// Makes a call in each form, a persistent one more than once, and looks at what has come.
  void each_form(const char* name, const std::function<void(int)>& refill,
                 const std::function<bool(int)>& right, const std::function<void()>& blocking,
                 const std::function<request()>& nonblocking,
                 const std::function<request()>& persistent) {
    int round = 0;
    const auto check = [&](const char* form) {
      if (!right(round)) complaints_.add(me_, fmt::format("{} in place, {}", name, form));
      ++round;
    };
    refill(round);
    blocking();
    check("blocking");
    refill(round);
    nonblocking().wait();
    check("nonblocking");
    request often = persistent();
    for (int i = 0; i < 2; ++i) {
      refill(round);
      often.start();
      often.wait();
      check("persistent");
    }
  }

  group world_;
  int me_, root_;
  size_t length_;
  Complaints& complaints_;
};

TEST(InPlace, EveryCallInEveryForm) {
  constexpr int kRanks = 4;
  for (const char* ranks_of_servers : {"4", "2,2", "1,1,1,1", "3,1"}) {
    for (const size_t length : {1, 100, 3000}) {
      Complaints complaints(kRanks);
      const int status = launch(
          kRanks,
          [&](context& c) {
            InPlace calls(c, length, complaints);
            calls.all_to_all();
            calls.all_gather();
            calls.rooted();
            calls.reduce();
            return 0;
          },
          ranks_of_servers);
      EXPECT_EQ(status, 0);
      EXPECT_EQ(complaints.all(), "") << ranks_of_servers << ", " << length;
    }
  }
}

/// Only the root may, and a layout has an entry a rank.
TEST(InPlace, WhatCantBeIsRefused) {
  const int status = launch(2, [](context& c) {
    const group world = c.world();
    Numbers memory(2), one(1, 8), places{0, 8}, two(2, 8);
    try {
      world.gatherv_in_place<int64_t>(memory, {one, places});
      return 1;
    } catch (const std::invalid_argument&) {
    }
    try {
      // The spans are what the engine may touch.
      world.allgatherv_in_place<int64_t>(std::span(memory).first(1), {two, places});
      return 2;
    } catch (const error& refused) {
      if (refused.status() != IBCOLL_ERR_INVALID) return 3;
    }
    world.barrier();
    return 0;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ibcoll
