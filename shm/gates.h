#pragma once
/// Gates: how many steps each rank of a server has finished in a call. A word a rank, call and
/// group that its rank alone writes; the others look.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/result.h"

namespace ibcoll::shm {

/// One rank's view of the gates of its server, which lie at the beginning of the shared region.
class Gates {
 public:
  /// What `ranks` ranks take.
  static size_t bytes(size_t ranks);

  Gates() = default;
  /// `memory`: zeroed pages, the same for all ranks of the server. Local rank 0 makes them ready
  /// with `prepare` before another rank opens gates.
  Gates(std::byte* memory, int me);
  void prepare();

  /// The slot of a group, the same for all its ranks of this server: kept for it until each has
  /// closed it. Not for the data path: takes a lock. Fails when too many groups are open at a time.
  Result<uint32_t> open(uint64_t group, std::span<const int> members);
  void close(uint32_t slot);

  /// Tells that this rank has passed `gates` gates of call `sequence`.
  void signal(uint32_t slot, uint32_t sequence, uint32_t gates) const;
  /// True once local rank `peer` has passed so many.
  bool passed(int peer, uint32_t slot, uint32_t sequence, uint32_t gates) const;

 private:
  struct Control;
  std::atomic<uint64_t>& word(int local, uint32_t slot, uint32_t sequence) const;

  Control* control_ = nullptr;
  std::atomic<uint64_t>* words_ = nullptr;
  int me_ = 0;
};

}  // namespace ibcoll::shm
