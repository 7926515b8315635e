#pragma once
/// Errors as ranks tell them each other.

#include <cstdint>
#include <vector>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

struct ErrorRecord {
  int32_t code = 0;  ///< 0: none
  char text[400] = {};
};
/// Longer texts are cut.
ErrorRecord to_record(const Status& status);
Status to_status(const ErrorRecord& record);

/// Collective, where ranks know that some rank has failed: how each rank has fared. Texts travel
/// then only, since they are many times as long as what ranks tell each other otherwise.
Result<std::vector<Status>> exchange_errors(Bootstrap& bootstrap, const Status& mine);

}  // namespace ibcoll
