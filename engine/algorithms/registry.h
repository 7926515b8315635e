#pragma once
/// The algorithms there are. A new one is a file in this folder and a line in registry.cc; tools,
/// tests, executor and simulator find it here.

#include <memory>
#include <span>
#include <string_view>

#include "engine/base/result.h"
#include "engine/schedule/program.h"

namespace ibcoll {

struct Algorithm {
  Collective collective;
  std::string_view name;
  std::string_view summary;  ///< one line: what it does, when to use it, the paper
  bool paced;                ///< heeds AlgorithmOptions::pacing
  bool relays;  ///< blocks may pass through other ranks, which must be told their lengths where
                ///< they differ
  /// Builds the program of rank `me`: a pure function of its arguments.
  std::shared_ptr<const RankProgram> (*build)(const Shape& shape, Rank me,
                                              const AlgorithmOptions& options);
  /// Set where nobody can run ahead: a call ends on no rank before all have begun it, so that
  /// messages may be sent unasked. No put between servers is of more slots than this, on any rank.
  int (*largest_put)(const Shape& shape) = nullptr;
};

/// All algorithms, by collective.
std::span<const Algorithm> algorithms();

/// The programs of all ranks.
std::vector<std::shared_ptr<const RankProgram>> build_all(const Algorithm& algorithm,
                                                          const Shape& shape,
                                                          const AlgorithmOptions& options = {});

/// The algorithm of that name; the error lists the names there are for the collective.
Result<const Algorithm*> find_algorithm(Collective collective, std::string_view name);

}  // namespace ibcoll
