#pragma once
/// Programs in words, for messages and listings.

#include <string>

#include "engine/schedule/program.h"

namespace ibcoll {

/// "send[3]", "recv[0..7]".
std::string describe(const Slice& slice);
/// "3->5", "3->all".
std::string describe(const Block& block);
/// What an operation does: "put send[3] to rank 3 at recv[0]".
std::string describe(const Op& op);
/// Which operation it is: "rank 2, lane send, step 4, op 7 (put ...)"; op counts in its lane from
/// 0.
std::string describe(const RankProgram& program, Lane lane, uint32_t op);

/// The whole program, one operation a line, with what it comes after.
std::string list(const RankProgram& program);

}  // namespace ibcoll
