#pragma once
/// What messages between two ranks cost as calls of the engine: LogP as a bound of the time that
/// calls take needs it, with the slow ones among many.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/context.h"

namespace ibcoll::measure {

/// Where a message passes: inside a server, or between two.
enum class Layer : uint8_t { kLocal, kNetwork };
/// "shm", "network".
const char* to_string(Layer layer);

struct CallCostSettings {
  std::vector<int64_t> sizes;  ///< of messages, at least one byte
  int rounds = 1000;           ///< to and fro, at each size; less of long messages
  int pauses = 100;            ///< after which a rank is called that sleeps
};

/// Of one layer and size. In ns; the tails are of single messages, over all pairs of ranks.
struct CallCosts {
  Layer layer = Layer::kLocal;
  std::string transport;
  int pairs = 0;  ///< that were measured at the same time
  int64_t bytes = 0;
  /// From the beginning of a call that sends (o) to the end of the one that receives (o + L + n G).
  double hop_ns = 0, hop_p99_ns = 0, hop_max_ns = 0;
  /// Between messages that follow each other to the same rank (g + n G).
  double gap_ns = 0, gap_p99_ns = 0;
  /// What is added where the receiver has fallen asleep; of the layer.
  double wake_ns = 0, wake_p99_ns = 0;
};

/// Collective over all ranks of the context: those of a server in pairs, then those of two servers,
/// all pairs at the same time, so that what is measured holds where so many ranks share the cores.
/// A layer without pairs is left out. The same on all ranks.
Result<std::vector<CallCosts>> measure_call_costs(Bootstrap& bootstrap, Context& context,
                                                  const CallCostSettings& settings);

/// Collective: the time per operation, in ns (the 99th percentile over all ranks), that it takes to
/// write the program of a call that no call was like before.
Result<double> measure_program_cost(Bootstrap& bootstrap, int rounds);

}  // namespace ibcoll::measure
