#pragma once
/// Memory regions of a device, for the cache that keeps them.

#include <string_view>

#include "engine/transport/memory_cache.h"
#include "verbs/device.h"

namespace ibcoll::verbs {

/// Whether devices may write data to buffers out of order (IBV_ACCESS_RELAXED_ORDERING). The engine
/// looks at data only once a completion says that it is there, and the place of completions is not
/// registered so: no write passes what was written before it then.
enum class RelaxedOrdering { kAuto, kOn, kOff };
/// What that comes to on a processor with this /proc/cpuinfo. Intel's gain nothing from it, and
/// some have errors in it, which the kernel of a virtual machine can't see.
bool relaxes_ordering(RelaxedOrdering wanted, std::string_view cpuinfo);

class DeviceRegistrar final : public Registrar {
 public:
  DeviceRegistrar(const Device& device, RelaxedOrdering ordering);
  tl::expected<Region, Refusal> enter(void* base, size_t bytes) override;
  void remove(const Region& region) override;

 private:
  const Device& device_;
  const int relaxed_;  ///< a bit of access to writable memory, or 0
};

}  // namespace ibcoll::verbs
