#include "verbs/registrar.h"

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "verbs/limit_errors.h"

namespace ibcoll::verbs {

namespace {

std::string cpuinfo() {
  std::ostringstream text;
  text << std::ifstream("/proc/cpuinfo").rdbuf();
  return text.str();
}

}  // namespace

bool relaxes_ordering(RelaxedOrdering wanted, std::string_view cpuinfo) {
  if (wanted != RelaxedOrdering::kAuto) return wanted == RelaxedOrdering::kOn;
  return cpuinfo.find("GenuineIntel") == std::string_view::npos;
}

DeviceRegistrar::DeviceRegistrar(const Device& device, RelaxedOrdering ordering)
    : device_(device),
      relaxed_(relaxes_ordering(ordering, cpuinfo()) ? IBV_ACCESS_RELAXED_ORDERING : 0) {}

tl::expected<Registrar::Region, Registrar::Refusal> DeviceRegistrar::enter(void* base,
                                                                           size_t bytes) {
  Region entered;
  MemoryHandle region = register_region(
      device_.domain(), base, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | relaxed_);
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
