#include "ucx/registrar.h"

namespace ibcoll::ucx {

tl::expected<Registrar::Region, Registrar::Refusal> UcxRegistrar::enter(void* base, size_t bytes) {
  Region region;
  region.writable = true;
  if (maps_) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = base;
    params.length = bytes;
    ucp_mem_h handle = nullptr;
    forget_messages();
    const Library& ucp = context_.ucp();
    if (const ucs_status_t status = ucp.mem_map(context_.handle(), &params, &handle);
        status != UCS_OK) {
      const bool full = status == UCS_ERR_NO_MEMORY;
      return tl::unexpected<Refusal>(
          Refusal{{full ? ErrorCode::kNoMemory : ErrorCode::kSystem,
                   fmt::format("{} bytes at {} can't be registered with UCX: {}", bytes, base,
                               explain(ucp, status))},
                  full});
    }
    region.handle = reinterpret_cast<uint64_t>(handle);
  }
  region.key.local = region.key.remote = ++last_;
  return region;
}

void UcxRegistrar::remove(const Region& region) {
  if (region.handle != 0)
    context_.ucp().mem_unmap(context_.handle(), reinterpret_cast<ucp_mem_h>(region.handle));
}

}  // namespace ibcoll::ucx
