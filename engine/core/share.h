#pragma once
/// What one rank has found out, mostly rank 0, for all ranks of a job. Collective over them; while
/// a job starts.

#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// The numbers of rank 0 for everybody; the others have as many.
Status share(Bootstrap& bootstrap, std::vector<int>& numbers);

/// Rank 0's text for everybody.
Status share(Bootstrap& bootstrap, std::string& text);

/// The error of the lowest rank that has one, for everybody.
Status share(Bootstrap& bootstrap, const Status& status);

}  // namespace ibcoll
