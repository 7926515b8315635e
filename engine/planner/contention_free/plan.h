#pragma once
/// Contention-free plans: every transfer of a collective between servers, when it goes, and the
/// tokens that keep the order where clocks are not to be had. Method: "Contention-free collective
/// communication in wide-area cluster environments" (thesis, University of Tokyo, about 2010) and
/// what goes beyond it (docs/results/contention_free.md). Plans are made for servers: what the
/// ranks of one server have for the ranks of another is one message.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/collective_traits.h"
#include "engine/schedule/sums.h"
#include "topology/fabric.h"

namespace ibcoll::contention_free {

/// The collectives that are planned, in the order in which they are named. One that differs from
/// one of these in the lengths of blocks alone has the same plans, under this one's name:
/// planned_as().
///
/// What is to be delivered: messages are named (origin, target) as blocks are. gather: (s, root)
/// for every other server s; scatter: (root, t); alltoall: (s, t) for every ordered pair;
/// allgather: (s, kEveryone); bcast: (root, kEveryone); reduce: (kEveryone, root), reduce_scatter:
/// (kEveryone, t) for every server t, of which transfers carry partial results; allreduce: the same
/// of slices alike, one a server, and (t, kEveryone) of what they come to.
inline constexpr std::array kPlanned = {
    Collective::kGather, Collective::kScatter, Collective::kAlltoall,      Collective::kAllgather,
    Collective::kBcast,  Collective::kReduce,  Collective::kReduceScatter, Collective::kAllreduce};
inline constexpr int32_t kEveryone = -1;

/// The one of kPlanned that has the plans of a collective; itself where there is none.
constexpr Collective planned_as(Collective collective) {
  for (const Collective planned : kPlanned) {
    if (traits(planned).equal == traits(collective).equal) return planned;
  }
  return collective;
}
static_assert(
    [] {
      for (const Collective planned : kPlanned) {
        if (planned_as(planned) != planned) return false;
      }
      return true;
    }(),
    "of those that differ in the lengths of blocks alone one is planned");

/// True where a message is not of one server for one other.
constexpr bool spreads(Collective collective) {
  return same_for_all(collective) || reduces(collective);
}
/// How many transfers a plan has where each server may send to each.
constexpr int64_t transfers_of(Collective collective, int64_t servers) {
  if (has_root(collective)) return servers - 1;
  const bool twice = Sums::targets_of(collective) == Sums::Targets::kEachForAll;
  return (twice ? 2 : 1) * servers * (servers - 1);
}
/// How many sizes PlanInputs::message_bytes has; 0: messages of one size alone are planned.
constexpr size_t sizes_of(Collective collective, size_t servers) {
  if (has_one_block(collective)) return 0;
  return is_alltoall(collective) ? servers * servers : servers;
}

enum class Planner : uint8_t {
  kThesis,  ///< as the thesis has it: link groups, a task policy, relaying, completion tokens
  kFixed,   ///< the same with sound link groups: slots by the rate of the whole route, ties by
            ///< earliest start
  kList,    ///< list scheduling on the links' calendars, tokens sent ahead, several orders tried
  kBest,    ///< kList where it is near the bound, cuts messages into parts or has many transfers;
            ///< else whichever of these has the shortest planned time; of reduce_scatter and
            ///< allreduce, and of data for many on direct networks, kList unless another is clearly
            ///< shorter
};
inline constexpr int kPlanners = 4;

/// How planners kThesis and kFixed choose the next transfer of a link group. Others ignore it.
enum class Policy : uint8_t { kRandom, kMaxCost, kMinCost, kMaxSync, kMinSync };
inline constexpr int kPolicies = 5;

/// Into no more parts messages are cut (Plan::parts).
inline constexpr int32_t kMostParts = 64;

/// The number of no transfer, link or host.
inline constexpr uint32_t kNone = ~uint32_t{0};

/// One message, or a relayed or forwarded copy of one, from a server straight to another.
struct Transfer {
  static constexpr uint32_t kNone = contention_free::kNone;

  int32_t from = 0, to = 0;        ///< servers
  int32_t origin = 0, target = 0;  ///< the message; kEveryone as kPlanned says
  uint64_t bytes = 0;              ///< of the message, or of its part; never 0
  int64_t start_ns = 0;            ///< planned: the first byte leaves `from`
  int64_t end_ns = 0;              ///< planned: the last byte is at `to`
  double rate = 0;                 ///< planned, bytes a second
  /// The transfer that brings this message to `from`, whose pieces are passed on as they arrive;
  /// kNone where `from` has the message from the beginning. Of what awaits a sum (Sums): one of the
  /// transfers that feed it; all of them come first.
  uint32_t forwards = kNone;
  int32_t part = 0;  ///< of Plan::parts
};

/// Transfer `before` does not begin until transfer `after` is out of its way. In plans without
/// tokens_ahead the token is sent when `after` is all there (`anchor` == `after`, `bytes_left` and
/// `wait_ns` 0). A token sent ahead names its moment by the progress of a transfer under way, the
/// anchor: `after`, or one that uses the same link before it, so that the token's own way is over
/// when the link falls free.
///
/// It is sent by the anchor's receiver once all but `bytes_left` bytes have arrived, or with
/// `at_sender` by the anchor's sender once all but `bytes_left` have left; `wait_ns` after that; to
/// the sender of `before`. Where these two are the same server no message is needed, only that
/// order. At the beginning of a plan on a WAN nothing may have happened yet that could tell: the
/// anchor is kNone, and the sender of `before` waits `wait_ns` from its own beginning.
///
/// A token meets packets on its way, for how long no plan can tell. It is meant to be there
/// `slack_ns` before it is needed. `before` begins at its planned time then, by its sender's clock
/// from the sender's own beginning, but no later than `slack_ns` after the token: if the network is
/// faster than it was planned for, the clock is not.
struct Token {
  static constexpr uint32_t kNone = Transfer::kNone;

  uint32_t after = 0, before = 0, anchor = 0;
  bool at_sender = false;
  uint64_t bytes_left = 0;
  int64_t wait_ns = 0;
  int64_t slack_ns = 0;
};

/// A plan: plain data. check_plan() (check.h) says whether it is right; the same inputs give the
/// same plan on every rank.
struct Plan {
  Collective collective = Collective::kGather;  ///< of kPlanned
  int servers = 0;
  int root = 0;
  Planner planner = Planner::kList;  ///< never kBest: the one that won
  Policy policy = Policy::kMinSync;
  bool tokens_ahead = false;        ///< tokens may be sent before their transfers are all there
  std::vector<Transfer> transfers;  ///< in ascending order of (start_ns, from, to)
  std::vector<Token> tokens;        ///< in ascending order of (before, after)
  /// Into so many parts messages are cut, each of which may go a way of its own: slots of a block
  /// that is cut (cut_bytes() of engine/schedule/program.h). Only of allgather and bcast.
  int32_t parts = 1;
  /// What is forwarded goes on in pieces of so many bytes (the last may be shorter).
  uint64_t piece_bytes = 0;
  /// The most bytes that any server holds at once of messages that it neither has from the
  /// beginning nor is to keep, as planned.
  uint64_t relay_buffer_bytes = 0;
  int64_t time_ns = 0;  ///< planned end of the last transfer
  /// No plan on this fabric can be shorter (bound.h); of those that send what is for one server
  /// straight, if this one does.
  int64_t bound_ns = 0;
  /// Tokens sent ahead: how far a transfer's bytes on a link may stray from the planned time, one
  /// way or the other, before two that share it can meet; what meets waits in the switch.
  int64_t jitter_ns = 0;
  int64_t groups = 0;          ///< link groups (slots of links in use, for kList)
  uint64_t relayed_bytes = 0;  ///< bytes of transfers that pass on what is not for their sender

  /// The server that sends a token, and the one that waits for it.
  int sent_by(const Token& token) const {
    if (token.anchor == Token::kNone) return sent_to(token);
    const Transfer& anchor = transfers[token.anchor];
    return token.at_sender ? anchor.from : anchor.to;
  }
  int sent_to(const Token& token) const { return transfers[token.before].from; }
};

/// Data of a packet at most, where it counts how long other things wait for it: 1 KB; of messages
/// above 256 KB a 256th, so that a simulation has no more packets than it needs.
uint32_t packet_bytes(const Plan& plan);

/// What to plan.
struct PlanInputs {
  Collective collective = Collective::kAlltoall;  ///< of kPlanned
  int root = 0;                                   ///< server; of gather, scatter, bcast, reduce
  /// Ranks of each server; its size is the number of servers.
  std::vector<int> server_ranks;
  /// Bytes of a block: what a rank has for a rank (alltoall, reduce_scatter) or for all (the
  /// others). The message of two servers has the blocks of all their ranks; of bcast and reduce it
  /// has one, of allreduce a slice of one.
  uint64_t block_bytes = 0;
  /// Sizes of messages where blocks differ, instead of block_bytes (sizes_of()): one a server
  /// (gather, scatter, allgather, reduce_scatter; by origin or target, other than the root), or one
  /// an ordered pair, [origin * servers + target] (alltoall). Messages of 0 bytes are not sent.
  /// Empty otherwise.
  std::vector<uint64_t> message_bytes;
  const topology::Fabric* fabric = nullptr;
  /// The host of the fabric that each server is. Empty: host s is server s.
  std::vector<int> hosts;
  /// Pairs of servers that may send to each other, either way. Messages of other pairs go through
  /// permitted ones. Without a list all may.
  std::optional<std::vector<std::pair<int, int>>> permitted;
  Planner planner = Planner::kBest;
  Policy policy = Policy::kMinSync;
  bool relay = true;             ///< kThesis, kFixed: may send data through servers that wait
  bool tokens_ahead = true;      ///< kList: send tokens ahead; else at full arrival
  uint64_t seed = 1;             ///< of all that is drawn
  uint64_t piece_bytes = 65536;  ///< of what is forwarded, at most; smaller ones may be chosen
  /// Messages may be cut into so many parts on direct networks (direct.h), 0 to kMostParts. 0: of
  /// bcast into as many as help, of allgather not at all, as programs carry it out.
  int32_t most_parts = 0;
};

/// Into how many parts a plan for the inputs may cut messages; 1: not at all.
inline int32_t most_parts(const PlanInputs& inputs) {
  if (inputs.collective == Collective::kBcast && inputs.most_parts == 0) return kMostParts;
  return same_for_all(inputs.collective) && inputs.most_parts > 1 ? inputs.most_parts : 1;
}

/// Makes a plan. Refuses, naming it: a collective that is not planned, no servers or ranks, a root
/// that is not there, sizes that don't fit, a fabric without a host for a server or with one for
/// two, pairs that are not servers, and pairs that leave somebody without a way to another.
Result<Plan> plan_transfers(const PlanInputs& inputs);

/// No plan for the inputs can be shorter (Plan::bound_ns); with `relayed`, none that sends what is
/// for one server through others.
Result<int64_t> lower_bound_ns(const PlanInputs& inputs, bool relayed = false);

/// Bytes of the message of two servers (of collectives with one message a server: the other
/// end is ignored).
uint64_t message_bytes(const PlanInputs& inputs, int origin, int target);

const char* to_string(Planner planner);
const char* to_string(Policy policy);
/// One of kPlanned by its name.
Result<Collective> parse_planned(std::string_view text);
Result<Planner> parse_planner(std::string_view text);
Result<Policy> parse_policy(std::string_view text);
/// "gather, scatter, ...", all of kPlanned: for help texts.
std::string planned_names();

}  // namespace ibcoll::contention_free
