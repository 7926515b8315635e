#pragma once
/// One cell of a comparison's tables: by how much one contender is faster than another, and whether
/// that is below a limit.

#include <nlohmann/json.hpp>
#include <string>

#include "perf/compare/measure.h"

namespace ibcoll::compare {

/// What seems below a limit is measured again, by itself, in so many rounds: there are hundreds of
/// cells, some of which seem so by chance.
inline constexpr int kRoundsAgain = 21;

/// How many times as fast as another a call that waits for others is to be at least: where ranks
/// outnumber cores the system's turns are in the figures.
double least_faster(int ranks, int cores);

/// How many times faster `ours` are than `theirs`, of the rounds' medians.
Interval speedup(const Rounds& theirs, const Rounds& ours);
/// The same over the one of them whose rounds' medians are lowest.
Interval speedup_over_fastest(const std::vector<const Rounds*>& theirs, const Rounds& ours);

/// What stands behind a figure: '!' if it is below its limit, '?' if it only seemed so and was
/// measured again, else a blank.
char mark(bool measured_again, bool below);

/// Sets NAME, NAME_low and NAME_high.
void add_interval(nlohmann::ordered_json& line, const std::string& name, const Interval& interval);

}  // namespace ibcoll::compare
