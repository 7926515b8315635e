// Calls inside a server that are carried out at once, of blocks that differ in length and of
// neighbours.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/api_job.h"
#include "tests/core/short_call_data.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::be_late;
using testing::kRepeated;
using testing::kRoot;
using testing::launched;
using testing::number_at;
using testing::numbers_of;

/// Counts and displacements, in bytes or numbers; they stay where they are from call to call. A
/// number lies behind each block that is none of it.
struct KeptLists {
  explicit KeptLists(int ranks, int unit) : unit(unit), counts(ranks), places(ranks) {}
  void set(const std::function<int64_t(int)>& length) {
    int64_t place = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] = unit * length(static_cast<int>(i));
      places[i] = place;
      place += counts[i] + unit;
    }
  }
  size_t first(int block) const { return static_cast<size_t>(places[block] / unit); }
  size_t length(int block) const { return static_cast<size_t>(counts[block] / unit); }

  int unit;
  std::vector<int64_t> counts, places;
};

/// A collective whose blocks differ in length: that of rank `from` for rank `to` has
/// length(from, to) numbers. Says what is wrong.
class UnequalBlocks {
 public:
  using Length = std::function<int64_t(int from, int to)>;

  UnequalBlocks(const ApiRank& rank, ibcoll_graph* graph, size_t most)
      : world_(ibcoll_world(rank.context)),
        graph_(graph),
        me_(ibcoll_rank(rank.context)),
        ranks_(ibcoll_size(rank.context)),
        send_(static_cast<size_t>(ranks_) * (most + 1)),
        recv_(send_.size()),
        sent_(ranks_, 8),
        received_(ranks_, 8),
        numbers_(ranks_, 1) {}

  using Call = std::string (UnequalBlocks::*)(const Length& length, int round);
  static const std::vector<std::pair<const char*, Call>>& all() {
    static const std::vector<std::pair<const char*, Call>> calls = {
        {"alltoallv", &UnequalBlocks::alltoallv},
        {"allgatherv", &UnequalBlocks::allgatherv},
        {"gatherv", &UnequalBlocks::gatherv},
        {"scatterv", &UnequalBlocks::scatterv},
        {"reduce_scatter", &UnequalBlocks::reduce_scatter},
        {"neighbor_alltoallv", &UnequalBlocks::neighbor_alltoallv}};
    return calls;
  }

  std::string make(Call call, const Length& length, int round) {
    for (size_t i = 0; i < send_.size(); ++i) send_[i] = number_at(me_, round, i);
    std::fill(recv_.begin(), recv_.end(), -1);
    return (this->*call)(length, round);
  }

 private:
  std::string alltoallv(const Length& length, int round) {
    sent_.set([&](int to) { return length(me_, to); });
    received_.set([&](int from) { return length(from, me_); });
    if (ibcoll_alltoallv(world_, send_.data(), sent_.counts.data(), sent_.places.data(),
                         recv_.data(), received_.counts.data(), received_.places.data(), nullptr))
      return ibcoll_last_error();
    return compare(round, [&](int from) {
      KeptLists theirs(ranks_, 1);
      theirs.set([&](int to) { return length(from, to); });
      return theirs.first(me_);
    });
  }
  std::string allgatherv(const Length& length, int round) {
    received_.set([&](int from) { return length(from, 0); });
    if (ibcoll_allgatherv(world_, send_.data(), 8 * length(me_, 0), recv_.data(),
                          received_.counts.data(), received_.places.data(), nullptr))
      return ibcoll_last_error();
    return compare(round, [](int) { return size_t{0}; });
  }
  std::string gatherv(const Length& length, int round) {
    const bool root = me_ == kRoot;
    received_.set([&](int from) { return length(from, kRoot); });
    // The others' lists count for nothing.
    if (ibcoll_gatherv(world_, send_.data(), 8 * length(me_, kRoot), recv_.data(),
                       root ? received_.counts.data() : reinterpret_cast<const int64_t*>(8),
                       root ? received_.places.data() : nullptr, kRoot, nullptr))
      return ibcoll_last_error();
    return root ? compare(round, [](int) { return size_t{0}; }) : "";
  }
  std::string scatterv(const Length& length, int round) {
    sent_.set([&](int to) { return length(kRoot, to); });
    const bool root = me_ == kRoot;
    if (ibcoll_scatterv(world_, send_.data(), root ? sent_.counts.data() : nullptr,
                        root ? sent_.places.data() : nullptr, recv_.data(), 8 * length(kRoot, me_),
                        kRoot, nullptr))
      return ibcoll_last_error();
    return compare_block(0, numbers_of(kRoot, round, sent_.first(me_), sent_.length(me_)));
  }
  std::string reduce_scatter(const Length& length, int round) {
    size_t first = 0;
    numbers_.set([&](int to) { return length(0, to); });
    for (int to = 0; to < me_; ++to) first += numbers_.length(to);
    if (ibcoll_reduce_scatter(world_, send_.data(), recv_.data(), numbers_.counts.data(),
                              IBCOLL_INT64, IBCOLL_SUM, nullptr))
      return ibcoll_last_error();
    std::vector<int64_t> sums(numbers_.length(me_));
    for (int rank = 0; rank < ranks_; ++rank)
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += number_at(rank, round, first + i);
    return compare_block(0, sums);
  }
  /// In a ring: from the one before, to the one behind.
  std::string neighbor_alltoallv(const Length& length, int round) {
    const int before = (me_ + ranks_ - 1) % ranks_, behind = (me_ + 1) % ranks_;
    KeptLists &sent = sent_, &received = received_;
    sent.set([&](int) { return length(me_, behind); });
    received.set([&](int) { return length(before, me_); });
    if (ibcoll_neighbor_alltoallv(graph_, send_.data(), sent.counts.data(), sent.places.data(),
                                  recv_.data(), received.counts.data(), received.places.data(),
                                  nullptr))
      return ibcoll_last_error();
    return compare_block(0, numbers_of(before, round, 0, received.length(0)));
  }

  /// `first`: where the block of each rank for this one begins there.
  std::string compare(int round, const std::function<size_t(int from)>& first) const {
    std::string wrong;
    for (int from = 0; from < ranks_ && wrong.empty(); ++from)
      wrong = compare_block(received_.first(from),
                            numbers_of(from, round, first(from), received_.length(from)));
    return wrong;
  }
  std::string compare_block(size_t place, const std::vector<int64_t>& expected) const {
    if (!std::equal(expected.begin(), expected.end(), recv_.begin() + static_cast<long>(place)))
      return "wrong data at " + std::to_string(place);
    return recv_[place + expected.size()] == -1 ? "" : "data behind a block";
  }

  ibcoll_group* world_;
  ibcoll_graph* graph_;
  int me_, ranks_;
  std::vector<int64_t> send_, recv_;
  KeptLists sent_, received_, numbers_;
};

ibcoll_graph* ring_of(const ApiRank& rank) {
  const int me = ibcoll_rank(rank.context), ranks = ibcoll_size(rank.context);
  const int before = (me + ranks - 1) % ranks, behind = (me + 1) % ranks;
  ibcoll_graph* graph = nullptr;
  rank.good(ibcoll_graph_create(ibcoll_world(rank.context), 1, &before, 1, &behind, &graph),
            "graph");
  return graph;
}

TEST(ShortUnequalCalls, BlocksMayDifferInLength) {
  for (const int ranks : {2, 3, 5}) {
    for (const int scale : {1, 6, 64, 65}) {  // the longest that are short, and longer ones
      EXPECT_EQ(launched(nullptr, ranks,
                         [&](const ApiRank& rank) {
                           ibcoll_graph* const graph = ring_of(rank);
                           const int me = ibcoll_rank(rank.context);
                           for (const auto& [name, call] : UnequalBlocks::all()) {
                             UnequalBlocks blocks(rank, graph, static_cast<size_t>(2 * scale));
                             for (int round = 0; round < 3 * kRepeated; ++round) {
                               // The same lengths again and again, and then others in their place.
                               const int variant = round / (kRepeated / 2);
                               be_late(me, ranks, round);
                               const std::string wrong = blocks.make(
                                   call,
                                   [&](int from, int to) -> int64_t {
                                     return (from + 2 * to + variant) % 3 * scale;
                                   },
                                   round);
                               if (wrong.empty()) continue;
                               rank.complain(std::string(name) + ", round " +
                                             std::to_string(round) + ": " + wrong);
                               return;
                             }
                           }
                           rank.good(ibcoll_graph_free(graph), "free");
                         }),
                "")
          << ranks << " ranks, scale " << scale;
    }
  }
}

TEST(ShortUnequalCalls, AGraphIsKnownByMoreThanItsPlace) {
  EXPECT_EQ(launched(nullptr, 3,
                     [](const ApiRank& rank) {
                       ibcoll_group* const world = ibcoll_world(rank.context);
                       const int me = ibcoll_rank(rank.context);
                       int64_t mine = 0, theirs = 0;
                       const auto graph_to = [&](int distance) {
                         const int from = (me + 3 - distance) % 3, to = (me + distance) % 3;
                         ibcoll_graph* graph = nullptr;
                         rank.good(ibcoll_graph_create(world, 1, &from, 1, &to, &graph), "graph");
                         return graph;
                       };
                       const auto repeat = [&](ibcoll_graph* graph, int distance) {
                         for (int round = 0; round < kRepeated; ++round) {
                           mine = number_at(me, round, 0);
                           const ibcoll_call described =
                               ibcoll_call_neighbor_allgather(graph, &mine, &theirs, 8, nullptr);
                           if (!rank.good(ibcoll_group_call(world, &described), "call")) return;
                           if (theirs != number_at((me + 3 - distance) % 3, round, 0))
                             rank.complain("wrong data");
                         }
                       };
                       ibcoll_graph* const first = graph_to(1);
                       repeat(first, 1);
                       rank.good(ibcoll_graph_free(first), "free");
                       // Handles rest for a while before they are handed out again.
                       ibcoll_graph* second = graph_to(2);
                       for (int more = 0; more < 200 && second != first; ++more) {
                         rank.good(ibcoll_graph_free(second), "free");
                         second = graph_to(2);
                       }
                       if (second != first) rank.complain("the handle never comes again");
                       repeat(second, 2);
                       rank.good(ibcoll_graph_free(second), "free");
                     }),
            "");
}

}  // namespace
}  // namespace ibcoll
