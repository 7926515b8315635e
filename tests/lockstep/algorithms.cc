#include "tests/lockstep/algorithms.h"

#include "engine/algorithms/registry.h"

namespace ibcoll::lockstep {

std::vector<NamedAlgorithm> registered_algorithms() {
  std::vector<NamedAlgorithm> all;
  for (const Algorithm& one : algorithms()) {
    all.push_back({static_cast<Operation>(one.collective), std::string(one.name),
                   one.spec->keeps_order == on_every_shape, one.paced});
  }
  return all;
}

std::vector<std::string> registered_multicast_algorithms() {
  std::vector<std::string> all;
  for (const Algorithm& one : algorithms()) {
    if (one.collective == Collective::kBcast && one.relays && !one.spec->beyond_leaders &&
        !one.spec->planned)
      all.emplace_back(one.name);
  }
  return all;
}

}  // namespace ibcoll::lockstep
