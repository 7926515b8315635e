// Blocks of one receive buffer that share bytes: refused, and only those.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "engine/base/strided_copy.h"
#include "engine/core/call_arguments.h"
#include "engine/core/call_blocks.h"
#include "tests/api_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using ::testing::HasSubstr;
using testing::launched;

int below(std::mt19937& random, int limit) {
  return static_cast<int>(random() % static_cast<unsigned>(limit));
}

/// Whether a byte of a block is a byte of an earlier one.
bool share_bytes(const std::vector<ibcoll_block>& blocks) {
  std::set<int64_t> bytes;
  for (const ibcoll_block& block : blocks) {
    std::set<int64_t> own;
    for (int64_t outer = 0; outer < block.outer_count; ++outer) {
      for (int64_t run = 0; run < block.count; ++run) {
        for (int64_t byte = 0; byte < block.bytes; ++byte)
          own.insert(block.offset + outer * block.outer_stride + run * block.stride + byte);
      }
    }
    for (const int64_t byte : own) {
      if (!bytes.insert(byte).second) return true;
    }
  }
  return false;
}

/// One that does not overlap itself.
ibcoll_block random_block(std::mt19937& random, int place, int64_t stride, int64_t outer_stride) {
  ibcoll_block block{below(random, place), 1 + below(random, 4), below(random, 4), stride,
                     1 + below(random, 3), outer_stride};
  if (below(random, 2) == 0) block.outer_count = 1;
  return block;
}

TEST(OverlappingBlocks, AreFoundWhereverOneByteIsSharedAndNowhereElse) {
  std::mt19937 random(7);
  int shared = 0, apart = 0;
  for (int round = 0; round < 60'000; ++round) {
    // Mostly of one matrix, as those of a program are.
    const auto signed_of = [&](int bytes) { return below(random, 4) == 0 ? -bytes : bytes; };
    const int64_t stride = signed_of(4 + below(random, 9)),
                  outer_stride = signed_of(8 + below(random, 40));
    std::vector<ibcoll_block> blocks;
    const int count = 2 + below(random, 3), place = 4 + below(random, 150);
    for (int i = 0; i < count; ++i) {
      const bool another = below(random, 4) == 0;
      blocks.push_back(random_block(random, place,
                                    another ? signed_of(4 + below(random, 30)) : stride,
                                    another ? signed_of(9 + below(random, 30)) : outer_stride));
    }
    const bool expected = share_bytes(blocks);
    (expected ? shared : apart) += 1;
    const Status checked = check_apart(blocks, "rank");
    ASSERT_EQ(!checked, expected) << "round " << round << ": "
                                  << (checked ? "taken" : checked.error().message);
  }
  EXPECT_GT(shared, 10'000);
  EXPECT_GT(apart, 10'000);
}

TEST(OverlappingBlocks, OfCountsAreFound) {
  std::mt19937 random(8);
  int shared = 0, apart = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<int64_t> counts, places;
    std::vector<ibcoll_block> blocks;
    for (int i = 0; i < 5; ++i) {
      counts.push_back(below(random, 6));
      places.push_back(below(random, 60));
      blocks.push_back(ibcoll_block_contiguous(places.back(), counts.back()));
    }
    const bool expected = share_bytes(blocks);
    (expected ? shared : apart) += 1;
    ASSERT_EQ(!check_apart(counts, places.data(), "rank"), expected) << round;
  }
  EXPECT_GT(shared, 4'000);
  EXPECT_GT(apart, 4'000);
}

/// Counts and places of one side of a call of three ranks.
struct Places {
  std::vector<int64_t> counts, displacements;
};

/// Every function that receives blocks of counts and places; gives the refusals that differ.
void receive_at(const ApiRank& rank, const Places& to, const char* refusal) {
  ibcoll_group* const world = ibcoll_world(rank.context);
  const int me = ibcoll_rank(rank.context);
  // What a rank gets from one it sends to it: all count alike.
  const std::vector<int64_t>& counts = to.counts;
  const int64_t own = counts[static_cast<size_t>(me)];
  const std::vector<int64_t> sent(3, own), from = {0, 0, 0};
  std::vector<int64_t> mine(8, me), all(64);
  const auto expect = [&](const char* what, ibcoll_status status, const std::string& text) {
    const bool refused = status == IBCOLL_ERR_INVALID &&
                         std::string(ibcoll_last_error()).find(text) != std::string::npos;
    if (refusal == nullptr ? status != IBCOLL_OK : !refused)
      rank.complain(fmt::format("{}: {} {}", what, static_cast<int>(status), ibcoll_last_error()));
  };
  const auto text = [&](const char* who) {
    return refusal == nullptr ? "" : fmt::format("the receive blocks of {}s {}", who, refusal);
  };
  expect("alltoallv",
         ibcoll_alltoallv(world, mine.data(), sent.data(), from.data(), all.data(), counts.data(),
                          to.displacements.data(), nullptr),
         text("rank"));
  expect("allgatherv",
         ibcoll_allgatherv(world, mine.data(), own, all.data(), counts.data(),
                           to.displacements.data(), nullptr),
         text("rank"));
  if (refusal == nullptr || me == 1) {
    expect("gatherv",
           ibcoll_gatherv(world, mine.data(), own, all.data(), counts.data(),
                          to.displacements.data(), 1, nullptr),
           text("rank"));
  }
  const std::vector<int> everybody = {0, 1, 2};
  ibcoll_graph* graph = nullptr;
  if (!rank.good(ibcoll_graph_create(world, 3, everybody.data(), 3, everybody.data(), &graph),
                 "graph"))
    return;
  expect("neighbor_allgatherv",
         ibcoll_neighbor_allgatherv(graph, mine.data(), own, all.data(), counts.data(),
                                    to.displacements.data(), nullptr),
         text("neighbour"));
  expect("neighbor_alltoallv",
         ibcoll_neighbor_alltoallv(graph, mine.data(), sent.data(), from.data(), all.data(),
                                   counts.data(), to.displacements.data(), nullptr),
         text("neighbour"));
  rank.good(ibcoll_graph_free(graph), "free");
  ibcoll_call call = ibcoll_call_allgatherv(mine.data(), own, all.data(), counts.data(),
                                            to.displacements.data(), nullptr);
  call.flags = IBCOLL_PERSISTENT;
  ibcoll_request* request = nullptr;
  expect("persistent", ibcoll_call_init(world, &call, &request), text("rank"));
  if (request != nullptr) rank.good(ibcoll_call_free(request), "free");
}

TEST(OverlappingBlocks, AreRefusedByEveryCallThatReceivesThem) {
  const auto run = [](const Places& to, const char* refusal) {
    for (const char* layout : {"3", "2,1"}) {
      EXPECT_EQ(launched(layout, 3, [&](const ApiRank& rank) { receive_at(rank, to, refusal); }),
                "")
          << layout << ": " << (refusal == nullptr ? "taken" : refusal);
    }
  };
  run({{8, 16, 8}, {0, 8, 24}}, nullptr);
  run({{8, 16, 8}, {40, 16, 0}}, nullptr);
  // What has no bytes lies anywhere.
  run({{8, 0, 8}, {8, 12, 16}}, nullptr);
  run({{16, 0, 8}, {8, 8, 0}}, nullptr);
  run({{8, 16, 8}, {0, 7, 24}},
      "0 and 1 overlap: they reach from byte 0 to 8 and from byte 7 to 23 of the buffer");
  run({{8, 16, 8}, {24, 9, 0}}, "0 and 1 overlap");
  run({{8, 16, 8}, {4, 16, 4}}, "0 and 2 overlap");
}

TEST(OverlappingBlocks, MayLieBetweenEachOthersRuns) {
  const auto body = [](const ApiRank& rank) {
    ibcoll_group* const world = ibcoll_world(rank.context);
    std::vector<int64_t> mine(12, ibcoll_rank(rank.context)), all(12);
    const std::vector<ibcoll_block> rows(3, ibcoll_block_contiguous(0, 32));
    // Columns of a matrix of four rows, from right to left.
    std::vector<ibcoll_block> columns;
    for (int64_t from = 0; from < 3; ++from)
      columns.push_back(ibcoll_block_vector(16 - 8 * from, 8, 4, 24));
    if (rank.good(
            ibcoll_alltoallw(world, mine.data(), rows.data(), all.data(), columns.data(), nullptr),
            "columns")) {
      for (size_t i = 0; i < all.size(); ++i) {
        if (all[i] != 2 - static_cast<int64_t>(i % 3)) rank.complain("another matrix");
      }
    }
    columns[2].offset += 7;
    const ibcoll_status status =
        ibcoll_alltoallw(world, mine.data(), rows.data(), all.data(), columns.data(), nullptr);
    const std::string line = ibcoll_last_error();
    if (status != IBCOLL_ERR_INVALID ||
        line.find("the receive blocks of ranks 1 and 2 overlap") == std::string::npos)
      rank.complain(fmt::format("{}: {}", static_cast<int>(status), line));
  };
  for (const char* layout : {"3", "2,1"}) EXPECT_EQ(launched(layout, 3, body), "") << layout;
}

}  // namespace
}  // namespace ibcoll
