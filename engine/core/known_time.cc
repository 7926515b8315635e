#include "engine/core/known_time.h"

#include <algorithm>

#include "engine/bootstrap/launch.h"
#include "engine/multicast/bound.h"
#include "engine/multicast/choice.h"

namespace ibcoll {

Result<double> multicast_bound_us(Context& context, const RankSet& set, size_t bytes,
                                  const MulticastOptions& options) {
  IBCOLL_ASSIGN(const LogP* const costs, context.message_costs());
  const Rank me = context.rank();
  const RankSet others = set.contains(me) ? set.without(me) : set;
  if (others.empty()) return 0;
  const MemberServers servers(others, context.shape());
  MulticastFacts facts;
  facts.bytes = bytes;
  facts.pieces = options.pieces;
  if (options.algorithm != "auto") facts.algorithm = algorithm_number(options.algorithm);
  IBCOLL_ASSIGN(const MulticastChoice choice, choose_multicast(facts, servers));
  MulticastBoundInputs inputs;
  inputs.servers = &servers;
  inputs.set_bytes = others.encode().size();
  inputs.bytes = static_cast<int64_t>(bytes);
  inputs.algorithm = choice.algorithm->name;
  inputs.pieces = choice.pieces;
  inputs.master = context.shape().same_server(me, servers.leader(0))
                      ? MulticastBoundInputs::Master::kOnRootsServer
                      : MulticastBoundInputs::Master::kElsewhere;
  inputs.ranks_per_core =
      std::max(1.0, static_cast<double>(context.job().ranks_on_machine()) / usable_cores());
  // What travels with an announcement, which has room for its own head besides.
  constexpr int64_t kHead = 128;
  inputs.mail_bytes = static_cast<int64_t>(kMaxShortMulticast) + kHead;
  if (context.threads().has_progress_thread()) inputs.awake_us = 0;
  IBCOLL_ASSIGN(const MulticastBound bound, multicast_bound(*costs, inputs));
  return bound.total();
}

}  // namespace ibcoll
