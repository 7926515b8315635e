#pragma once
/// What the ranks of a job tell each other first: on which machines they run, and what of their
/// settings has to be alike. One exchange, whatever there is to be told, of which a rank keeps a
/// number for each other.

#include <cstdint>
#include <vector>

#include "engine/base/digest.h"
#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/core/context_options.h"

namespace ibcoll {

struct JobStart {
  /// A value of ContextOptions::eager_bytes.
  struct EagerBytes {
    int64_t value = 0;
    Rank first = 0;  ///< the lowest that has it
  };

  /// Of the ranks, in their order.
  DistinctNumbers machines;
  std::vector<EagerBytes> eager_bytes;  ///< different ones, in the order of their first ranks
  CheckMode check = CheckMode::kOff;    ///< rank 0's

  /// Collective. Fails on all ranks, naming two, where only some have a fabric, programs or rules.
  static Result<JobStart> exchange(Bootstrap& bootstrap, const ContextOptions& options);
  /// Bytes that each rank gives to it.
  static size_t record_bytes();

  /// The least of `longest` and what all ranks have set. Fails on all of them, naming two, where
  /// they differ in that.
  Result<int64_t> agreed_eager_bytes(int64_t longest) const;
};

}  // namespace ibcoll
