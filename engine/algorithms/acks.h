#pragma once
/// Acknowledgements of a broadcast: the root's program ends when everybody has everything.

#include "engine/algorithms/registry.h"

namespace ibcoll {

/// The program of one rank of a broadcast, whatever its algorithm, with the way back: a rank tells
/// its server's leader once it holds all, a leader tells its parent in the binomial tree of the
/// servers once it holds all and has heard from its own ranks and from the leaders below it. What
/// the root has heard then means that all ranks hold all. Tokens: one a rank; to other servers one
/// a server, and ceil(log2 Ns) waits one after the other at most.
ProgramPtr with_acks(const Shape& shape, const RankProgram& program);

}  // namespace ibcoll
