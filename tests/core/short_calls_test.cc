// Calls inside a server that are carried out at once once they have been made before: with what
// stops them on the way they end as all calls do.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/api_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::launched;
using testing::SharedFlags;

constexpr int kRepeated = 12;  ///< the first ones are carried out as all calls are

int64_t number_at(int rank, int round, size_t place) {
  return 100'000 * (rank + 1) + 1000 * round + static_cast<int64_t>(place);
}

/// What a rank sends, and where it receives.
struct Numbers {
  Numbers(int rank, int ranks, int round, size_t elements)
      : send(static_cast<size_t>(ranks) * elements), recv(send.size() + 1, -1) {
    for (size_t i = 0; i < send.size(); ++i) send[i] = number_at(rank, round, i);
  }
  std::vector<int64_t> send, recv;
};

/// A collective of blocks of `elements` numbers each, and what a rank is to have afterwards.
struct Tried {
  const char* name;
  std::function<ibcoll_status(ibcoll_group*, Numbers&, size_t elements)> call;
  std::function<std::vector<int64_t>(int rank, int ranks, int round, size_t elements)> expected;
};

constexpr int kRoot = 1;

std::vector<int64_t> numbers_of(int rank, int round, size_t first, size_t elements) {
  std::vector<int64_t> block;
  for (size_t i = 0; i < elements; ++i) block.push_back(number_at(rank, round, first + i));
  return block;
}

std::vector<int64_t> sums_of(int ranks, int round, size_t elements) {
  std::vector<int64_t> all(elements);
  for (int rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < elements; ++i) all[i] += number_at(rank, round, i);
  return all;
}

std::vector<int64_t> joined(int ranks, int round, size_t elements,
                            const std::function<size_t(int)>& first) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int64_t> block = numbers_of(rank, round, first(rank), elements);
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

const std::vector<Tried>& tried() {
  static const std::vector<Tried> all = {
      {"alltoall",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_alltoall(group, b.send.data(), b.recv.data(), 8 * n, nullptr);
       },
       [](int rank, int ranks, int round, size_t n) {
         return joined(ranks, round, n, [=](int) { return static_cast<size_t>(rank) * n; });
       }},
      {"allgather",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_allgather(group, b.send.data(), b.recv.data(), 8 * n, nullptr);
       },
       [](int, int ranks, int round, size_t n) {
         return joined(ranks, round, n, [](int) { return size_t{0}; });
       }},
      {"gather",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_gather(group, b.send.data(), b.recv.data(), 8 * n, kRoot, nullptr);
       },
       [](int rank, int ranks, int round, size_t n) {
         if (rank != kRoot) return std::vector<int64_t>();
         return joined(ranks, round, n, [](int) { return size_t{0}; });
       }},
      {"scatter",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_scatter(group, b.send.data(), b.recv.data(), 8 * n, kRoot, nullptr);
       },
       [](int rank, int, int round, size_t n) {
         return numbers_of(kRoot, round, static_cast<size_t>(rank) * n, n);
       }},
      {"allreduce",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_allreduce(group, b.send.data(), b.recv.data(), n, IBCOLL_INT64, IBCOLL_SUM,
                                 nullptr);
       },
       [](int, int ranks, int round, size_t n) { return sums_of(ranks, round, n); }},
      {"reduce",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_reduce(group, b.send.data(), b.recv.data(), n, IBCOLL_INT64, IBCOLL_SUM,
                              kRoot, nullptr);
       },
       [](int rank, int ranks, int round, size_t n) {
         return rank == kRoot ? sums_of(ranks, round, n) : std::vector<int64_t>();
       }},
      {"bcast",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         if (ibcoll_group_rank(group) == kRoot) std::copy_n(b.send.begin(), n, b.recv.begin());
         return ibcoll_bcast(group, b.recv.data(), 8 * n, kRoot, nullptr);
       },
       [](int, int, int round, size_t n) { return numbers_of(kRoot, round, 0, n); }},
  };
  return all;
}

/// Somebody comes late to most calls, so that they stop at every place at which they may.
void be_late(int rank, int ranks, int round) {
  if (round % (ranks + 1) == rank) std::this_thread::sleep_for(std::chrono::microseconds(300));
}

void repeat(const ApiRank& rank, const Tried& one, size_t elements) {
  ibcoll_group* const world = ibcoll_world(rank.context);
  const int me = ibcoll_rank(rank.context), ranks = ibcoll_size(rank.context);
  // The same buffers again and again, and others now and then.
  Numbers first(me, ranks, 0, elements), second(me, ranks, 0, elements);
  for (int round = 0; round < kRepeated; ++round) {
    Numbers& blocks = round % 5 == 4 ? second : first;
    const Numbers fresh(me, ranks, round, elements);
    std::copy(fresh.send.begin(), fresh.send.end(), blocks.send.begin());
    std::copy(fresh.recv.begin(), fresh.recv.end(), blocks.recv.begin());
    be_late(me, ranks, round);
    if (!rank.good(one.call(world, blocks, elements), one.name)) return;
    std::vector<int64_t> expected = one.expected(me, ranks, round, elements);
    expected.resize(blocks.recv.size(), -1);
    if (blocks.recv != expected)
      rank.complain(std::string(one.name) + " of " + std::to_string(8 * elements) +
                    " bytes, round " + std::to_string(round) + ": wrong data");
  }
}

TEST(ShortCalls, AreRightWhoeverIsLate) {
  for (const int ranks : {2, 3, 5}) {
    // Of nothing, in a line, behind one, the longest that are short, and longer.
    for (const size_t elements : {0, 1, 5, 6, 128, 129}) {
      EXPECT_EQ(launched(nullptr, ranks,
                         [elements](const ApiRank& rank) {
                           for (const Tried& one : tried()) repeat(rank, one, elements);
                         }),
                "")
          << ranks << " ranks, " << 8 * elements << " bytes";
    }
  }
}

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

TEST(ShortCalls, BlocksMayDifferInLength) {
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

TEST(ShortCalls, AGraphIsKnownByMoreThanItsPlace) {
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

TEST(ShortCalls, NobodyLeavesABarrierBeforeAllHaveCome) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(
      launched(nullptr, 3,
               [&flags](const ApiRank& rank) {
                 const int me = ibcoll_rank(rank.context);
                 for (int round = 0; round < 3 * kRepeated; ++round) {
                   be_late(me, 3, round);
                   flags.raise(static_cast<size_t>(me));
                   if (!rank.good(ibcoll_barrier(ibcoll_world(rank.context), nullptr), "barrier"))
                     return;
                   for (size_t other = 0; other < 3; ++other)
                     if (flags.raised(other) <= round) rank.complain("left too early");
                 }
               }),
      "");
}

TEST(ShortCalls, PersistentOnesStartAgainAndAgain) {
  EXPECT_EQ(launched(nullptr, 3,
                     [](const ApiRank& rank) {
                       const int me = ibcoll_rank(rank.context);
                       int64_t mine = 0, sum = 0;
                       ibcoll_call call =
                           ibcoll_call_allreduce(&mine, &sum, 1, IBCOLL_INT64, IBCOLL_SUM, nullptr);
                       call.flags = IBCOLL_PERSISTENT;
                       ibcoll_request* request = nullptr;
                       rank.good(ibcoll_call_init(ibcoll_world(rank.context), &call, &request),
                                 "init");
                       for (int round = 0; round < kRepeated; ++round) {
                         mine = number_at(me, round, 0);
                         be_late(me, 3, round);
                         if (!rank.good(ibcoll_start(request), "start") ||
                             !rank.good(ibcoll_wait(request), "wait"))
                           return;
                         if (sum != sums_of(3, round, 1)[0]) rank.complain("a wrong sum");
                       }
                       rank.good(ibcoll_call_free(request), "free");
                     }),
            "");
}

TEST(ShortCalls, TellWhereRanksDisagree) {
  int ended = 0;
  EXPECT_EQ(launched(
                nullptr, 2,
                [](const ApiRank& rank) {
                  ibcoll_group* const world = ibcoll_world(rank.context);
                  const int me = ibcoll_rank(rank.context);
                  int64_t data = 7;
                  for (int round = 0; round < kRepeated; ++round) {
                    for (int root = 0; root < 2; ++root)
                      rank.good(ibcoll_bcast(world, &data, 8, root, nullptr), "bcast");
                  }
                  ibcoll_status status = ibcoll_bcast(world, &data, 8, me, nullptr);
                  // Each has been its own root. What the other one has sent is found in later
                  // calls.
                  int64_t sum = 0;
                  for (int i = 0; i < 4 && status == IBCOLL_OK; ++i)
                    status =
                        ibcoll_allreduce(world, &data, &sum, 1, IBCOLL_INT64, IBCOLL_SUM, nullptr);
                  const std::string line = ibcoll_last_error();
                  if (status != IBCOLL_ERR_MISMATCH ||
                      line.find("rank 0 passes root 0, rank 1 1") == std::string::npos)
                    rank.complain(line);
                },
                &ended),
            "");
  EXPECT_NE(ended, 0);
}

TEST(ShortCalls, HaveDeadlines) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(launched(nullptr, 2,
                     [&flags](const ApiRank& rank) {
                       const bool late = ibcoll_rank(rank.context) == 1;
                       ibcoll_group* const group = testing::group_of(rank, {0, 1}, 3);
                       int64_t mine = 1, sum = 0;
                       ibcoll_options options = IBCOLL_OPTIONS_INIT;
                       const auto add = [&] {
                         return ibcoll_allreduce(group, &mine, &sum, 1, IBCOLL_INT64, IBCOLL_SUM,
                                                 &options);
                       };
                       // Long enough for calls to which nobody is late.
                       if (!late) options.deadline_us = 1'000'000;
                       for (int round = 0; round < kRepeated; ++round)
                         rank.good(add(), "allreduce");
                       // What has come to the late one by then may be enough for its first call.
                       ibcoll_status status = IBCOLL_OK;
                       if (late) flags.await(0, 1);
                       for (int round = 0; round < 2 && status == IBCOLL_OK; ++round)
                         status = add();
                       if (!late) flags.raise(0);
                       if (status != IBCOLL_ERR_DEADLINE)
                         rank.complain("no deadline: " + std::to_string(status));
                       rank.good(ibcoll_group_free(group), "free");
                     }),
            "");
}

}  // namespace
}  // namespace ibcoll
