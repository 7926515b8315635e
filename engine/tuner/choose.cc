#include "engine/tuner/choose.h"

#include <algorithm>
#include <utility>

namespace ibcoll {
namespace {

/// A step of the 2-Level Ring moves at most n * n blocks between two servers; below this it is
/// shorter than ten token latencies of about 2 us on a link of 12.5 GB/s.
constexpr int64_t kTokenStepBytes = 256 * 1024;
constexpr int64_t kRelayPieceBytes = 64 * 1024;
constexpr uint32_t kMaxPieces = 16;
/// Pieces of broadcasts and reduces on one server, where nobody relays: what goes through the rings
/// where memory is private (shm::Options), which is faster than to have it read; and in a reduce
/// they stay in a cache between one rank's data and the next one's.
constexpr int64_t kCachePieceBytes = 128 * 1024;
constexpr uint32_t kMaxCachePieces = 256;
/// A plan pays when it takes this part of what the algorithm takes that needs none.
constexpr double kWorthAPlan = 0.95;
/// All at once, a gather reaches the bound where nothing is lost and nobody held up; not to risk
/// that is worth this much.
constexpr double kMostForOrder = 1.05;
constexpr int kFewestServersToPlan = 3;

uint32_t pieces_in_cache(int64_t block_bytes) {
  uint32_t pieces = 1;
  while (pieces < kMaxCachePieces && block_bytes / pieces > kCachePieceBytes) pieces *= 2;
  return pieces;
}

/// By a row that does not leave it to the algorithm.
uint32_t pieces_by(PieceRule rule, const CallFacts& facts) {
  switch (rule) {
    case PieceRule::kRelayed:
      return relayed_pieces(facts.block_bytes);
    case PieceRule::kPart:
      return relayed_pieces(facts.block_bytes / facts.shape.ranks());
    case PieceRule::kInCache:
      return pieces_in_cache(facts.block_bytes);
    case PieceRule::kWhole:
    case PieceRule::kOwn:
      break;
  }
  return 1;
}

/// Of several that a row names the one that costs least, the first of equals. They are all there:
/// choices_test.
const Algorithm& cheapest(const ChoiceRow& row, const CallFacts& facts) {
  const Algorithm* best = nullptr;
  int64_t least = 0;
  for (const std::string_view name : row.algorithms) {
    if (name.empty()) break;
    const Algorithm* const one = look_up_algorithm(facts.collective, name);
    const int64_t cost = one->spec->cost(facts.shape, facts.block_bytes);
    if (best != nullptr && cost >= least) continue;
    best = one;
    least = cost;
  }
  return *best;
}

/// All that a server sends passes through one of its ranks; and planning for thousands of servers
/// takes seconds, which only who asks for it should wait for.
bool is_worth_a_plan(const CallFacts& facts) {
  return facts.plans && facts.shape.servers() >= kFewestServersToPlan &&
         !hold(kSeveralAServer, facts) && hold(kPlannableServers, facts);
}

using MaybeChoice = std::optional<Choice>;

/// Its pacing is that of what the table has for such a call on any transport.
MaybeChoice choose_named(const CallFacts& facts, const ChoiceSources& sources) {
  const std::string_view name = sources.named.algorithm;
  if (name.empty()) return {};
  CallFacts plain = facts;
  plain.costs_cores = false;
  Choice choice = choose(plain);
  choice.algorithm = name;
  choice.planned = {};
  if (const Algorithm* const algorithm = look_up_algorithm(facts.collective, name))
    choice.pieces = choose_pieces(*algorithm, plain);
  return choice;
}

/// A rule does not count where its algorithm has no programs, or can't keep the order or have the
/// plan that is asked for.
MaybeChoice choose_by_rule(const CallFacts& facts, const ChoiceSources& sources) {
  if (sources.rules == nullptr) return {};
  const Rule* const rule = sources.rules->find(facts.collective, facts.shape, sources.rule_bytes);
  if (rule == nullptr) return {};
  const Algorithm& algorithm = *rule->algorithm;
  if (sources.root && !algorithm.is_for(facts.shape, *sources.root)) return {};
  if (facts.ordered && reduces(facts.collective) && !algorithm.keeps_order(facts.shape)) return {};
  if (algorithm.spec->planned && !facts.plans) return {};
  Choice choice{.algorithm = algorithm.name, .options = {}};
  choice.options.pacing = rule->pacing.value_or(choose_pacing(facts.shape, facts.block_bytes));
  choice.options.window = rule->window;
  choice.pieces = rule->pieces != 0 ? rule->pieces : choose_pieces(algorithm, facts);
  return choice;
}

MaybeChoice choose_by_table(const CallFacts& facts, const ChoiceSources&) { return choose(facts); }

struct Source {
  ChoiceSource is;
  MaybeChoice (*choose)(const CallFacts& facts, const ChoiceSources& sources);  ///< none: no say
};

/// In the order in which they count; the last one always knows. What learns from calls belongs
/// behind the rules, and behind it what reckons with what messages cost. Who learns behind the C
/// interface names what it has found, of what worth_trying() says.
constexpr Source kSources[] = {
    {ChoiceSource::kNamed, choose_named},
    {ChoiceSource::kRule, choose_by_rule},
    {ChoiceSource::kTable, choose_by_table},
};

}  // namespace

Choice choose(const CallFacts& facts, const ChoiceSources& sources) {
  Choice choice;
  for (const Source& source : kSources) {
    if (MaybeChoice known = source.choose(facts, sources)) {
      choice = std::move(*known);
      choice.source = source.is;
      break;
    }
  }
  if (sources.named.pacing) choice.options.pacing = *sources.named.pacing;
  if (sources.named.pieces != 0) choice.pieces = sources.named.pieces;
  return choice;
}

Result<Choice> choose(const CallFacts& facts, const ChoiceSources& sources,
                      CallTransfers* transfers) {
  Choice choice = choose(facts, sources);
  const Algorithm* algorithm = look_up_algorithm(facts.collective, choice.algorithm);
  const bool carries_one_out = algorithm != nullptr && algorithm->spec->planned;
  if (transfers != nullptr && (carries_one_out || !choice.planned.empty())) {
    IBCOLL_ASSIGN(auto plan, transfers->plan());
    const bool against_walk = choice.plan_rule == PlanRule::kBeatsWalk;
    if (carries_one_out ||
        plan_pays(*plan, choice.plan_rule, against_walk ? transfers->walk_ns() : 0)) {
      if (!carries_one_out) {
        choice.algorithm = choice.planned;
        algorithm = look_up_algorithm(facts.collective, choice.algorithm);
      }
      choice.options.plan = std::move(plan);
    }
  }
  if (algorithm != nullptr && algorithm->spec->planned && sources.named.pieces == 0)
    choice.pieces = choose_pieces(*algorithm, facts, choice.options.plan.get());
  return choice;
}

Choice choose(const CallFacts& facts) {
  const ChoiceRow& row = row_for(facts);
  Choice choice;
  choice.options.pacing = row.free ? Pacing::kFree : choose_pacing(facts.shape, facts.block_bytes);
  if (row.pieces == PieceRule::kOwn) {
    const Algorithm& algorithm = cheapest(row, facts);
    choice.algorithm = algorithm.name;
    choice.pieces = choose_pieces(algorithm, facts);
  } else {
    choice.algorithm = row.algorithms.front();
    choice.pieces = pieces_by(row.pieces, facts);
  }
  if (!row.planned.empty() && is_worth_a_plan(facts)) {
    choice.planned = row.planned;
    choice.plan_rule = row.plan_rule;
  }
  return choice;
}

uint32_t relayed_pieces(int64_t block_bytes, const TransferPlan* plan) {
  if (plan != nullptr && !plan->relays) return plan->pieces;
  uint32_t pieces = 1;
  while (pieces < kMaxPieces && block_bytes / (2 * pieces) >= kRelayPieceBytes) pieces *= 2;
  return plan == nullptr ? pieces : std::max(pieces, plan->pieces);
}

uint32_t choose_pieces(const Algorithm& algorithm, const CallFacts& facts,
                       const TransferPlan* plan) {
  const AlgorithmSpec& spec = *algorithm.spec;
  if (spec.planned) return relayed_pieces(facts.block_bytes, plan);
  if (spec.pieces != nullptr) return spec.pieces(facts.shape, facts.block_bytes);
  return pieces_by(row_for(facts).pieces, facts);
}

bool plan_pays(const TransferPlan& plan, PlanRule rule, double walk_ns) {
  const auto time_ns = static_cast<double>(plan.time_ns);
  if (rule == PlanRule::kAtBound)
    return plan.keeps_time && time_ns <= kMostForOrder * static_cast<double>(plan.bound_ns);
  return time_ns < kWorthAPlan * walk_ns;
}

Pacing choose_pacing(const Shape& shape, int64_t block_bytes) {
  const int64_t step_blocks = int64_t{shape.max_server_size()} * shape.max_server_size();
  return block_bytes >= 0 && block_bytes < kTokenStepBytes / step_blocks ? Pacing::kGate
                                                                         : Pacing::kGateToken;
}

}  // namespace ibcoll
