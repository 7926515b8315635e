#pragma once
/// Verifies schedules and says what they cost, also what they do to a network's links: `ib_sched
/// verify`.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/base/json_lines.h"
#include "engine/schedule/json.h"
#include "topology/fabric.h"

namespace ibcoll {

/// What to verify: a collective's algorithms, or a schedule that was loaded.
struct VerificationSettings {
  Shape shape = Shape::single_server(1);
  AlgorithmOptions options;
  uint32_t pieces = 0;  ///< see verify()
  std::vector<const Algorithm*> algorithms;
  std::optional<LoadedSchedule> loaded;
  /// The network, of which server i is host i: then links are proved too. contention_free is
  /// planned for it, with tokens at the end, which needs no clock (link_sharing.h), and with tokens
  /// ahead, proved in time by the checker of plans.
  std::optional<topology::Fabric> fabric;
  int64_t block_bytes = 0;  ///< that is planned for

  std::vector<int> hosts() const;  ///< of each server
};

/// Prints a table, with the witnesses of what does not hold, unless JSON goes to standard output.
/// Fails with kInvalidProgram where a schedule does not hold or puts share a link beyond its
/// bandwidth. `progress`, where there is one, is told what is in hand: a line, or nothing where
/// that has ended.
Status verify_and_report(const VerificationSettings& settings, JsonLines& json,
                         const std::function<void(const std::string&)>& progress = {});

}  // namespace ibcoll
