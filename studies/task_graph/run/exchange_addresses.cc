#include "studies/task_graph/run/exchange_addresses.h"

#include <array>

namespace ibcoll::task_graph {

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

}  // namespace ibcoll::task_graph
