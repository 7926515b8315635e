#pragma once
/// What the ranks of a job tell each other first: where they run, and what of their settings has to
/// be alike. One exchange, whatever there is to be told.

#include <cstdint>
#include <vector>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/machine.h"
#include "engine/core/context_options.h"

namespace ibcoll {

struct JobStart {
  std::vector<ProcessPlace> places;   ///< by rank
  std::vector<int64_t> eager_bytes;   ///< ContextOptions::eager_bytes, by rank
  CheckMode check = CheckMode::kOff;  ///< rank 0's

  /// Collective. Fails on all ranks, naming two, where only some have a fabric, programs or rules.
  static Result<JobStart> exchange(Bootstrap& bootstrap, const ContextOptions& options);
  /// Bytes that each rank gives to it.
  static size_t record_bytes();

  /// The least of `longest` and what all ranks have set. Fails on all of them, naming two, where
  /// they differ in that.
  Result<int64_t> agreed_eager_bytes(int64_t longest) const;
};

}  // namespace ibcoll
