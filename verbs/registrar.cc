#include "verbs/registrar.h"

#include <cerrno>

#include "verbs/limit_errors.h"

namespace ibcoll::verbs {

tl::expected<Registrar::Region, Registrar::Refusal> DeviceRegistrar::enter(void* base,
                                                                           size_t bytes) {
  Region entered;
  MemoryHandle region = register_region(device_.domain(), base, bytes,
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  entered.writable = region != nullptr;
  if (!region && (errno == EFAULT || errno == EACCES))
    region = register_region(device_.domain(), base, bytes, 0);
  if (!region) {
    const int error = errno;
    // A hole in the memory (EFAULT) is no limit.
    return tl::unexpected<Refusal>(Refusal{
        registration_error(device_, fmt::format("{} bytes at {}", bytes, base), bytes, error)
            .value(),
        error != EFAULT});
  }
  entered.key = {region->lkey, region->rkey, 0};
  entered.handle = reinterpret_cast<uint64_t>(region.release());
  return entered;
}

void DeviceRegistrar::remove(const Region& region) {
  const MemoryHandle released(reinterpret_cast<ibv_mr*>(region.handle));
}

}  // namespace ibcoll::verbs
