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
constexpr int64_t kRelayPieceBytes = 64 * 1024;
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
/// Above this, it pays that each rank combines a part only, with more than two ranks; on one server
/// with a power of two of them above the second figure by halving (measured on two cores).
constexpr int64_t kAllreduceSliceBytes = 16 * 1024;
constexpr int64_t kAllreduceHalvingBytes = 128 * 1024;
/// Of a reduce_scatter between servers: above this, every block is sent by its owners alone.
constexpr int64_t kHalvingBytes = 4 * 1024;
constexpr int64_t kScanChainBytes = 64 * 1024;

}  // namespace

uint32_t choose_pieces(int64_t block_bytes, const TransferPlan* plan) {
  if (plan != nullptr && !plan->relays) return plan->pieces;
  uint32_t pieces = 1;
  while (pieces < kMaxPieces && block_bytes / (2 * pieces) >= kRelayPieceBytes) pieces *= 2;
  return plan == nullptr ? pieces : std::max(pieces, plan->pieces);
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

/// Of the collectives in which all ranks combine.
static std::string_view choose_reduction(Collective collective, const Shape& shape,
                                         int64_t block_bytes, bool ordered) {
  const bool single = shape.servers() == 1;
  if (collective == Collective::kScan || collective == Collective::kExscan)
    return ordered || block_bytes <= kScanChainBytes ? "doubling" : "chain";
  if (collective != Collective::kAllreduce) {
    if (single || ordered) return "pairwise";
    return block_bytes <= kHalvingBytes ? "halving" : "ring";
  }
  if (single && block_bytes <= kAllreduceLinearBytes && shape.ranks() <= kAllreduceLinearRanks)
    return "linear";
  if (block_bytes <= kAllreduceSliceBytes || shape.ranks() <= 2) return "recursive_doubling";
  const bool power_of_two = std::has_single_bit(static_cast<unsigned>(shape.ranks()));
  if (power_of_two && (single ? block_bytes > kAllreduceHalvingBytes : ordered))
    return "rabenseifner";
  return single || !ordered ? "two_level" : "recursive_doubling";
}

Choice choose(Collective collective, const Shape& shape, int64_t block_bytes, bool ordered) {
  Choice choice;
  choice.options.pacing = choose_pacing(shape, block_bytes);
  const bool single = shape.servers() == 1;
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
      choice.algorithm = single ? "linear" : "two_level_ring";
      break;
    case Collective::kAllgather:
      choice.algorithm = block_bytes <= kAllgatherRingBytes ? "recursive_doubling" : "ring";
      choice.pieces = choose_pieces(block_bytes);
      break;
    case Collective::kAllgatherv:
      choice.algorithm = "ring";
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
      choice.pieces = bcast.pieces;
      break;
    }
    case Collective::kReduce:
      choice.algorithm = single || ordered || block_bytes <= kChainBytes ? "binomial" : "chain";
      choice.pieces = choose_pieces(block_bytes);
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
  }
  return choice;
}

Choice choose(const Rules& rules, Collective collective, const Shape& shape, int64_t block_bytes,
              int64_t rule_bytes, bool ordered) {
  const Rule* const rule = rules.find(collective, shape, rule_bytes);
  if (rule == nullptr || !check_order(*rule->algorithm, shape, {.ordered = ordered}))
    return choose(collective, shape, block_bytes, ordered);
  Choice choice{
      .algorithm = rule->algorithm->name, .options = {}, .pieces = rule->pieces, .by_rule = true};
  choice.options.pacing = rule->pacing.value_or(choose_pacing(shape, block_bytes));
  choice.options.window = rule->window;
  if (choice.pieces == 0)
    choice.pieces = choose_pieces(choice.algorithm, collective, shape, block_bytes);
  return choice;
}

}  // namespace ibcoll
