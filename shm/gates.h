#pragma once
/// Gates: how many steps each rank of a server has finished in a call. A word a rank, call and
/// group that its rank alone writes; the others look.

#include <cstddef>
#include <cstdint>

#include "engine/base/result.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/sharing/shared_access.h"

namespace ibcoll::shm {

/// One rank's view of the gates of its server, which lie in the shared region. Address space is
/// there for a million groups at a time; memory is taken for those that are open.
class Gates {
 public:
  /// What `ranks` ranks take of the region.
  static size_t bytes(size_t ranks);

  /// Of that: what is reserved before any group has opened gates, and what one group touches.
  static size_t prepared_bytes();
  static size_t touched_bytes(size_t ranks);

  Gates() = default;
  /// In the region from `begin` on (a multiple of 64), the same for all ranks of the server. Local
  /// rank 0 makes them ready with `prepare` before another rank opens gates.
  Gates(SharedRegion& region, size_t begin, int me, size_t ranks);
  Status prepare();

  /// The slot of a group, the same for its `members` ranks of this server: kept for it until each
  /// has opened and closed it. Not for the data path: takes a lock. kNoMemory where the machine has
  /// none left or a million groups are open.
  Result<uint32_t> open(uint64_t group, uint32_t members);
  /// `over`: of a group that has ended early, whose other members may never open it: the slot is
  /// free once none has it open. One that opens it later gets another, and closes that in the same
  /// way.
  void close(uint32_t slot, bool over = false);

  /// Tells that this rank has passed `gates` gates of call `sequence`.
  void signal(uint32_t slot, uint32_t sequence, uint32_t gates) const;
  /// True once local rank `peer` has passed so many.
  bool passed(int peer, uint32_t slot, uint32_t sequence, uint32_t gates) const;

 private:
  struct Control;
  Shared<uint64_t>& word(int local, uint32_t slot, uint32_t sequence) const;
  Status reserve(const void* begin, size_t bytes);
  Result<uint32_t> take_slot(uint64_t group, uint32_t members);
  uint32_t find(uint64_t group) const;

  SharedRegion* region_ = nullptr;
  Control* control_ = nullptr;
  Shared<uint64_t>* words_ = nullptr;
  int me_ = 0;
  size_t ranks_ = 0;
};

}  // namespace ibcoll::shm
