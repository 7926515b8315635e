// Reductions in the order of ranks: one tree whatever the layout, the root and the algorithm.

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "engine/schedule/rank_order.h"
#include "tests/algorithm_lists.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::RankView;
using testing::run_job;

/// Neither commutes nor is associative: the result tells how it was made.
uint32_t mix_of(uint32_t a, uint32_t b) { return 3 * a + 5 * b + (a ^ b >> 7); }

template <bool kReversed>
const char* combine(void* target, const void* source, size_t bytes, void*) {
  for (size_t i = 0; i < bytes; i += sizeof(uint32_t)) {
    uint32_t a = 0, b = 0;
    std::memcpy(&a, static_cast<std::byte*>(target) + i, sizeof a);
    std::memcpy(&b, static_cast<const std::byte*>(source) + i, sizeof b);
    const uint32_t result = kReversed ? mix_of(b, a) : mix_of(a, b);
    std::memcpy(static_cast<std::byte*>(target) + i, &result, sizeof result);
  }
  return nullptr;
}

Reduction telling_reduction() {
  Reduction reduction = find_reduction(ElementType::kUint32, Operator::kSum).value();
  reduction.combine = combine<false>;
  reduction.combine_reversed = combine<true>;
  reduction.commutes = false;
  return reduction;
}

uint32_t element(Rank rank, size_t at) {
  return static_cast<uint32_t>(rank) * 7919 + static_cast<uint32_t>(at) * 104729 + 11;
}

/// What the tree makes of an element of ranks first .. end - 1.
uint32_t by_tree(Rank first, Rank end, size_t at) {
  if (end - first == 1) return element(first, at);
  const Rank middle = middle_of(first, end);
  return mix_of(by_tree(first, middle, at), by_tree(middle, end, at));
}

/// Makes the call with elements that tell how they were combined, and compares the result.
void check_tree(const RankView& rank, const Algorithm& algorithm, Rank root, size_t elements,
                uint32_t pieces) {
  Group& group = rank.context.world();
  const Collective collective = algorithm.collective;
  const Rank me = group.rank();
  const auto ranks = static_cast<size_t>(group.size());
  const bool scatters = traits(collective).recv.target == End::kMe;
  std::vector<int64_t> counts(ranks, static_cast<int64_t>(elements));
  if (collective == Collective::kReduceScatter) {
    for (size_t i = 0; i < ranks; ++i) counts[i] = static_cast<int64_t>(i % 3 * elements);
  }
  const auto sum = [&](size_t end) {
    return static_cast<size_t>(std::accumulate(counts.begin(), counts.begin() + end, int64_t{0}));
  };
  std::vector<uint32_t> send(scatters ? sum(ranks) : elements), recv(elements * 2);
  for (size_t i = 0; i < send.size(); ++i) send[i] = element(me, i);
  CallArguments a;
  a.collective = collective;
  a.root = root;
  a.send = send.data();
  a.recv = recv.data();
  a.block_bytes = elements * sizeof(uint32_t);
  a.recv_counts = counts.data();
  a.reduction = telling_reduction();
  a.options.algorithm = algorithm.name;
  a.options.pieces = pieces;
  const std::string name =
      fmt::format("{} {}, root {}, {} elements in {} pieces", to_string(collective), algorithm.name,
                  root, elements, pieces);
  Call call(group);
  if (!rank.good(call.prepare(a), name) || !rank.good(call.start(), name) ||
      !rank.good(call.wait(), name)) {
    return;
  }
  if (recv_slots(collective, group.shape(), me, root) == 0) return;
  const size_t mine = static_cast<size_t>(me);
  const size_t first = scatters ? sum(mine) : 0;
  const size_t count = scatters ? static_cast<size_t>(counts[mine]) : elements;
  const Rank end = contributors(collective, group.shape(), me);
  for (size_t i = 0; i < count; ++i) {
    if (recv[i] == by_tree(0, end, first + i)) continue;
    return rank.complain(fmt::format("{}: element {} was combined in another way", name, i));
  }
}

TEST(ReductionOrder, DependsOnNothingButTheNumberOfRanks) {
  const std::vector<std::vector<int>> layouts = {{1},          {2},
                                                 {3},          {4},
                                                 {5},          {7},
                                                 {8},          {1, 1},
                                                 {2, 1},       {1, 2},
                                                 {2, 2},       {3, 1},
                                                 {1, 1, 1},    {3, 2},
                                                 {4, 4},       {5, 3},
                                                 {3, 1, 2},    {2, 2, 2},
                                                 {1, 4},       {6, 1},
                                                 {2, 2, 2, 2}, {1, 1, 1, 1, 1},
                                                 {4, 1, 3}};
  for (const std::vector<int>& layout : layouts) {
    for (const Placement placement : {Placement::kBlock, Placement::kCyclic}) {
      if (placement == Placement::kCyclic && layout.size() == 1) continue;
      JobOptions job;
      job.shape = Shape::from_layout(layout, placement).value();
      const std::string complaints = run_job(job, [&](const RankView& rank) {
        const Shape& shape = rank.context.world().shape();
        for (const Algorithm& algorithm : algorithms()) {
          if (!reduces(algorithm.collective) || !algorithm.keeps_order(shape)) continue;
          const Rank roots = has_root(algorithm.collective) ? shape.ranks() : 1;
          for (Rank root = 0; root < roots; ++root) {
            check_tree(rank, algorithm, root, 61, 1);
            check_tree(rank, algorithm, root, 5003, 3);
          }
          check_tree(rank, algorithm, 0, 0, 1);
        }
      });
      EXPECT_EQ(complaints, "") << job.shape.describe();
    }
  }
}

TEST(ReductionOrder, IsKeptByWhatTheEngineChooses) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {2, 2}, {3, 1, 2}, {1, 1, 1}}) {
    for (const Collective collective : kCollectives) {
      if (!reduces(collective)) continue;
      const Shape shape = Shape::from_layout(layout, Placement::kCyclic).value();
      for (int64_t bytes = 1; bytes < 1 << 24; bytes *= 4) {
        const Choice choice = choose(
            {.collective = collective, .shape = shape, .block_bytes = bytes, .ordered = true});
        EXPECT_TRUE(find_algorithm(collective, choice.algorithm).value()->keeps_order(shape))
            << to_string(collective) << " " << choice.algorithm << ", " << bytes << " bytes";
      }
    }
  }
}

TEST(ReductionOrder, IsWhyAlgorithmsAreRefusedByName) {
  JobOptions job;
  job.shape = Shape::single_server(3);
  std::vector<const Algorithm*> able = testing::algorithms_of(Collective::kAllreduce);
  std::erase_if(able, [&](const Algorithm* one) { return !one->keeps_order(job.shape); });
  ASSERT_GT(able.size(), 1u);
  const std::string refusal =
      "allreduce algorithm 'ring' can't combine in the order of ranks here: one of " +
      testing::names_of(able);
  EXPECT_EQ(run_job(job,
                    [&](const RankView& rank) {
                      std::vector<int32_t> send(8), recv(8);
                      CallArguments a;
                      a.collective = Collective::kAllreduce;
                      a.send = send.data();
                      a.recv = recv.data();
                      a.block_bytes = 32;
                      a.reduction = find_reduction(ElementType::kInt32, Operator::kSum).value();
                      a.options.algorithm = "ring";
                      a.options.ordered = true;
                      const Status status = Call(rank.context.world()).prepare(a);
                      if (status || status.error().message != refusal)
                        rank.complain(status ? "accepted" : status.error().message);
                    }),
            "");
}

}  // namespace
}  // namespace ibcoll
