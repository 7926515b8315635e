#pragma once
/// ib_logp --calls: what messages cost as calls of the engine.

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/result.h"

namespace ibcoll::tools {

struct CallsArguments {
  std::optional<int64_t> ranks, servers;
  std::string transport;  ///< between servers; empty: IBCOLL_TRANSPORT's
  std::string sizes;      ///< empty: 8 bytes to 1 MB
  std::string json;
  int rounds = 1000;
};

/// Starts the ranks here, or is one of those that a launcher has started. The result is the exit
/// status of this process; what goes wrong in a rank has then been said.
Result<int> run_calls(const CallsArguments& arguments);

}  // namespace ibcoll::tools
