#include "engine/algorithms/registry.h"

#include <fmt/ranges.h>

#include "engine/algorithms/algorithms.h"

namespace ibcoll {

namespace {

/// Alltoall and alltoallv move the same blocks.
template <Collective kCollective,
          ProgramPtr (*kBuild)(Collective, const Shape&, Rank, const AlgorithmOptions&)>
ProgramPtr build_as(const Shape& shape, Rank me, const AlgorithmOptions& options) {
  return kBuild(kCollective, shape, me, options);
}

constexpr std::string_view kLinear =
    "all blocks at once, in any order: few ranks or small blocks on one server (MPICH scattered)";
constexpr std::string_view kRing =
    "step i to the rank i after: what MPI libraries do with large blocks (Naruse 2010, fig. 1)";
constexpr std::string_view kTwoLevelRing =
    "every server to one server a step, paced: large blocks (Naruse 2010, fig. 7)";
constexpr std::string_view kAggregate =
    "SA, blocks of a server for one rank as one message: medium blocks (Kumar 2008)";
constexpr std::string_view kBruck =
    "log2 P messages, blocks hop bit by bit: small blocks on many servers (Bruck 1997)";

template <ProgramPtr (*kBuild)(Collective, const Shape&, Rank, const AlgorithmOptions&)>
constexpr Algorithm alltoall(std::string_view name, std::string_view summary, bool paced,
                             bool relays) {
  return {
      Collective::kAlltoall, name, summary, paced, relays, build_as<Collective::kAlltoall, kBuild>};
}

template <ProgramPtr (*kBuild)(Collective, const Shape&, Rank, const AlgorithmOptions&)>
constexpr Algorithm alltoallv(std::string_view name, std::string_view summary, bool paced,
                              bool relays) {
  return {Collective::kAlltoallv,
          name,
          summary,
          paced,
          relays,
          build_as<Collective::kAlltoallv, kBuild>};
}

constexpr Algorithm kAlgorithms[] = {
    alltoall<alltoall_linear>("linear", kLinear, false, false),
    alltoall<alltoall_ring>("ring", kRing, false, false),
    alltoall<alltoall_two_level_ring>("two_level_ring", kTwoLevelRing, true, false),
    alltoall<alltoall_aggregate>("aggregate", kAggregate, true, true),
    alltoall<alltoall_bruck>("bruck", kBruck, false, true),
    alltoallv<alltoall_linear>("linear", kLinear, false, false),
    alltoallv<alltoall_ring>("ring", kRing, false, false),
    alltoallv<alltoall_two_level_ring>("two_level_ring", kTwoLevelRing, true, false),
    alltoallv<alltoall_aggregate>("aggregate", kAggregate, true, true),
    alltoallv<alltoall_bruck>("bruck", kBruck, false, true),
    {Collective::kAllgather, "ring",
     "blocks run along the servers, piece by piece: long blocks (Thakur 2005)", false, true,
     allgather_ring},
    {Collective::kAllgather, "recursive_doubling",
     "log2 P exchanges of all that is held: short blocks (Thakur 2005)", false, true,
     allgather_recursive_doubling},
    {Collective::kBarrier, "dissemination",
     "servers tell each other in log(n+1) rounds, all local ranks at work (Hensgen 1988)", false,
     false, barrier_dissemination},
};

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

std::vector<std::shared_ptr<const RankProgram>> build_all(const Algorithm& algorithm,
                                                          const Shape& shape,
                                                          const AlgorithmOptions& options) {
  std::vector<std::shared_ptr<const RankProgram>> programs;
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    programs.push_back(algorithm.build(shape, rank, options));
  }
  return programs;
}

Result<const Algorithm*> find_algorithm(Collective collective, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective != collective) continue;
    if (algorithm.name == name) return &algorithm;
    names.push_back(algorithm.name);
  }
  return fail(ErrorCode::kInvalidArgument, "unknown {} algorithm '{}': one of {}",
              to_string(collective), name, fmt::join(names, ", "));
}

}  // namespace ibcoll
