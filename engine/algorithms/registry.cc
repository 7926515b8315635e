#include "engine/algorithms/registry.h"

#include <fmt/ranges.h>

#include "engine/algorithms/algorithms.h"

namespace ibcoll {

namespace {

/// Where blocks may differ in size, the same ones are moved as where they don't.
template <Collective kCollective,
          ProgramPtr (*kBuild)(Collective, const Shape&, Rank, const AlgorithmOptions&)>
ProgramPtr build_as(const Shape& shape, Rank me, const AlgorithmOptions& options) {
  return kBuild(kCollective, shape, me, options);
}

int one_slot(const Shape&) { return 1; }
int slots_of_a_server(const Shape& shape) { return shape.max_server_size(); }
int half_the_slots(const Shape& shape) { return (shape.ranks() + 1) / 2; }
int all_slots(const Shape& shape) { return shape.ranks(); }

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

constexpr std::string_view kAllgatherRing =
    "blocks run along the servers, piece by piece: long blocks (Thakur 2005)";
constexpr std::string_view kRecursiveDoubling =
    "log2 P exchanges of all that is held: short blocks (Thakur 2005)";
constexpr std::string_view kGatherLinear =
    "all ranks send to the root at once: few ranks (MPICH basic linear)";
constexpr std::string_view kGatherBinomial =
    "a server's blocks as one message, along a binomial tree: small blocks (Thakur 2005)";
constexpr std::string_view kGatherOneAtATime =
    "ranks of other servers one after the other, each released by the root: large blocks";
constexpr std::string_view kScatterLinear =
    "the root sends to all ranks, as they are ready (MPICH basic linear)";
constexpr std::string_view kScatterBinomial =
    "the blocks of half the servers as one message, then halves of it: small blocks (Thakur 2005)";
constexpr std::string_view kScatterOneAtATime =
    "the next rank's block leaves when the one before has arrived: links narrower than the root's";

constexpr std::string_view kContentionFree =
    "as planned for the network, no link oversubscribed, released by tokens: large blocks (thesis, "
    "Tokyo 2010)";

template <Collective kCollective,
          ProgramPtr (*kBuild)(Collective, const Shape&, Rank, const AlgorithmOptions&)>
constexpr Algorithm entry(std::string_view name, std::string_view summary, bool paced, bool relays,
                          int (*largest_put)(const Shape&) = nullptr) {
  return {kCollective, name, summary, paced, relays, build_as<kCollective, kBuild>, largest_put};
}

constexpr Algorithm kAlgorithms[] = {
    entry<Collective::kAlltoall, alltoall_linear>("linear", kLinear, false, false, one_slot),
    entry<Collective::kAlltoall, alltoall_ring>("ring", kRing, false, false, one_slot),
    entry<Collective::kAlltoall, alltoall_two_level_ring>("two_level_ring", kTwoLevelRing, true,
                                                          false, one_slot),
    entry<Collective::kAlltoall, alltoall_aggregate>("aggregate", kAggregate, true, true,
                                                     slots_of_a_server),
    entry<Collective::kAlltoall, alltoall_bruck>("bruck", kBruck, false, true, half_the_slots),
    entry<Collective::kAlltoallv, alltoall_linear>("linear", kLinear, false, false, one_slot),
    entry<Collective::kAlltoallv, alltoall_ring>("ring", kRing, false, false, one_slot),
    entry<Collective::kAlltoallv, alltoall_two_level_ring>("two_level_ring", kTwoLevelRing, true,
                                                           false, one_slot),
    entry<Collective::kAlltoallv, alltoall_aggregate>("aggregate", kAggregate, true, true,
                                                      slots_of_a_server),
    entry<Collective::kAlltoallv, alltoall_bruck>("bruck", kBruck, false, true, half_the_slots),
    entry<Collective::kAllgather, allgather_ring>("ring", kAllgatherRing, false, true, one_slot),
    entry<Collective::kAllgather, allgather_recursive_doubling>(
        "recursive_doubling", kRecursiveDoubling, false, true, all_slots),
    // Every rank knows the lengths of all blocks: nobody must be told them.
    entry<Collective::kAllgatherv, allgather_ring>("ring", kAllgatherRing, false, false),
    entry<Collective::kAllgatherv, allgather_recursive_doubling>("recursive_doubling",
                                                                 kRecursiveDoubling, false, false),
    entry<Collective::kGather, gather_linear>("linear", kGatherLinear, false, false),
    entry<Collective::kGather, gather_binomial>("binomial", kGatherBinomial, false, true),
    entry<Collective::kGather, gather_one_at_a_time>("one_at_a_time", kGatherOneAtATime, false,
                                                     false),
    entry<Collective::kGatherv, gather_linear>("linear", kGatherLinear, false, false),
    entry<Collective::kGatherv, gather_binomial>("binomial", kGatherBinomial, false, true),
    entry<Collective::kGatherv, gather_one_at_a_time>("one_at_a_time", kGatherOneAtATime, false,
                                                      false),
    entry<Collective::kScatter, scatter_linear>("linear", kScatterLinear, false, false),
    entry<Collective::kScatter, scatter_binomial>("binomial", kScatterBinomial, false, true),
    entry<Collective::kScatter, scatter_one_at_a_time>("one_at_a_time", kScatterOneAtATime, false,
                                                       false),
    entry<Collective::kScatterv, scatter_linear>("linear", kScatterLinear, false, false),
    entry<Collective::kScatterv, scatter_binomial>("binomial", kScatterBinomial, false, true),
    entry<Collective::kScatterv, scatter_one_at_a_time>("one_at_a_time", kScatterOneAtATime, false,
                                                        false),
    {Collective::kBcast, "linear", "the root sends to all ranks (Open MPI basic linear)", false,
     false, bcast_linear},
    {Collective::kBcast, "binomial",
     "servers that have the block double each step: short blocks (Thakur 2005)", false, true,
     bcast_binomial},
    {Collective::kBcast, "chain", "from server to server, piece by piece: long blocks", false, true,
     bcast_chain},
    {Collective::kReduce, "linear",
     "all ranks send to the root, which combines in rank order (Open MPI basic linear)", false,
     false, reduce_linear},
    {Collective::kReduce, "binomial",
     "servers combine in pairs, then pairs of them: short blocks (Thakur 2005)", false, true,
     reduce_binomial},
    {Collective::kReduce, "chain", "from server to server, piece by piece: long blocks", false,
     true, reduce_chain},
    entry<Collective::kAlltoall, contention_free>("contention_free", kContentionFree, false, true),
    entry<Collective::kAlltoallv, contention_free>("contention_free", kContentionFree, false, true),
    entry<Collective::kAllgather, contention_free>("contention_free", kContentionFree, false, true),
    entry<Collective::kAllgatherv, contention_free>("contention_free", kContentionFree, false,
                                                    false),
    entry<Collective::kGather, contention_free>("contention_free", kContentionFree, false, true),
    entry<Collective::kGatherv, contention_free>("contention_free", kContentionFree, false, true),
    entry<Collective::kScatter, contention_free>("contention_free", kContentionFree, false, true),
    entry<Collective::kScatterv, contention_free>("contention_free", kContentionFree, false, true),
    entry<Collective::kBcast, contention_free>("contention_free", kContentionFree, false, true),
    entry<Collective::kReduce, contention_free>("contention_free", kContentionFree, false, true),
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
