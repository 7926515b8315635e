#include "engine/tuner/choose.h"

#include <algorithm>
#include <bit>

#include "engine/tuner/bcast.h"

namespace ibcoll {
namespace {

/// A step of the 2-Level Ring moves at most n * n blocks between two servers; below this it is
/// shorter than ten token latencies of about 2 us on a link of 12.5 GB/s.
constexpr int64_t kTokenStepBytes = 256 * 1024;
/// Above this many bytes a pair, packing blocks into one message a server no longer pays for the
/// extra copy (the paper found 30 KB on DDR InfiniBand).
constexpr int64_t kAggregateBytes = 32 * 1024;
/// Below this, log2(P) rounds of half the data beat Ns-1 messages, where servers are many.
constexpr int64_t kBruckBytes = 128;
constexpr int kBruckServers = 32;
constexpr int64_t kAllgatherRingBytes = 32 * 1024;
/// On one server, a power of two of ranks, more than two, save context switches by doubling with
/// blocks from here to kAllgatherRingBytes (measured on two cores, as all below of one server).
constexpr int64_t kAllgatherDoublingBytes = 512;
/// Where servers are unequal their ranks share the ring from here on.
constexpr int64_t kUnequalRingBytes = 1024 * 1024;
constexpr int64_t kRelayPieceBytes = 64 * 1024;
/// Pieces of broadcasts and reduces on one server, where nobody relays: what goes through the rings
/// where memory is private (shm::Options), which is faster than to have it read; and in a reduce
/// they stay in a cache between one rank's data and the next one's.
constexpr int64_t kServerPieceBytes = 128 * 1024;
constexpr uint32_t kMaxServerPieces = 256;
/// Above this, packing the blocks of servers into one message costs more than the messages it
/// saves.
constexpr int64_t kGatherBinomialBytes = 4 * 1024;
/// Above this, a chain of pieces beats log2(Ns) whole blocks out of one port.
constexpr int64_t kChainBytes = 512 * 1024;
constexpr uint32_t kMaxPieces = 16;
/// A plan pays when it takes this part of what the algorithm takes that needs none.
constexpr double kWorthAPlan = 0.95;
/// All at once, a gather reaches the bound where nothing is lost and nobody held up; not to risk
/// that is worth this much.
constexpr double kMostForOrder = 1.05;
constexpr int kMostServersUnasked = 128;
/// Up to this much, an allreduce of few ranks is fastest in one step in which all send to all.
constexpr int64_t kAllreduceLinearBytes = 1024;
constexpr int kAllreduceLinearRanks = 8;
/// Above this, it pays that each rank combines a part only, with more than two ranks: between
/// servers, and on one server, where a power of two of them does it by halving.
constexpr int64_t kAllreduceSliceBytes = 16 * 1024;
constexpr int64_t kServerSliceBytes = 64 * 1024;
constexpr int64_t kServerHalvingBytes = 128 * 1024;
/// On several servers each adds its part to what goes round from here on, if that part is as long
/// as the second figure: simulated, and measured on two to four emulated servers.
constexpr int64_t kAllreduceRingBytes = 1024 * 1024;
constexpr int64_t kAllreduceRingPartBytes = 8 * 1024;
/// Of a reduce_scatter: above this, every block is sent by its owners alone.
constexpr int64_t kHalvingBytes = 4 * 1024;
constexpr int64_t kServerHalvedBytes = 16 * 1024;
constexpr int64_t kScanChainBytes = 64 * 1024;
/// Over TCP, one message from server to server at a time beats one a rank: from so many ranks a
/// server on up to these sizes of a block, with two ranks between them and others (ib_tune on 2x4
/// and 4x2 ranks, docs/ucx.md).
constexpr int kSpareRanks = 3;
constexpr int64_t kSpareAlltoallBytes = 32 * 1024;
constexpr int64_t kSpareAllgatherBytes = 512 * 1024;
constexpr int64_t kSpareAllreduceBytes = 1024 * 1024;
constexpr int64_t kSpareAllgatherFrom = 8 * 1024;
constexpr int64_t kSpareAllreduceFrom = 32 * 1024, kSpareAllreduceTo = 128 * 1024;
/// On one server with so few ranks a scan's chain is never slower, since nobody waits for those
/// behind, and short blocks of a reduce_scatter go best to all at once.
constexpr int kServerFewRanks = 8;
/// Neighbour collectives: blocks up to this size go as one message where there are so many for a
/// server in the mean; up to the larger size where a message carries a block for so many ranks
/// (ib_sim, docs/algorithms.md).
constexpr int64_t kNeighborBytes = 512;
constexpr int64_t kNeighborSharedBytes = 32 * 1024;
constexpr uint64_t kNeighborBlocks = 2;

}  // namespace

uint32_t choose_pieces(int64_t block_bytes, const TransferPlan* plan) {
  if (plan != nullptr && !plan->relays) return plan->pieces;
  uint32_t pieces = 1;
  while (pieces < kMaxPieces && block_bytes / (2 * pieces) >= kRelayPieceBytes) pieces *= 2;
  return plan == nullptr ? pieces : std::max(pieces, plan->pieces);
}

static uint32_t server_pieces(int64_t block_bytes) {
  uint32_t pieces = 1;
  while (pieces < kMaxServerPieces && block_bytes / pieces > kServerPieceBytes) pieces *= 2;
  return pieces;
}

uint32_t choose_pieces(std::string_view algorithm, Collective collective, const Shape& shape,
                       int64_t block_bytes) {
  return collective == Collective::kBcast ? bcast_pieces(algorithm, shape, block_bytes)
                                          : choose(collective, shape, block_bytes).pieces;
}

bool may_pay(const Choice& choice, Collective collective, const Shape& shape) {
  // All that a server sends passes through one of its ranks; and planning for thousands of servers
  // takes seconds, which only who asks for it should wait for.
  const int servers = shape.servers();
  if (servers < 3 || servers > kMostServersUnasked || shape.max_server_size() > 1) return false;
  return collective == Collective::kGather     ? choice.algorithm == "linear"
         : collective == Collective::kAlltoall ? choice.algorithm == "two_level_ring"
                                               : false;
}

bool plan_pays(const TransferPlan& plan, Collective collective, double walk_ns) {
  const auto time_ns = static_cast<double>(plan.time_ns);
  if (collective == Collective::kGather) {
    return plan.keeps_time && time_ns <= kMostForOrder * static_cast<double>(plan.bound_ns);
  }
  return time_ns < kWorthAPlan * walk_ns;
}

Pacing choose_pacing(const Shape& shape, int64_t block_bytes) {
  const int64_t step_blocks = int64_t{shape.max_server_size()} * shape.max_server_size();
  return block_bytes >= 0 && block_bytes < kTokenStepBytes / step_blocks ? Pacing::kGate
                                                                         : Pacing::kGateToken;
}

/// Of the collectives in which all ranks combine, on one server.
static std::string_view choose_reduction(Collective collective, int ranks, int64_t block_bytes,
                                         bool ordered) {
  const bool power_of_two = std::has_single_bit(static_cast<unsigned>(ranks));
  switch (collective) {
    case Collective::kScan:
    case Collective::kExscan:
      if (ordered) return "doubling";
      return ranks <= kServerFewRanks || block_bytes > kScanChainBytes ? "chain" : "doubling";
    case Collective::kAllreduce:
      if (block_bytes <= kAllreduceLinearBytes && ranks <= kAllreduceLinearRanks) return "linear";
      if (block_bytes <= (power_of_two ? kServerHalvingBytes : kServerSliceBytes) || ranks <= 2)
        return "recursive_doubling";
      return power_of_two ? "rabenseifner" : "two_level";
    default:
      if (ranks > 2 && ranks <= kServerFewRanks && block_bytes <= kServerHalvedBytes)
        return "linear";
      if (ordered) return "pairwise";
      return ranks <= 2 || block_bytes <= (power_of_two ? kServerHalvedBytes : kHalvingBytes)
                 ? "halving"
                 : "pairwise";
  }
}

/// The same of several servers.
static std::string_view choose_reduction(Collective collective, const Shape& shape,
                                         int64_t block_bytes, bool ordered) {
  const int ranks = shape.ranks();
  if (shape.servers() == 1) return choose_reduction(collective, ranks, block_bytes, ordered);
  if (collective == Collective::kScan || collective == Collective::kExscan)
    return ordered || block_bytes <= kScanChainBytes ? "doubling" : "chain";
  if (collective != Collective::kAllreduce) {
    if (ordered) return "pairwise";
    return block_bytes <= kHalvingBytes ? "halving" : "ring";
  }
  if (block_bytes <= kAllreduceSliceBytes || ranks <= 2) return "recursive_doubling";
  if (ordered) {
    return std::has_single_bit(static_cast<unsigned>(ranks)) ? "rabenseifner"
                                                             : "recursive_doubling";
  }
  const bool ring = block_bytes >= kAllreduceRingBytes &&
                    block_bytes / shape.servers() >= kAllreduceRingPartBytes;
  return ring ? "two_level_ring" : "two_level";
}

/// An allgather on one server.
static std::string_view choose_allgather(int ranks, int64_t block_bytes) {
  const bool doubles = ranks > 2 && std::has_single_bit(static_cast<unsigned>(ranks)) &&
                       block_bytes >= kAllgatherDoublingBytes && block_bytes <= kAllgatherRingBytes;
  return doubles ? "recursive_doubling" : "linear";
}

/// Whether it pays to send what a server has for another as one message.
static bool aggregates(Collective collective, const Graph& graph, int64_t block_bytes) {
  const Graph::Totals& totals = graph.totals();
  if (block_bytes < 0 || totals.pairs == 0) return false;
  const bool shared = collective == Collective::kNeighborAllgather &&
                      totals.crossing >= kNeighborBlocks * totals.origins;
  return block_bytes <= (shared ? kNeighborSharedBytes : kNeighborBytes) &&
         totals.crossing >= kNeighborBlocks * totals.pairs;
}

Choice choose(Collective collective, const Shape& shape, int64_t block_bytes, bool ordered,
              const Graph* graph) {
  Choice choice;
  choice.options.pacing = choose_pacing(shape, block_bytes);
  const bool single = shape.servers() == 1;
  const bool shared =
      !single && (shape.equal_servers() ? shape.max_server_size() > 1
                                        : shares_alike(shape) && block_bytes >= kUnequalRingBytes);
  switch (collective) {
    case Collective::kAlltoall:
      if (single) {
        choice.algorithm = "linear";
      } else if (block_bytes <= kBruckBytes && shape.servers() >= kBruckServers) {
        choice.algorithm = "bruck";
      } else if (block_bytes <= kAggregateBytes && shape.max_server_size() > 1) {
        choice.algorithm = "aggregate";
        // One short message a server: a wait for tokens is a round trip a step and keeps no link
        // busy.
        choice.options.pacing = Pacing::kFree;
      } else {
        choice.algorithm = "two_level_ring";
      }
      break;
    case Collective::kAlltoallv:
    case Collective::kAlltoallw:
      choice.algorithm = single ? "linear" : "two_level_ring";
      break;
    case Collective::kAllgather:
      choice.algorithm = single ? choose_allgather(shape.ranks(), block_bytes)
                         : block_bytes <= kAllgatherRingBytes ? "recursive_doubling"
                         : shared                             ? "two_level_ring"
                                                              : "ring";
      choice.pieces = choose_pieces(block_bytes);
      break;
    case Collective::kAllgatherv:
      choice.algorithm = single ? "linear" : shared ? "two_level_ring" : "ring";
      break;
    case Collective::kGather:
    case Collective::kScatter:
      choice.algorithm = single || block_bytes > kGatherBinomialBytes ? "linear" : "binomial";
      break;
    case Collective::kGatherv:
    case Collective::kScatterv:
      choice.algorithm = "linear";
      break;
    case Collective::kBcast: {
      const BcastChoice bcast = choose_bcast(shape, block_bytes);
      choice.algorithm = bcast.algorithm;
      choice.pieces = single ? server_pieces(block_bytes) : bcast.pieces;
      break;
    }
    case Collective::kReduce:
      choice.algorithm = single || ordered || block_bytes <= kChainBytes ? "binomial" : "chain";
      choice.pieces = single ? server_pieces(block_bytes) : choose_pieces(block_bytes);
      break;
    case Collective::kBarrier:
      choice.algorithm = "dissemination";
      break;
    case Collective::kAllreduce:
    case Collective::kReduceScatter:
    case Collective::kReduceScatterBlock:
    case Collective::kScan:
    case Collective::kExscan:
      choice.algorithm = choose_reduction(collective, shape, block_bytes, ordered);
      // What is passed on at a time is a part of an allreduce's block.
      choice.pieces = choose_pieces(
          collective == Collective::kAllreduce ? block_bytes / shape.ranks() : block_bytes);
      break;
    case Collective::kNeighborAllgather:
    case Collective::kNeighborAllgatherv:
    case Collective::kNeighborAlltoall:
    case Collective::kNeighborAlltoallv:
    case Collective::kNeighborAlltoallw:
      choice.algorithm =
          graph != nullptr && aggregates(collective, *graph, block_bytes) ? "aggregated" : "direct";
      break;
  }
  return choice;
}

void spare_messages(Choice& choice, Collective collective, const Shape& shape,
                    int64_t block_bytes) {
  if (shape.servers() == 1 || shape.servers() > kMostServersUnasked || !shape.equal_servers() ||
      shape.max_server_size() == 1)
    return;
  const bool many = shape.max_server_size() >= kSpareRanks;
  const auto within = [block_bytes](int64_t from, int64_t to) {
    return from <= block_bytes && block_bytes <= to;
  };
  const bool spares =
      collective == Collective::kAlltoall ? many && within(0, kSpareAlltoallBytes)
      : collective == Collective::kAllgather
          ? within(many ? 0 : kSpareAllgatherFrom, kSpareAllgatherBytes)
      : collective == Collective::kAllreduce
          ? within(many ? 0 : kSpareAllreduceFrom, many ? kSpareAllreduceBytes : kSpareAllreduceTo)
          : false;
  if (spares) choice.algorithm = "contention_free";
}

Choice choose(const Rules& rules, Collective collective, const Shape& shape, int64_t block_bytes,
              int64_t rule_bytes, bool ordered, const Graph* graph) {
  const Rule* const rule = rules.find(collective, shape, rule_bytes);
  if (rule == nullptr || !check_order(*rule->algorithm, shape, {.ordered = ordered}))
    return choose(collective, shape, block_bytes, ordered, graph);
  Choice choice{
      .algorithm = rule->algorithm->name, .options = {}, .pieces = rule->pieces, .by_rule = true};
  choice.options.pacing = rule->pacing.value_or(choose_pacing(shape, block_bytes));
  choice.options.window = rule->window;
  if (choice.pieces == 0)
    choice.pieces = choose_pieces(choice.algorithm, collective, shape, block_bytes);
  return choice;
}

}  // namespace ibcoll
