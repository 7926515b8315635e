#include "engine/core/counters.h"

namespace ibcoll {

std::vector<NamedCounter> all_counters(const NetworkTransport* network) {
  if (network == nullptr) return {};
  const TransportCounters& common = network->counters();
  std::vector<NamedCounter> all = {
      {"data_messages", common.data_messages}, {"tokens", common.tokens},
      {"data_bytes", common.data_bytes},       {"gathers", common.gathers},
      {"queue_pairs", common.queue_pairs},     {"connections", common.connections},
      {"registrations", common.registrations}};
  for (const NamedCounter& own : network->details()) all.push_back(own);
  return all;
}

}  // namespace ibcoll
