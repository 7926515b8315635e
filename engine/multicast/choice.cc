#include "engine/multicast/choice.h"

#include <vector>

#include "engine/tuner/bcast.h"

namespace ibcoll {

Result<const Algorithm*> algorithm_of(uint32_t number) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == Collective::kBcast && algorithm_number(algorithm.name) == number)
      return &algorithm;
  }
  return fail(ErrorCode::kMismatch,
              "a multicast goes by an algorithm that this rank does not have");
}

Result<MulticastChoice> choose_multicast(const MulticastFacts& facts,
                                         const MemberServers& servers) {
  std::vector<int> sizes;
  for (int place = 0; place < servers.places(); ++place)
    sizes.push_back(static_cast<int>(servers.members(place).size()));
  IBCOLL_ASSIGN(const Shape shape, Shape::from_layout(sizes, Placement::kBlock));
  const auto bytes = static_cast<int64_t>(facts.bytes);
  MulticastChoice choice;
  if (facts.algorithm == 0) {
    choice.algorithm = choose_bcast(shape, bytes, Crossing::kLeaders).algorithm;
  } else {
    IBCOLL_ASSIGN(const Algorithm* algorithm, algorithm_of(facts.algorithm));
    if (algorithm->spec->beyond_leaders) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} needs all members of a server at once: a multicast reaches one of them",
                  algorithm->name);
    }
    choice.algorithm = algorithm->name;
  }
  choice.pieces = facts.pieces != 0 ? facts.pieces : bcast_pieces(choice.algorithm, shape, bytes);
  return choice;
}

}  // namespace ibcoll
