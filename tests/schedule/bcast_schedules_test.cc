// Broadcasts that cut the block: what they move, in how many steps, on any number of servers; and
// acknowledgements.

#include <gtest/gtest.h>

#include <numeric>

#include "engine/algorithms/circulant.h"
#include "engine/algorithms/registry.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"

namespace ibcoll {
namespace {

const Algorithm& bcast(std::string_view name) { return **find_algorithm(Collective::kBcast, name); }

Shape one_each(int servers) {
  return Shape::from_layout(std::vector<int>(servers, 1), Placement::kBlock).value();
}

/// Bytes that the busiest port sends and receives, of a block of so many.
struct PortBytes {
  uint64_t out = 0, in = 0;
};

PortBytes port_bytes(const Shape& shape, const Programs& programs, uint64_t block_bytes) {
  std::vector<PortBytes> ports(shape.servers());
  for (const auto& program : programs) {
    for (const Op& op : program->lane(Lane::kSend)) {
      if (op.kind != OpKind::kPut) continue;
      const uint64_t bytes = cut_bytes(block_bytes, program->cut, op.src_first, op.count);
      ports[shape.server_of(program->me)].out += bytes;
      ports[shape.server_of(op.peer)].in += bytes;
    }
  }
  PortBytes most;
  for (const PortBytes& port : ports) {
    most = {std::max(most.out, port.out), std::max(most.in, port.in)};
  }
  return most;
}

constexpr uint64_t kLong = 8 << 20;

TEST(Circulant, SendsAndReceivesOnePartAStepInTheFewestSteps) {
  for (const int servers : {2, 3, 5, 8, 13, 24, 31, 32}) {
    const Shape shape = one_each(servers);
    const CirculantGraph graph(servers);
    for (const uint32_t parts : {1u, 2u, 7u, 64u}) {
      AlgorithmOptions options;
      options.cut = parts;
      const auto programs = build_all(bcast("circulant"), shape, options);
      ASSERT_TRUE(verify(shape, programs, 1).has_value()) << servers << " servers, " << parts;
      uint32_t steps = 0;
      for (const auto& program : programs) steps = std::max(steps, program->steps);
      EXPECT_EQ(steps, parts - 1 + graph.degree()) << servers << " servers, " << parts;
      // The root sends in every step; the last part goes to several.
      const PortBytes most = port_bytes(shape, programs, kLong);
      EXPECT_LE(most.out, steps * cut_slot_bytes(kLong, parts)) << servers;
      EXPECT_EQ(most.in, kLong) << servers;
    }
  }
}

TEST(Circulant, LongBlocksTakeATwentiethMoreThanOneBlockAPort) {
  for (const int servers : {8, 33, 64}) {
    const Shape shape = one_each(servers);
    AlgorithmOptions options;
    options.cut = 128;
    options.root = servers / 3;
    const auto programs = build_all(bcast("circulant"), shape, options);
    ASSERT_TRUE(verify(shape, programs, 1).has_value()) << servers;
    const PortBytes most = port_bytes(shape, programs, kLong);
    EXPECT_LE(most.out, kLong * 105 / 100) << servers;
    EXPECT_EQ(most.in, kLong) << servers;
  }
}

/// In each round of an endless broadcast every place of a circulant graph gets a block that who
/// sends it has had before, and each block once.
TEST(Circulant, SchedulesHoldForEveryNumberOfPlaces) {
  for (int places = 2; places <= 300; ++places) {
    const CirculantGraph graph(places);
    const int degree = graph.degree();
    for (int place = 1; place < places; ++place) {
      const auto blocks = graph.received(place);
      ASSERT_EQ(static_cast<int>(blocks.size()), degree);
      std::vector<bool> seen(degree);
      for (int k = 0; k < degree; ++k) {
        const int block = (blocks[k] + degree) % degree;
        ASSERT_FALSE(seen[block]) << places << " places, place " << place;
        seen[block] = true;
        const int from = (place + places - graph.skip(k)) % places;
        if (from == 0) {
          ASSERT_EQ(blocks[k], k) << places << " places, place " << place;
          continue;
        }
        // The sender gets it in an earlier round of these q, or got it q rounds or more before.
        const auto sent = graph.received(from);
        int came = INT32_MAX;
        for (int round = 0; round < degree; ++round) {
          for (int block = sent[round], at = round; at >= round - 2 * degree;
               at -= degree, block -= degree) {
            if (block == blocks[k]) came = std::min(came, at);
          }
        }
        ASSERT_LT(came, k) << places << " places, place " << place << " from " << from;
      }
    }
  }
}

TEST(ScatterAndGather, BringEachPartOnce) {
  for (const char* name : {"scatter_ring", "scatter_doubling"}) {
    for (const int servers : {2, 3, 6, 16, 23, 33, 64, 100}) {
      const Shape shape = one_each(servers);
      const auto programs = build_all(bcast(name), shape, {});
      const auto report = verify(shape, programs, 1);
      ASSERT_TRUE(report.has_value()) << name << servers << ": " << report.error().message;
      const PortBytes most = port_bytes(shape, programs, kLong);
      EXPECT_EQ(most.in, kLong) << name << " on " << servers;
      EXPECT_LE(most.out, 2 * kLong) << name << " on " << servers;
    }
  }
}

TEST(CutBlocks, HaveSlotsThatComeToTheBlock) {
  for (const uint64_t bytes : {0ull, 1ull, 63ull, 1000ull, 81920ull, 8388608ull, 8388609ull}) {
    for (const uint32_t cut : {1u, 2u, 7u, 64u, 1000u}) {
      uint64_t sum = 0;
      for (uint32_t slot = 0; slot < cut; ++slot) {
        const uint64_t one = cut_bytes(bytes, cut, slot, 1);
        EXPECT_LE(one, cut_slot_bytes(bytes, cut));
        sum += one;
      }
      EXPECT_EQ(sum, bytes) << cut;
      EXPECT_EQ(cut_bytes(bytes, cut, 0, cut), bytes) << cut;
    }
  }
}

/// With a rank whose acknowledgement is missing the root's program never ends: the verifier sees
/// a wait for a token that nobody sends.
TEST(Acks, OfEveryRankAreWaitedFor) {
  const Shape shape =
      Shape::from_layout(std::vector<int>{3, 1, 2, 4, 1}, Placement::kBlock).value();
  AlgorithmOptions options;
  options.acks = true;
  options.root = 4;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != Collective::kBcast) continue;
    const auto programs = build_all(algorithm, shape, options);
    const auto plain = build_all(algorithm, shape, {.root = 4});
    ASSERT_TRUE(verify(shape, programs).has_value()) << algorithm.name;
    EXPECT_NE(programs[0]->hash, plain[0]->hash) << algorithm.name;
    for (Rank rank = 0; rank < shape.ranks(); ++rank) {
      if (rank == options.root) continue;
      auto damaged = programs;
      auto silent = std::make_shared<RankProgram>(*programs[rank]);
      int dropped = 0;
      for (OpList& lane : silent->lanes) {
        if (lane.empty() || lane.back().kind != OpKind::kSignal) continue;
        if (lane.back().step + 1 != silent->steps) continue;
        lane.edit().pop_back();
        ++dropped;
      }
      ASSERT_EQ(dropped, 1) << algorithm.name << ", rank " << rank;
      damaged[rank] = silent;
      EXPECT_FALSE(verify(shape, damaged).has_value()) << algorithm.name << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace ibcoll
