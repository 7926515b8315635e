#include "engine/core/group.h"

#include "engine/tuner/choose.h"

namespace ibcoll {

Group::Group(Context& context, Shape shape, std::vector<Rank> members, uint64_t key)
    : context_(&context), state_(std::move(shape)) {
  state_.key = key;
  for (Rank i = 0; i < static_cast<Rank>(members.size()); ++i) {
    if (members[i] == context.rank()) state_.me = i;
  }
  state_.to_job = std::move(members);
}

Group::~Group() {
  if (state_.gate_slot) context_->local().close_gates(*state_.gate_slot);
}

Result<Plan> Group::plan(Collective collective, int64_t block_bytes, Rank root,
                         const CallOptions& options) {
  Last& last = last_[static_cast<size_t>(collective)];
  const bool defaults =
      options.algorithm.empty() && !options.pacing && options.pieces == 0 && !options.ordered;
  if (defaults && last.block_bytes == block_bytes && last.root == root) [[likely]]
    return last.plan;
  Choice choice = choose(collective, state_.shape, block_bytes);
  if (!options.algorithm.empty() && options.algorithm != "auto")
    choice.algorithm = options.algorithm;
  if (options.pacing) choice.options.pacing = *options.pacing;
  if (options.pieces != 0) choice.pieces = options.pieces;
  choice.options.root = root;
  choice.options.ordered = options.ordered;
  IBCOLL_ASSIGN(const Algorithm* algorithm, find_algorithm(collective, choice.algorithm));
  if (algorithm->name == "contention_free" && context_->plans() != nullptr) {
    IBCOLL_ASSIGN(choice.options.plan,
                  context_->plans()->find(collective, state_.shape, hosts(), root, block_bytes));
  }
  const RankProgram& program =
      context_->program(*algorithm, state_.shape, state_.me, choice.options);
  const bool waits_for_tokens = algorithm->paced && (choice.options.pacing == Pacing::kToken ||
                                                     choice.options.pacing == Pacing::kGateToken);
  Plan plan{&program, choice.pieces, algorithm->relays, choice.options};
  // Tokens are exposures: who wants the pacing does not get it from messages that need none.
  if (algorithm->largest_put != nullptr && context_->eager_bytes() > 0 && !waits_for_tokens)
    plan.eager_block_bytes = context_->eager_bytes() / algorithm->largest_put(state_.shape);
  if (defaults) last = {block_bytes, root, plan};
  return plan;
}

/// The fabric's hosts of the group's servers.
std::vector<int> Group::hosts() const {
  std::vector<int> result;
  for (int server = 0; server < state_.shape.servers(); ++server) {
    const Rank first = state_.to_job[state_.shape.rank_at(server, 0)];
    result.push_back(context_->fabric_order().hosts[context_->shape().server_of(first)]);
  }
  return result;
}

}  // namespace ibcoll
