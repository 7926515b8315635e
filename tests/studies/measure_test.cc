#include <gtest/gtest.h>

#include <map>

#include "engine/bootstrap/launch.h"
#include "studies/measure/collective_bench.h"
#include "studies/measure/copy_speed.h"
#include "studies/measure/pattern.h"
#include "studies/measure/traffic.h"

namespace ibcoll::measure {
namespace {

TEST(Traffic, BlocksFillBuffersWithoutGapOrOverlap) {
  for (const Collective collective : {Collective::kAlltoall, Collective::kAlltoallv}) {
    for (const int ranks : {1, 2, 3, 4, 5, 8, 13}) {
      for (const int64_t bytes : {0, 1, 7, 4096}) {
        const Traffic traffic(collective, ranks, bytes);
        int64_t sent = 0, received = 0;
        for (Rank rank = 0; rank < ranks; ++rank) {
          int64_t send = 0, receive = 0;
          for (Rank peer = 0; peer < ranks; ++peer) {
            ASSERT_EQ(traffic.send_offset(rank, peer), send);
            ASSERT_EQ(traffic.receive_offset(rank, peer), receive);
            send += traffic.bytes(rank, peer);
            receive += traffic.bytes(peer, rank);
          }
          ASSERT_EQ(traffic.send_bytes(rank), send);
          ASSERT_EQ(traffic.receive_bytes(rank), receive);
          sent += send;
          received += receive;
        }
        EXPECT_EQ(sent, received);
        EXPECT_EQ(traffic.total_bytes(), received);
        EXPECT_EQ(traffic.footprint_bytes(), sent + received);
      }
    }
  }
}

TEST(Traffic, AlltoallvSendsThreeDifferentSizesWithTheNominalMean) {
  const Traffic traffic(Collective::kAlltoallv, 6, 1001);
  std::map<int64_t, int> pairs;
  for (Rank origin = 0; origin < 6; ++origin) {
    for (Rank target = 0; target < 6; ++target) ++pairs[traffic.bytes(origin, target)];
  }
  EXPECT_EQ(pairs, (std::map<int64_t, int>{{500, 12}, {1001, 12}, {1502, 12}}));
}

TEST(Traffic, AllgatherSendsOneBlockToEverybody) {
  const Traffic traffic(Collective::kAllgather, 5, 100);
  EXPECT_EQ(traffic.send_bytes(3), 100);
  EXPECT_EQ(traffic.send_offset(3, 4), 0);
  EXPECT_EQ(traffic.receive_offset(4, 3), 300);
  EXPECT_EQ(traffic.total_bytes(), 2500);
}

/// Msg (Np - Nlp) Nlp, as Naruse et al. define it.
TEST(Traffic, BusiestServerOfEqualServersIsTheSpecsFormula) {
  const Shape shape = *Shape::from_layout(std::vector<int>(24, 8), Placement::kCyclic);
  const Traffic traffic(Collective::kAlltoall, 192, 1 << 20);
  EXPECT_EQ(traffic.busiest_server_bytes(shape), int64_t{1 << 20} * (192 - 8) * 8);
}

TEST(Traffic, BusiestServerOfUnequalServersSendsMost) {
  const Traffic traffic(Collective::kAlltoall, 6, 10);
  const Shape shape = *Shape::from_layout(std::vector<int>{3, 1, 2}, Placement::kBlock);
  EXPECT_EQ(traffic.busiest_server_bytes(shape), 3 * 3 * 10);
  EXPECT_EQ(traffic.busiest_server_bytes(Shape::single_server(6)), 0);
}

TEST(Pattern, EveryPlaceOriginTargetAndIterationDiffers) {
  constexpr size_t kBytes = 10'000;
  std::vector<std::byte> data(kBytes);
  const PatternKey key{3, 5, 7};
  fill_pattern(data.data(), kBytes, key);
  EXPECT_EQ(find_difference(data.data(), kBytes, key), std::nullopt);
  for (const PatternKey other : {PatternKey{5, 3, 7}, PatternKey{3, 5, 8}, PatternKey{4, 5, 7},
                                 PatternKey{3, Block::kEveryone, 7}}) {
    EXPECT_TRUE(find_difference(data.data(), kBytes, other).has_value());
  }
  // A block that landed eight bytes too early is seen as well.
  EXPECT_EQ(find_difference(data.data() + 8, kBytes - 8, key), 0u);
}

TEST(Pattern, FindsTheOneByteThatIsWrong) {
  std::vector<std::byte> data(9001);
  for (const size_t wrong : {0, 1, 4095, 4096, 8999, 9000}) {
    fill_pattern(data.data(), data.size(), {1, 2, 3});
    data[wrong] ^= std::byte{0x10};
    EXPECT_EQ(find_difference(data.data(), data.size(), {1, 2, 3}), wrong);
  }
}

TEST(SelectContenders, ComparesPacingsOfPacedAlgorithmsOnly) {
  const auto chosen =
      select_contenders(Collective::kAlltoall, "ring,two_level_ring", "free,gate_token");
  ASSERT_TRUE(chosen) << chosen.error().message;
  std::vector<std::string> labels;
  for (const Contender& contender : *chosen) labels.push_back(contender.label());
  EXPECT_EQ(labels,
            (std::vector<std::string>{"ring", "two_level_ring/free", "two_level_ring/gate_token"}));
}

TEST(SelectContenders, AnUnknownNameIsRefusedWithTheNamesThereAre) {
  const auto unknown = select_contenders(Collective::kAlltoall, "rnig", "");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("rnig"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("two_level_ring"), std::string::npos);
  EXPECT_FALSE(select_contenders(Collective::kAlltoall, "", ""));
  EXPECT_FALSE(select_contenders(Collective::kAlltoall, "ring", "sometimes"));
}

TEST(CopySpeed, AllRanksSeeTheSameTimesForEveryCollective) {
  constexpr int kRanks = 5;
  const Result<int> status = launch_threads(kRanks, [](Bootstrap& bootstrap) {
    const Traffic largest(Collective::kAlltoallv, kRanks, 3000);
    auto speed = CopySpeed::create(bootstrap, largest);
    if (!speed) return 1;
    for (const Collective collective :
         {Collective::kAlltoall, Collective::kAlltoallv, Collective::kAllgather}) {
      for (const int64_t bytes : {1, 999, 2000}) {
        const auto best = speed->best(Traffic(collective, kRanks, bytes), 3);
        if (!best || best->call_ns <= 0) return 2;
        double all[kRanks];
        if (!bootstrap.allgather(&best->call_ns, sizeof best->call_ns, all)) return 3;
        for (const double one : all) {
          if (one != best->call_ns) return 4;
        }
      }
    }
    const auto nothing = speed->best(Traffic(Collective::kBarrier, kRanks, 0), 3);
    return nothing && nothing->call_ns == 0 ? 0 : 5;
  });
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(*status, 0);
}

}  // namespace
}  // namespace ibcoll::measure
