#include "studies/measure/machine_line.h"

namespace ibcoll {

nlohmann::ordered_json machine_line(const MachineInfo& host) {
  nlohmann::ordered_json line = {{"kind", "machine"},
                                 {"name", host.name},
                                 {"kernel", host.kernel},
                                 {"processor", host.processor},
                                 {"packages", host.packages},
                                 {"cores", host.cores},
                                 {"threads", host.threads},
                                 {"usable_cores", host.usable_cores},
                                 {"memory_bytes", host.memory_bytes},
                                 {"available_bytes", host.available_bytes}};
  line["caches"] = nlohmann::ordered_json::array();
  for (const CacheInfo& cache : host.caches) {
    line["caches"].push_back({{"name", cache.name},
                              {"bytes", cache.bytes},
                              {"count", cache.count},
                              {"cores_each", cache.cores_each}});
  }
  line["numa"] = nlohmann::ordered_json::array();
  for (const NumaInfo& node : host.numa)
    line["numa"].push_back({{"node", node.number}, {"bytes", node.bytes}, {"cores", node.cores}});
  return line;
}

}  // namespace ibcoll
