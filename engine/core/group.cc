#include "engine/core/group.h"

#include <algorithm>
#include <numeric>

#include "engine/base/hash.h"
#include "engine/planner/server_order.h"

namespace ibcoll {

Group::Group(Context& context, Shape shape, std::vector<Rank> members,
             const GroupIdentity& identity)
    : context_(&context), identity_(identity), state_(std::move(shape)) {
  state_.key = identity.key;
  state_.list = identity.list;
  state_.identifier = identity.identifier;
  state_.of_set = identity.of_set;
  state_.asking = static_cast<uint32_t>(mix(identity.list, 0)) + identity.number;
  const auto me = std::find(members.begin(), members.end(), context.rank());
  state_.me = static_cast<Rank>(me - members.begin());
  state_.to_job = std::move(members);
  const std::vector<int>& all = context.fabric_order().hosts;
  for (int server = 0; server < state_.shape.servers() && !all.empty(); ++server) {
    const Rank first = state_.to_job[state_.shape.rank_at(server, 0)];
    hosts_.push_back(all[context.shape().server_of(first)]);
  }
  if (uint32_t* const counted = context.group_records().entered(identity_, state_))
    calls_of_list_ = counted;
  context.executor().enter(state_);
}

Group::~Group() {
  context_->executor().leave(state_);
  context_->group_records().left(identity_, state_);
  if (state_.gate_slot) context_->local().close_gates(*state_.gate_slot, state_.over.has_value());
}

Result<const CallPlan*> Group::call_plan(Collective collective, int64_t block_bytes, Rank root,
                                         const CallOptions& options,
                                         std::span<const int64_t> counts) {
  Known* known = nullptr;
  // Rules may tell calls apart that are alike for the engine's own choice.
  int64_t size = block_bytes;
  if (!counts.empty() && context_->rules().size() != 0) [[unlikely]]
    size = std::accumulate(counts.begin(), counts.end(), int64_t{0}) / this->size();
  if (!identity_.of_set) [[likely]] {
    std::unique_ptr<KnownCallPlans>& all = known_[static_cast<size_t>(collective)];
    if (all == nullptr) all = std::make_unique<KnownCallPlans>();
    uint64_t wanted = static_cast<uint64_t>(size) ^ static_cast<uint64_t>(root) << 48;
    if (options.graph != nullptr) wanted ^= options.graph->hash();
    known = &(*all)[bucket_of(wanted, kKnownBits)];
    if (known->is_for(size, root, options)) [[likely]]
      return &known->plan;
  }
  // No plans are made set by set, and what spares messages carries out one.
  const CallFacts facts{.collective = collective,
                        .shape = state_.shape,
                        .block_bytes = block_bytes,
                        .ordered = options.ordered,
                        .graph = options.graph.get(),
                        .costs_cores = context_->messages_cost_cores() && !identity_.of_set,
                        .plans = !identity_.of_set};
  const bool open = options.algorithm == "auto";
  Choice choice = choose(facts, {.named = {.algorithm = open ? "" : options.algorithm,
                                           .pacing = options.pacing,
                                           .pieces = options.pieces},
                                 .rules = &context_->rules(),
                                 .rule_bytes = size});
  IBCOLL_ASSIGN(const Algorithm* algorithm, find_algorithm(collective, choice.algorithm));
  choice.options.root = root;
  choice.options.ordered = options.ordered;
  choice.options.graph = options.graph;
  IBCOLL_TRY(plan_transfers(facts, counts, options.pieces, algorithm, choice));
  IBCOLL_TRY(check_order(*algorithm, state_.shape, choice.options));
  algorithm->set_pieces(choice.pieces, choice.options);
  auto program = context_->programs().find(*algorithm, state_.shape, state_.me, choice.options);
  const bool waits_for_tokens = algorithm->paced && (choice.options.pacing == Pacing::kToken ||
                                                     choice.options.pacing == Pacing::kGateToken);
  CallPlan plan{std::move(program), choice.pieces, algorithm->relays, choice.options};
  // Tokens are exposures: who wants the pacing does not get it from messages that need none.
  if (algorithm->largest_put != nullptr && context_->eager_bytes() > 0 && !waits_for_tokens)
    plan.eager_block_bytes = context_->eager_bytes() / algorithm->largest_put(state_.shape);
  // Where it is for the counts as well the next call needs another.
  if (known == nullptr || (!counts.empty() && choice.options.plan != nullptr)) {
    other_ = std::move(plan);
    return &other_;
  }
  *known = {size, root, std::string(options.algorithm), options, std::move(plan)};
  known->options.algorithm = {};
  return &known->plan;
}

void Group::forget_call_plans() {
  for (auto& known : known_) known.reset();
}

void Group::forget(const std::shared_ptr<const Graph>& graph) {
  for (auto& known : known_) {
    if (known == nullptr) continue;
    for (Known& one : *known) {
      if (one.options.graph == graph) one = {};
    }
  }
  if (other_.options.graph == graph) other_ = {};
  context_->programs().forget(*graph);
}

/// The plan that the algorithm carries out, where the network is known; takes what is worth a plan
/// where that pays.
Status Group::plan_transfers(const CallFacts& facts, std::span<const int64_t> counts,
                             uint32_t pieces, const Algorithm*& algorithm, Choice& choice) {
  contention_free::PlanStore* const plans = context_->plans();
  const bool chosen = algorithm->spec->planned;
  if (plans != nullptr && (chosen || !choice.planned.empty())) {
    IBCOLL_ASSIGN(auto plan, counts.empty()
                                 ? plans->find(facts.collective, facts.shape, hosts_,
                                               choice.options.root, facts.block_bytes)
                                 : plans->find(facts.collective, facts.shape, hosts_, counts));
    if (!chosen && facts.collective == Collective::kAlltoall && !walk_seconds_) {
      std::vector<int> order(hosts_.size());
      std::iota(order.begin(), order.end(), 0);
      walk_seconds_ = walk_seconds(plans->fabric(), facts.shape, hosts_, order);
    }
    const double walk_ns = 1e9 * static_cast<double>(facts.block_bytes) * walk_seconds_.value_or(0);
    if (chosen || plan_pays(*plan, facts.collective, walk_ns)) {
      if (!chosen) {
        IBCOLL_ASSIGN(algorithm, find_algorithm(facts.collective, choice.planned));
      }
      choice.options.plan = std::move(plan);
    }
  }
  if (algorithm->spec->planned && pieces == 0)
    choice.pieces = choose_pieces(*algorithm, facts, choice.options.plan.get());
  return {};
}

}  // namespace ibcoll
