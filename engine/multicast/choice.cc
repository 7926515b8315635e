#include "engine/multicast/choice.h"

#include <vector>

#include "engine/tuner/choose.h"

namespace ibcoll {

Result<const Algorithm*> algorithm_of(uint32_t number) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == Collective::kBcast && algorithm_number(algorithm.name) == number)
      return &algorithm;
  }
  return fail(ErrorCode::kMismatch,
              "a multicast goes by an algorithm that this rank does not have");
}

Status check_multicast(const Algorithm& algorithm, int servers) {
  if (!algorithm.relays && servers > 1) {
    return fail(ErrorCode::kInvalidArgument,
                "{} sends to each rank itself: a multicast goes by the leaders of servers",
                algorithm.name);
  }
  if (algorithm.spec->beyond_leaders) {
    return fail(ErrorCode::kInvalidArgument,
                "{} goes through all ranks of servers: a multicast goes by their leaders",
                algorithm.name);
  }
  return {};
}

Result<MulticastChoice> choose_multicast(const MulticastFacts& facts,
                                         const MemberServers& servers) {
  std::vector<int> sizes;
  for (int place = 0; place < servers.places(); ++place)
    sizes.push_back(static_cast<int>(servers.members(place).size()));
  IBCOLL_ASSIGN(const Shape shape, Shape::from_layout(sizes, Placement::kBlock));
  const CallFacts call{.collective = Collective::kBcast,
                       .shape = shape,
                       .block_bytes = static_cast<int64_t>(facts.bytes),
                       .by_leaders = true};
  NamedChoice named{.pieces = facts.pieces};
  if (facts.algorithm != 0) {
    IBCOLL_ASSIGN(const Algorithm* const algorithm, algorithm_of(facts.algorithm));
    IBCOLL_TRY(check_multicast(*algorithm, servers.places()));
    named.algorithm = algorithm->name;
  }
  const Choice choice = choose(call, {.named = named});
  IBCOLL_ASSIGN(const Algorithm* const chosen, find_algorithm(call.collective, choice.algorithm));
  return MulticastChoice{chosen, choice.pieces};
}

}  // namespace ibcoll
