#include "engine/core/call_plans.h"

#include <numeric>

#include "engine/base/hash.h"
#include "engine/planner/server_order.h"

namespace ibcoll {

int64_t eager_block_bytes(const Algorithm& algorithm, const Shape& shape, Pacing pacing,
                          int64_t eager_bytes) {
  // Tokens are exposures: who wants the pacing does not get it from messages that need none.
  const bool waits_for_tokens =
      algorithm.paced && (pacing == Pacing::kToken || pacing == Pacing::kGateToken);
  if (algorithm.largest_put == nullptr || eager_bytes <= 0 || waits_for_tokens) return -1;
  return eager_bytes / algorithm.largest_put(shape);
}

CallPlans::CallPlans(PlanSources& sources, const GroupState& group, std::vector<int>&& hosts)
    : sources_(sources), group_(group), hosts_(std::move(hosts)) {}
CallPlans::~CallPlans() = default;

Result<const CallPlan*> CallPlans::find(Collective collective, int64_t block_bytes, Rank root,
                                        const CallOptions& options,
                                        std::span<const int64_t> counts) {
  Known* known = nullptr;
  // Rules may tell calls apart that are alike for the engine's own choice.
  int64_t size = block_bytes;
  if (!counts.empty() && sources_.rules.size() != 0) [[unlikely]]
    size = std::accumulate(counts.begin(), counts.end(), int64_t{0}) / group_.shape.ranks();
  if (!group_.of_set) [[likely]] {
    if (known_.empty()) [[unlikely]]
      known_.resize(kCollectives.size());
    std::unique_ptr<KnownOfCollective>& all = known_[static_cast<size_t>(collective)];
    if (all == nullptr) all = std::make_unique<KnownOfCollective>();
    uint64_t wanted = static_cast<uint64_t>(size) ^ static_cast<uint64_t>(root) << 48;
    if (options.graph != nullptr) wanted ^= options.graph->hash();
    known = &(*all)[bucket_of(wanted, kKnownBits)];
    if (known->is_for(size, root, options)) [[likely]]
      return &known->plan;
  }
  CallPlan plan;
  IBCOLL_TRY(
      choose_plan(facts_of(collective, block_bytes, options), size, root, options, counts, plan));
  // Where it is for the counts as well the next call needs another.
  if (known == nullptr || (!counts.empty() && plan.options.plan != nullptr)) {
    other_ = std::move(plan);
    return &other_;
  }
  *known = {size, root, std::string(options.algorithm), options, std::move(plan)};
  known->options.algorithm = {};
  return &known->plan;
}

CallFacts CallPlans::facts_of(Collective collective, int64_t block_bytes,
                              const CallOptions& options) const {
  // No plans are made set by set, and what spares messages carries out one.
  return {.collective = collective,
          .shape = group_.shape,
          .block_bytes = block_bytes,
          .ordered = options.ordered,
          .graph = options.graph.get(),
          .costs_cores = sources_.messages_cost_cores && !group_.of_set,
          .plans = !group_.of_set,
          .connections = sources_.connections};
}

AlgorithmNames CallPlans::worth_trying(Collective collective, int64_t block_bytes) const {
  if (has_graph(collective)) return {};
  const CallFacts facts = facts_of(collective, block_bytes, {});
  const Choice choice = choose(facts, {.rules = &sources_.rules, .rule_bytes = block_bytes});
  const bool may_plan = sources_.transfers && !choice.planned.empty();
  if (choice.source == ChoiceSource::kRule || may_plan) return {};
  return ibcoll::worth_trying(facts, choice.algorithm);
}

/// The plans of one call.
class CallPlans::Transfers final : public CallTransfers {
 public:
  Transfers(CallPlans& of, const CallFacts& facts, Rank root, std::span<const int64_t> counts)
      : of_(of), facts_(facts), root_(root), counts_(counts) {}

  Result<std::shared_ptr<const TransferPlan>> plan() override {
    contention_free::PlanStore& store = *of_.sources_.transfers;
    return counts_.empty()
               ? store.find(facts_.collective, facts_.shape, of_.hosts_, root_, facts_.block_bytes)
               : store.find(facts_.collective, facts_.shape, of_.hosts_, counts_);
  }

  double walk_ns() override {
    if (!of_.walk_seconds_) {
      std::vector<int> order(of_.hosts_.size());
      std::iota(order.begin(), order.end(), 0);
      of_.walk_seconds_ =
          walk_seconds(of_.sources_.transfers->fabric(), facts_.shape, of_.hosts_, order);
    }
    return 1e9 * static_cast<double>(facts_.block_bytes) * *of_.walk_seconds_;
  }

 private:
  CallPlans& of_;
  const CallFacts& facts_;
  const Rank root_;
  const std::span<const int64_t> counts_;
};

Status CallPlans::choose_plan(const CallFacts& facts, int64_t rule_bytes, Rank root,
                              const CallOptions& options, std::span<const int64_t> counts,
                              CallPlan& plan) {
  const bool open = options.algorithm == "auto";
  Transfers transfers(*this, facts, root, counts);
  IBCOLL_ASSIGN(Choice choice, choose(facts,
                                      {.named = {.algorithm = open ? "" : options.algorithm,
                                                 .pacing = options.pacing,
                                                 .pieces = options.pieces},
                                       .rules = &sources_.rules,
                                       .rule_bytes = rule_bytes,
                                       .root = root},
                                      sources_.transfers ? &transfers : nullptr));
  IBCOLL_ASSIGN(const Algorithm* algorithm, find_algorithm(facts.collective, choice.algorithm));
  choice.options.root = root;
  choice.options.ordered = options.ordered;
  choice.options.graph = options.graph;
  IBCOLL_TRY(check_order(*algorithm, group_.shape, choice.options));
  algorithm->set_pieces(choice.pieces, choice.options);
  plan.program = sources_.programs.find(*algorithm, group_.shape, group_.me, choice.options);
  plan.pieces = choice.pieces;
  plan.relays = algorithm->relays;
  plan.eager_block_bytes =
      eager_block_bytes(*algorithm, group_.shape, choice.options.pacing, sources_.eager_bytes);
  plan.options = std::move(choice.options);
  return {};
}

void CallPlans::forget() { known_.clear(); }

void CallPlans::forget(const std::shared_ptr<const Graph>& graph) {
  for (auto& known : known_) {
    if (known == nullptr) continue;
    for (Known& one : *known) {
      if (one.options.graph == graph) one = {};
    }
  }
  if (other_.options.graph == graph) other_ = {};
  sources_.programs.forget(*graph);
}

}  // namespace ibcoll
