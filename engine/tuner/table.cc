#include "engine/tuner/table.h"

#include <algorithm>

namespace ibcoll {
namespace {

using enum Collective;
using enum PieceRule;
using enum PlanRule;

constexpr int64_t kKb = 1024, kMb = 1024 * kKb;

// Sizes up to which something holds. Those of one server were measured on two cores.

/// log2(P) rounds of half the data beat Ns-1 messages, where servers are many.
constexpr int64_t kBruck = 128;
/// Packing the blocks of a server into one message pays for the extra copy (the paper found 30 KB
/// on DDR InfiniBand).
constexpr int64_t kAggregate = 32 * kKb;
constexpr int64_t kGatherTree = 4 * kKb;
/// On one server a power of two of ranks saves context switches from the one size to the other by
/// doubling; between servers all do up to the larger one.
constexpr int64_t kServerDoublingFrom = 512, kDoubling = 32 * kKb;
/// Where servers are unequal their ranks share the ring from here on.
constexpr int64_t kUnequalRingFrom = kMb;
/// Slices pay from here on: on one port a server they then take as long as a chain, on a port a
/// rank as much less time as there are ranks.
constexpr int64_t kSlicesFrom = 2 * kMb;
/// log2(Ns) whole blocks out of one port beat a chain of pieces.
constexpr int64_t kReduceTree = 512 * kKb;
/// On one server, that all ranks combine pays from here on although the root has to read the
/// result.
constexpr int64_t kReduceShared = 2 * kMb, kReduceSharedByTwo = 4 * kMb;
/// An allreduce of few ranks is fastest in one step in which all send to all.
constexpr int64_t kAllreduceLinear = kKb;
/// It does not pay yet that each rank combines a part only: between servers, and on one server,
/// where a power of two of ranks does it by halving.
constexpr int64_t kAllreduceWhole = 16 * kKb;
constexpr int64_t kServerWhole = 64 * kKb, kServerWholeOfPower = 128 * kKb;
/// On several servers each adds its part to what goes round from here on, if that part is as long
/// as the second figure: simulated, and measured on two to four emulated servers.
constexpr int64_t kRingFrom = kMb, kRingPartFrom = 8 * kKb;
/// Blocks of a reduce_scatter that are longer are best sent by their owners alone.
constexpr int64_t kHalving = 4 * kKb, kShort = 16 * kKb;
constexpr int64_t kScanDoubling = 64 * kKb;
/// Over TCP one message from server to server at a time beats one a rank, with two ranks a server
/// between two sizes only (ib_tune on 2x4 and 4x2 ranks, docs/ucx.md).
constexpr int64_t kSpareAlltoall = 32 * kKb, kSpareGather = 512 * kKb, kSpareReduce = kMb;
constexpr int64_t kSpareGatherFrom = 8 * kKb;
constexpr int64_t kSpareReduceFrom = 32 * kKb, kSpareReduceTo = 128 * kKb;
/// Neighbours: blocks go as one message of a server for another; longer ones where that carries a
/// block for several ranks (ib_sim, docs/algorithms.md).
constexpr int64_t kNeighbor = 512, kNeighborShared = 32 * kKb;

/// Where a rank has fewer connections than peers it makes one anew for each message. Up to here
/// that takes longer than to pass blocks on: of one rank a server, and where the blocks of a server
/// for another go as one message.
constexpr int64_t kFewConnections = 64 * kKb, kFewConnectionsShared = 8 * kKb;

/// What comes behind such a size.
constexpr FirstSize above(int64_t bytes) { return {.block = bytes + 1}; }
constexpr FirstSize from(int64_t bytes) { return {.block = bytes}; }
constexpr FirstSize a_slice_from(int64_t bytes) { return {.a_slice = bytes}; }
constexpr FirstSize kAny = {};
constexpr FirstSize kAllreduceRing = {.block = kRingFrom, .a_server = kRingPartFrom};
constexpr bool kFree = true, kPaced = false;

/// Conditions that stand together.
constexpr Condition kEqualSeveral = kEqualServers | kSeveralAServer;
constexpr Condition kManySeveral = kManyServers | kSeveralAServer;
constexpr Condition kServerTwo = kOneServer | kTwoRanks, kServerFew = kOneServer | kFewRanks;
constexpr Condition kServerPower = kOneServer | kPowerOfTwo;
/// Where messages cost cores' time and sparing them was faster.
constexpr Condition kSparesOfThree =
    kCostsCores | kEqualServers | kThreeAServer | kPlannableServers;
constexpr Condition kSparesOfTwo = kCostsCores | kEqualSeveral | kPlannableServers;

constexpr std::string_view kPlan = "contention_free";

constexpr ChoiceRow kTable[] = {
    {{kAlltoall}, kOneServer, kAny, {"linear"}},
    {{kAlltoall}, kSparesOfThree, kAny, {"contention_free"}},
    {{kAlltoall}, kSparesOfThree, above(kSpareAlltoall), {"two_level_ring"}},
    {{kAlltoall}, kFewForServers | kSeveralAServer, kAny, {"bruck"}},
    {{kAlltoall},
     kFewForServers | kSeveralAServer,
     above(kFewConnectionsShared),
     {"aggregate"},
     kWhole,
     kFree},
    {{kAlltoall}, kFewForServers | kSeveralAServer, above(kAggregate), {"two_level_ring"}},
    {{kAlltoall}, kFewForServers, kAny, {"bruck"}},
    {{kAlltoall},
     kFewForServers,
     above(kFewConnections),
     {"two_level_ring"},
     kWhole,
     kPaced,
     kPlan},
    // One short message a server: to wait for tokens is a round trip a step and keeps no link busy.
    {{kAlltoall}, kManySeveral, kAny, {"bruck"}},
    {{kAlltoall}, kManySeveral, above(kBruck), {"aggregate"}, kWhole, kFree},
    {{kAlltoall}, kManySeveral, above(kAggregate), {"two_level_ring"}},
    {{kAlltoall}, kManyServers, kAny, {"bruck"}},
    {{kAlltoall}, kManyServers, above(kBruck), {"two_level_ring"}, kWhole, kPaced, kPlan},
    {{kAlltoall}, kSeveralAServer, kAny, {"aggregate"}, kWhole, kFree},
    {{kAlltoall}, kSeveralAServer, above(kAggregate), {"two_level_ring"}},
    {{kAlltoall}, kAlways, kAny, {"two_level_ring"}, kWhole, kPaced, kPlan},

    {{kAlltoallv, kAlltoallw}, kOneServer, kAny, {"linear"}},
    {{kAlltoallv, kAlltoallw}, kAlways, kAny, {"two_level_ring"}},

    {{kAllgather}, kServerTwo, kAny, {"linear"}, kRelayed},
    {{kAllgather}, kServerPower, kAny, {"linear"}, kRelayed},
    {{kAllgather}, kServerPower, from(kServerDoublingFrom), {"recursive_doubling"}, kRelayed},
    {{kAllgather}, kServerPower, above(kDoubling), {"linear"}, kRelayed},
    {{kAllgather}, kOneServer, kAny, {"linear"}, kRelayed},
    {{kAllgather}, kSparesOfThree, kAny, {"contention_free"}, kRelayed},
    {{kAllgather}, kSparesOfThree, above(kSpareGather), {"two_level_ring"}, kRelayed},
    {{kAllgather}, kSparesOfTwo, kAny, {"recursive_doubling"}, kRelayed},
    {{kAllgather}, kSparesOfTwo, from(kSpareGatherFrom), {"contention_free"}, kRelayed},
    {{kAllgather}, kSparesOfTwo, above(kSpareGather), {"two_level_ring"}, kRelayed},
    {{kAllgather}, kEqualSeveral, kAny, {"recursive_doubling"}, kRelayed},
    {{kAllgather}, kEqualSeveral, above(kDoubling), {"two_level_ring"}, kRelayed},
    {{kAllgather}, kSharesAlike, kAny, {"recursive_doubling"}, kRelayed},
    {{kAllgather}, kSharesAlike, above(kDoubling), {"ring"}, kRelayed},
    {{kAllgather}, kSharesAlike, from(kUnequalRingFrom), {"two_level_ring"}, kRelayed},
    {{kAllgather}, kAlways, kAny, {"recursive_doubling"}, kRelayed},
    {{kAllgather}, kAlways, above(kDoubling), {"ring"}, kRelayed},

    {{kAllgatherv}, kOneServer, kAny, {"linear"}},
    {{kAllgatherv}, kEqualSeveral, kAny, {"two_level_ring"}},
    {{kAllgatherv}, kAlways, kAny, {"ring"}},

    {{kGather, kScatter}, kOneServer, kAny, {"linear"}},
    {{kGather}, kFewForRanks, kAny, {"binomial"}},
    {{kGather}, kFewForRanks, above(kFewConnections), {"linear"}, kWhole, kPaced, kPlan, kAtBound},
    {{kScatter}, kFewForRanks, kAny, {"binomial"}},
    {{kScatter}, kFewForRanks, above(kFewConnections), {"linear"}},
    {{kGather}, kAlways, kAny, {"binomial"}},
    {{kGather}, kAlways, above(kGatherTree), {"linear"}, kWhole, kPaced, kPlan, kAtBound},
    {{kScatter}, kAlways, kAny, {"binomial"}},
    {{kScatter}, kAlways, above(kGatherTree), {"linear"}},
    {{kGatherv, kScatterv}, kAlways, kAny, {"linear"}},

    // The circulant graph takes fewer steps than the chain, but only on a network that carries any
    // permutation of the servers at once: where that is not known it may take many times as long.
    {{kBcast}, kByLeaders, kAny, {"binomial", "scatter_doubling", "chain"}, kOwn},
    {{kBcast}, kOneServer, kAny, {"binomial"}, kInCache},
    {{kBcast}, kSharesAlike, kAny, {"binomial", "scatter_doubling", "chain"}, kOwn},
    {{kBcast}, kSharesAlike, a_slice_from(kSlicesFrom), {"scatter_doubling", "two_level"}, kOwn},
    {{kBcast}, kAlways, kAny, {"binomial", "scatter_doubling", "chain"}, kOwn},

    {{kReduce}, kOneServer | kOrdered, kAny, {"binomial"}, kInCache},
    {{kReduce}, kServerTwo, kAny, {"binomial"}, kInCache},
    {{kReduce}, kServerTwo, from(kReduceSharedByTwo), {"two_level"}, kPart},
    {{kReduce}, kOneServer, kAny, {"binomial"}, kInCache},
    {{kReduce}, kOneServer, from(kReduceShared), {"two_level"}, kPart},
    {{kReduce}, kOrdered, kAny, {"binomial"}, kRelayed},
    {{kReduce}, kAlways, kAny, {"binomial"}, kRelayed},
    {{kReduce}, kAlways, above(kReduceTree), {"chain"}, kRelayed},

    {{kBarrier}, kAlways, kAny, {"dissemination"}},

    {{kAllreduce}, kServerTwo, kAny, {"linear"}, kPart},
    {{kAllreduce}, kServerTwo, above(kAllreduceLinear), {"recursive_doubling"}, kPart},
    {{kAllreduce}, kServerFew | kPowerOfTwo, kAny, {"linear"}, kPart},
    {{kAllreduce},
     kServerFew | kPowerOfTwo,
     above(kAllreduceLinear),
     {"recursive_doubling"},
     kPart},
    {{kAllreduce}, kServerFew | kPowerOfTwo, above(kServerWholeOfPower), {"rabenseifner"}, kPart},
    {{kAllreduce}, kServerFew, kAny, {"linear"}, kPart},
    {{kAllreduce}, kServerFew, above(kAllreduceLinear), {"recursive_doubling"}, kPart},
    {{kAllreduce}, kServerFew, above(kServerWhole), {"two_level"}, kPart},
    {{kAllreduce}, kServerPower, kAny, {"recursive_doubling"}, kPart},
    {{kAllreduce}, kServerPower, above(kServerWholeOfPower), {"rabenseifner"}, kPart},
    {{kAllreduce}, kOneServer, kAny, {"recursive_doubling"}, kPart},
    {{kAllreduce}, kOneServer, above(kServerWhole), {"two_level"}, kPart},
    {{kAllreduce}, kTwoRanks, kAny, {"recursive_doubling"}, kPart},
    {{kAllreduce}, kOrdered | kPowerOfTwo, kAny, {"recursive_doubling"}, kPart},
    {{kAllreduce}, kOrdered | kPowerOfTwo, above(kAllreduceWhole), {"rabenseifner"}, kPart},
    {{kAllreduce}, kOrdered, kAny, {"recursive_doubling"}, kPart},
    {{kAllreduce}, kSparesOfThree, kAny, {"contention_free"}, kRelayed},
    {{kAllreduce}, kSparesOfThree, above(kSpareReduce), {"two_level_ring"}, kPart},
    {{kAllreduce}, kSparesOfTwo, kAny, {"recursive_doubling"}, kPart},
    {{kAllreduce}, kSparesOfTwo, above(kAllreduceWhole), {"two_level"}, kPart},
    {{kAllreduce}, kSparesOfTwo, from(kSpareReduceFrom), {"contention_free"}, kRelayed},
    {{kAllreduce}, kSparesOfTwo, above(kSpareReduceTo), {"two_level"}, kPart},
    {{kAllreduce}, kSparesOfTwo, kAllreduceRing, {"two_level_ring"}, kPart},
    {{kAllreduce}, kAlways, kAny, {"recursive_doubling"}, kPart},
    {{kAllreduce}, kAlways, above(kAllreduceWhole), {"two_level"}, kPart},
    {{kAllreduce}, kAlways, kAllreduceRing, {"two_level_ring"}, kPart},

    {{kReduceScatter, kReduceScatterBlock}, kServerTwo | kOrdered, kAny, {"pairwise"}, kRelayed},
    {{kReduceScatter, kReduceScatterBlock}, kServerTwo, kAny, {"halving"}, kRelayed},
    {{kReduceScatter, kReduceScatterBlock}, kServerFew, kAny, {"linear"}, kRelayed},
    {{kReduceScatter, kReduceScatterBlock}, kServerFew, above(kShort), {"pairwise"}, kRelayed},
    {{kReduceScatter, kReduceScatterBlock}, kOrdered, kAny, {"pairwise"}, kRelayed},
    {{kReduceScatter, kReduceScatterBlock}, kServerPower, kAny, {"halving"}, kRelayed},
    {{kReduceScatter, kReduceScatterBlock}, kServerPower, above(kShort), {"pairwise"}, kRelayed},
    {{kReduceScatter, kReduceScatterBlock}, kOneServer, kAny, {"halving"}, kRelayed},
    {{kReduceScatter, kReduceScatterBlock}, kOneServer, above(kHalving), {"pairwise"}, kRelayed},
    {{kReduceScatter, kReduceScatterBlock}, kAlways, kAny, {"halving"}, kRelayed},
    {{kReduceScatter, kReduceScatterBlock}, kAlways, above(kHalving), {"ring"}, kRelayed},

    {{kScan, kExscan}, kOrdered, kAny, {"doubling"}, kRelayed},
    // A chain is never slower, since nobody waits for those behind.
    {{kScan, kExscan}, kServerFew, kAny, {"chain"}, kRelayed},
    {{kScan, kExscan}, kAlways, kAny, {"doubling"}, kRelayed},
    {{kScan, kExscan}, kAlways, above(kScanDoubling), {"chain"}, kRelayed},

    {{kNeighborAllgather}, kSharedMessages | kSharedBlocks, kAny, {"aggregated"}},
    {{kNeighborAllgather}, kSharedMessages | kSharedBlocks, above(kNeighborShared), {"direct"}},
    {{kNeighborAllgather, kNeighborAlltoall}, kSharedMessages, kAny, {"aggregated"}},
    {{kNeighborAllgather, kNeighborAlltoall}, kSharedMessages, above(kNeighbor), {"direct"}},
    {{kNeighborAllgather, kNeighborAlltoall}, kAlways, kAny, {"direct"}},
    {{kNeighborAllgatherv, kNeighborAlltoallv, kNeighborAlltoallw}, kAlways, kAny, {"direct"}},
};

constexpr bool same_block(const ChoiceRow& a, const ChoiceRow& b) {
  return a.collectives == b.collectives && a.when == b.when;
}

/// A block begins with any size, and what is behind a row for all calls of a collective would never
/// count. Rows that compare costs leave pieces to the algorithm.
constexpr bool is_sound() {
  for (const Collective collective : kCollectives) {
    bool always = false;
    const ChoiceRow* before = nullptr;
    for (const ChoiceRow& row : kTable) {
      if (row.algorithms[1].empty() == (row.pieces == kOwn)) return false;
      if (!row.collectives.contain(collective)) continue;
      const bool begins = before == nullptr || !same_block(*before, row);
      if (begins && (always || row.from.block != 0 || row.from.a_slice != 0)) return false;
      if (!begins && row.from.block < before->from.block && row.from.a_slice == 0) return false;
      always = row.when == kAlways;
      before = &row;
    }
    if (!always) return false;
  }
  return true;
}
static_assert(is_sound());

/// By collective: its first row.
constexpr auto kFirstRow = [] {
  std::array<uint8_t, kCollectives.size()> first{};
  static_assert(std::size(kTable) <= UINT8_MAX);
  for (const Collective collective : kCollectives) {
    uint8_t& row = first[static_cast<size_t>(collective)];
    while (!kTable[row].collectives.contain(collective)) ++row;
  }
  return first;
}();

}  // namespace

std::span<const ChoiceRow> table_of_choices() { return kTable; }

const ChoiceRow& row_for(const CallFacts& facts) {
  const int64_t bytes = facts.block_bytes < 0 ? INT64_MAX : facts.block_bytes;
  const auto* row = kTable + kFirstRow[static_cast<size_t>(facts.collective)];
  while (!row->collectives.contain(facts.collective) || !hold(row->when, facts)) {
    const auto* const failed = row++;
    while (same_block(*row, *failed)) ++row;
  }
  for (const auto* next = row + 1; next != std::end(kTable) && same_block(*next, *row); ++next) {
    if (next->from.of(facts.shape) > bytes) break;
    row = next;
  }
  return *row;
}

namespace {

/// A row is near whose sizes begin or end so many times as far up or down as a call's.
constexpr int64_t kNear = 16;
/// Of a rank's data.
constexpr int64_t kMostToTry = 16 * kMb;

bool is_near(const ChoiceRow& row, const CallFacts& facts) {
  const int64_t bytes = facts.block_bytes;
  const ChoiceRow* const next = &row + 1;
  const bool ends = next != std::end(kTable) && same_block(*next, row);
  return row.from.of(facts.shape) / kNear <= bytes &&
         (!ends || bytes / kNear < next->from.of(facts.shape));
}

void add(std::string_view name, const CallFacts& facts, std::string_view chosen,
         AlgorithmNames& all) {
  const std::span<const std::string_view> so_far(all.names.data(), all.count);
  if (all.count == all.names.size() || name == chosen || std::ranges::count(so_far, name) != 0)
    return;
  const Algorithm* const algorithm = look_up_algorithm(facts.collective, name);
  if (algorithm->spec->planned) return;
  if (facts.ordered && reduces(facts.collective) && !algorithm->keeps_order(facts.shape)) return;
  all.names[all.count++] = name;
}

}  // namespace

AlgorithmNames worth_trying(const CallFacts& facts, std::string_view chosen) {
  AlgorithmNames all;
  const int64_t most = kMostToTry / (has_one_block(facts.collective) ? 1 : facts.shape.ranks());
  if (has_graph(facts.collective) || facts.block_bytes < 0 || facts.block_bytes > most) return all;
  const ChoiceRow& decides = row_for(facts);
  for (const bool alike : {true, false}) {
    for (const ChoiceRow& row : kTable) {
      if (!row.collectives.contain(facts.collective) || same_block(row, decides) != alike ||
          !is_near(row, facts))
        continue;
      for (const std::string_view name : row.algorithms) {
        if (name.empty()) break;
        add(name, facts, chosen, all);
      }
    }
  }
  return all;
}

}  // namespace ibcoll
