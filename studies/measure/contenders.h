#pragma once
/// Which algorithms, in which settings, a benchmark compares.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/program.h"

namespace ibcoll::measure {

/// An algorithm in one setting; measured at every size.
struct Contender {
  std::string algorithm;         ///< "auto": the engine chooses at each size
  std::optional<Pacing> pacing;  ///< none: the engine chooses, or the algorithm isn't paced
  /// "two_level_ring", or "two_level_ring/gate" where a pacing was asked for.
  std::string label() const;
};

/// All contenders that `algorithms` ("ring,aggregate", "all", "auto") and `pacings` (empty, "auto"
/// or "free,gate_token") name: a paced algorithm once for each pacing. Errors list the names there
/// are.
Result<std::vector<Contender>> select_contenders(Collective collective, std::string_view algorithms,
                                                 std::string_view pacings);

}  // namespace ibcoll::measure
