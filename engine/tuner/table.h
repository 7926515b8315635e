#pragma once
/// The engine's own choices, measured or simulated for all machines: one table of rows. What was
/// measured for one job goes into a file of rules (rules.h).

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/algorithms/registry.h"
#include "engine/tuner/conditions.h"

namespace ibcoll {

/// From how many bytes of a block on a row counts: all of these.
struct FirstSize {
  int64_t block = 0;
  int64_t a_server = 0;  ///< of the block's part for each server
  int64_t a_slice = 0;   ///< of the block's part for each rank of the largest server

  int64_t of(const Shape& shape) const {
    return std::max({block, a_server * shape.servers(), a_slice * shape.max_server_size()});
  }
};

/// How many pieces a block is passed on in.
enum class PieceRule : uint8_t {
  kWhole,    ///< one
  kRelayed,  ///< of 64 KB at least, 16 at most
  kPart,     ///< the same of an allreduce, in which ranks pass on a part of the block each
  kInCache,  ///< on one server: of 128 KB at most, 256 at most
  kOwn,      ///< as the algorithm says (AlgorithmSpec::pieces)
};

/// When a plan is worth more than what a row names.
enum class PlanRule : uint8_t {
  kBeatsWalk,  ///< it takes less time than a walk over the servers
  kAtBound,    ///< it takes hardly longer than any plan must, and its tokens are in time
};

struct ChoiceRow {
  Collectives collectives;
  Condition when = kAlways;
  FirstSize from;
  /// Of several the one that costs least (AlgorithmSpec::cost), the first of equals.
  std::array<std::string_view, 3> algorithms;
  PieceRule pieces = PieceRule::kWhole;
  /// Free of tokens and gates at any size; else as the size asks for (choose_pacing).
  bool free = false;
  /// What is taken instead on a network that is known, where a plan for it pays; empty: nothing.
  std::string_view planned = {};
  PlanRule plan_rule = PlanRule::kBeatsWalk;
};

/// A *block* of rows are those for the same collectives and conditions, which follow each other by
/// their first sizes. The first block whose conditions hold decides, and in it the last row whose
/// first size is reached.
std::span<const ChoiceRow> table_of_choices();

/// The row that decides. Allocates nothing.
const ChoiceRow& row_for(const CallFacts& facts);

/// Names of algorithms, those first that are the likeliest to be good.
struct AlgorithmNames {
  std::array<std::string_view, 3> names;
  size_t count = 0;
};
/// Which algorithms may be better than the one that is chosen for such a call, on machines or
/// networks that are unlike those that the table was made for: what it has for sizes not far from
/// this one, under the same conditions or others. None that carries out a plan. Nothing is worth
/// trying where blocks may differ in size, or a rank has much data: some algorithms need memory for
/// all of it. Allocates nothing.
AlgorithmNames worth_trying(const CallFacts& facts, std::string_view chosen);

}  // namespace ibcoll
