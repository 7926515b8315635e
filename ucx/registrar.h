#pragma once
/// Memory as UCX's networks know it, for the cache that keeps registrations.

#include "engine/transport/memory_cache.h"
#include "ucx/worker.h"

namespace ibcoll::ucx {

/// Numbers registrations. Their handle is UCX's where the network itself writes there; where this
/// rank copies what comes in messages the number is enough.
class UcxRegistrar final : public Registrar {
 public:
  UcxRegistrar(UcpContext& context, bool maps) : context_(context), maps_(maps) {}
  tl::expected<Region, Refusal> enter(void* base, size_t bytes) override;
  void remove(const Region& region) override;

 private:
  UcpContext& context_;
  const bool maps_;
  uint64_t last_ = 0;
};

}  // namespace ibcoll::ucx
