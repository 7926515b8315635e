#include "engine/transport/transport.h"

#include <cstring>

namespace ibcoll {

size_t NetworkTransport::pack_key(const MemoryKey& key, std::span<std::byte> packed) const {
  std::memcpy(packed.data(), &key.remote, sizeof(key.remote));
  return sizeof(key.remote);
}

Result<uint64_t> NetworkTransport::unpack_key(Rank peer, std::span<const std::byte> packed) {
  uint64_t key = 0;
  if (packed.size() != sizeof(key)) {
    return fail(ErrorCode::kInternal, "rank {} gave a memory key of {} bytes instead of {}", peer,
                packed.size(), sizeof(key));
  }
  std::memcpy(&key, packed.data(), sizeof(key));
  return key;
}

}  // namespace ibcoll
