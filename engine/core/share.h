#pragma once
/// What one rank has found out, mostly rank 0, for all ranks of a job. Collective over them; while
/// a job starts.

#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/core/check_mode.h"

namespace ibcoll {

/// The numbers of rank 0 for everybody; the others have as many.
Status share(Bootstrap& bootstrap, std::vector<int>& numbers);

/// Rank 0's text for everybody.
Status share(Bootstrap& bootstrap, std::string& text);

/// Rank 0's setting for everybody.
Result<CheckMode> share(Bootstrap& bootstrap, CheckMode mode);

/// The error of the lowest rank that has one, for everybody.
Status share(Bootstrap& bootstrap, const Status& status);

/// Fails on all ranks, naming two, where the value of `what` is not the same on all.
Status same_on_all(Bootstrap& bootstrap, int64_t value, const char* what);

/// Fails on all ranks, naming two, where only some have `known`: `what` is to be set on all.
/// Returns whether it is.
Result<bool> known_to_all(Bootstrap& bootstrap, bool known, const char* what);

}  // namespace ibcoll
