#pragma once
/// The rules of a job, from the file that IBCOLL_RULES names.

#include <string>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/core/opened_job.h"
#include "engine/schedule/shape.h"
#include "engine/tuner/rules.h"

namespace ibcoll {

/// Collective: what rules for this job are measured on; the same on all ranks. Where machines
/// differ the processor says so.
Result<RulesJob> describe_job(OpenedJob& opened);

/// Collective: the first section of the file that fits the job, which rank 0 reads and gives to
/// all. Where none fits rank 0 warns once, saying what differs, and there are no rules; `strict`:
/// that is an error. A file that can't be read, or is damaged, is rank 0's error on all ranks.
Result<Rules> read_rules_for(Bootstrap& bootstrap, const std::string& path, bool strict,
                             const RulesJob& job, const Shape& shape);

}  // namespace ibcoll
