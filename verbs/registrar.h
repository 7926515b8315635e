#pragma once
/// Memory regions of a device, for the cache that keeps them.

#include "engine/transport/memory_cache.h"
#include "verbs/device.h"

namespace ibcoll::verbs {

class DeviceRegistrar final : public Registrar {
 public:
  explicit DeviceRegistrar(const Device& device) : device_(device) {}
  tl::expected<Region, Refusal> enter(void* base, size_t bytes) override;
  void remove(const Region& region) override;

 private:
  const Device& device_;
};

}  // namespace ibcoll::verbs
