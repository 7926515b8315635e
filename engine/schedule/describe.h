#pragma once
/// Programs in words, for messages and listings.

#include <string>

#include "engine/schedule/program.h"

namespace ibcoll {

/// "send[3]", "recv[0..7]".
std::string describe(const Slice& slice);
/// "3->5", "3->all", of a program that cuts blocks "3->5, part 0 of 2".
std::string describe(const Block& block, const RankProgram& program);
/// What an operation does: "put send[3] to rank 3 at recv[0]".
std::string describe(const Op& op);
/// Which operation it is: "rank 2, lane send, step 4, op 7 (put ...)"; op counts in its lane from
/// 0.
std::string describe(const RankProgram& program, Lane lane, uint32_t op);

/// The whole program, one operation a line, with what it comes after. Says which slots are parts
/// of which blocks, where they are cut.
std::string list(const RankProgram& program);

}  // namespace ibcoll
