#include "engine/tuner/choose.h"

#include <algorithm>

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
/// Of pieces that are made for tokens to be sent ahead.
constexpr int64_t kAheadPieceBytes = 4 * 1024;
constexpr int64_t kMaxAheadPieces = 64;
/// A plan pays when it takes this part of what the algorithm takes that needs none.
constexpr double kWorthAPlan = 0.95;
constexpr int kMostServersUnasked = 128;

}  // namespace

uint32_t choose_pieces(int64_t block_bytes, const TransferPlan* plan) {
  uint32_t pieces = 1;
  while (pieces < kMaxPieces && block_bytes / (2 * pieces) >= kRelayPieceBytes) pieces *= 2;
  if (plan == nullptr) return pieces;
  int64_t left = 0, tokens = 0;
  for (const TransferPlan::Token& token : plan->tokens) {
    left += token.left;
    tokens += token.left > 0 ? 1 : 0;
  }
  if (left == 0) return pieces;
  const int64_t wanted = (TransferPlan::kParts * tokens + left - 1) / left;
  const int64_t most = std::clamp<int64_t>(block_bytes / kAheadPieceBytes, 1, kMaxAheadPieces);
  return std::max(pieces, static_cast<uint32_t>(std::min(wanted, most)));
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
  // A gather in order takes as long as all at once would if nothing were lost or held up.
  if (collective == Collective::kGather) return true;
  int64_t end_ns = 0;
  for (const TransferPlan::Transfer& transfer : plan.transfers) {
    end_ns = std::max(end_ns, transfer.end_ns);
  }
  return static_cast<double>(end_ns) < kWorthAPlan * walk_ns;
}

Pacing choose_pacing(const Shape& shape, int64_t block_bytes) {
  const int64_t step_blocks = int64_t{shape.max_server_size()} * shape.max_server_size();
  return block_bytes >= 0 && block_bytes < kTokenStepBytes / step_blocks ? Pacing::kGate
                                                                         : Pacing::kGateToken;
}

Choice choose(Collective collective, const Shape& shape, int64_t block_bytes) {
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
    case Collective::kBcast:
    case Collective::kReduce:
      choice.algorithm = single || block_bytes <= kChainBytes ? "binomial" : "chain";
      choice.pieces = choose_pieces(block_bytes);
      break;
    case Collective::kBarrier:
      choice.algorithm = "dissemination";
      break;
  }
  return choice;
}

}  // namespace ibcoll
