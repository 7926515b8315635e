#pragma once
/// One function an algorithm; each is described in its file. The collective is a parameter where
/// several collectives share the data movement.

#include <memory>

#include "engine/schedule/program.h"

namespace ibcoll {

using ProgramPtr = std::shared_ptr<const RankProgram>;

ProgramPtr alltoall_linear(Collective collective, const Shape& shape, Rank me,
                           const AlgorithmOptions& options);
ProgramPtr alltoall_ring(Collective collective, const Shape& shape, Rank me,
                         const AlgorithmOptions& options);
ProgramPtr alltoall_two_level_ring(Collective collective, const Shape& shape, Rank me,
                                   const AlgorithmOptions& options);
ProgramPtr alltoall_aggregate(Collective collective, const Shape& shape, Rank me,
                              const AlgorithmOptions& options);
ProgramPtr alltoall_bruck(Collective collective, const Shape& shape, Rank me,
                          const AlgorithmOptions& options);

ProgramPtr allgather_ring(Collective collective, const Shape& shape, Rank me,
                          const AlgorithmOptions& options);
ProgramPtr allgather_recursive_doubling(Collective collective, const Shape& shape, Rank me,
                                        const AlgorithmOptions& options);

ProgramPtr gather_linear(Collective collective, const Shape& shape, Rank me,
                         const AlgorithmOptions& options);
ProgramPtr gather_binomial(Collective collective, const Shape& shape, Rank me,
                           const AlgorithmOptions& options);
ProgramPtr gather_one_at_a_time(Collective collective, const Shape& shape, Rank me,
                                const AlgorithmOptions& options);

ProgramPtr scatter_linear(Collective collective, const Shape& shape, Rank me,
                          const AlgorithmOptions& options);
ProgramPtr scatter_binomial(Collective collective, const Shape& shape, Rank me,
                            const AlgorithmOptions& options);
ProgramPtr scatter_one_at_a_time(Collective collective, const Shape& shape, Rank me,
                                 const AlgorithmOptions& options);

ProgramPtr bcast_linear(const Shape& shape, Rank me, const AlgorithmOptions& options);
ProgramPtr bcast_binomial(const Shape& shape, Rank me, const AlgorithmOptions& options);
ProgramPtr bcast_chain(const Shape& shape, Rank me, const AlgorithmOptions& options);

ProgramPtr reduce_linear(const Shape& shape, Rank me, const AlgorithmOptions& options);
ProgramPtr reduce_binomial(const Shape& shape, Rank me, const AlgorithmOptions& options);
ProgramPtr reduce_chain(const Shape& shape, Rank me, const AlgorithmOptions& options);

/// The ordered binomial reduction under another algorithm's name.
ProgramPtr reduce_in_rank_order(const char* name, const Shape& shape, Rank me,
                                const AlgorithmOptions& options);

ProgramPtr contention_free(Collective collective, const Shape& shape, Rank me,
                           const AlgorithmOptions& options);

ProgramPtr barrier_dissemination(const Shape& shape, Rank me, const AlgorithmOptions& options);

}  // namespace ibcoll
