#include "engine/transport/transport.h"

#include <array>
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

Result<std::vector<RemoteAddress>> exchange_addresses(Bootstrap& bootstrap,
                                                      NetworkTransport& network, const void* base,
                                                      const MemoryKey& key) {
  struct Told {
    uint64_t address;
    uint64_t key_bytes;
    std::array<std::byte, NetworkTransport::kMaxKeyBytes> key;
  };
  Told mine{reinterpret_cast<uint64_t>(base), 0, {}};
  mine.key_bytes = network.pack_key(key, mine.key);
  std::vector<Told> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  std::vector<RemoteAddress> addresses;
  for (const Told& told : all) {
    const auto rank = static_cast<Rank>(addresses.size());
    addresses.push_back({told.address, 0});
    if (rank == bootstrap.rank()) continue;
    IBCOLL_ASSIGN(addresses.back().key,
                  network.unpack_key(rank, std::span(told.key).first(told.key_bytes)));
  }
  return addresses;
}

}  // namespace ibcoll
