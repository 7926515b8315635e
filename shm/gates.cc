#include "shm/gates.h"

#include <algorithm>
#include <cstddef>

#include "engine/base/hash.h"
#include "engine/base/pages.h"
#include "engine/sharing/robust_mutex.h"
#include "engine/transport/transport.h"

namespace ibcoll::shm {
namespace {

constexpr uint32_t kSlots = 1u << 20;  ///< groups at a time
constexpr int kBucketBits = 14;
constexpr uint32_t kBanks = LocalTransport::kGateBanks;

/// A rank's passed gates of the call a bank holds: sequence in the upper half, gates + 1 in the
/// lower (0: never used).
constexpr uint64_t gate_word(uint32_t sequence, uint32_t gates) {
  return uint64_t{sequence} << 32 | (uint64_t{gates} + 1);
}

}  // namespace

/// Which group uses which slot. Guarded by the mutex; a rank that died inside left at worst a slot
/// that stays taken: a slot is in no list before it enters another. Links are numbers of slots,
/// counted from 1, so that zeroed memory is an empty table.
struct Gates::Control {
  struct Slot {
    uint64_t group;
    uint32_t users;
    uint32_t to_come;  ///< members that have not opened it yet
    uint32_t next;     ///< in its bucket, or among the free ones
  };
  RobustMutex mutex;
  uint32_t used;  ///< slots that have ever been in use
  uint32_t free;  ///< first of those that are free again
  uint32_t buckets[1u << kBucketBits];
  Slot slots[kSlots];
};

size_t Gates::bytes(size_t ranks) {
  return round_up(sizeof(Control), 64) + sizeof(uint64_t) * kSlots * kBanks * ranks;
}

size_t Gates::prepared_bytes() { return offsetof(Control, slots); }

/// The mutex, a bucket and a slot are on a page each.
size_t Gates::touched_bytes(size_t ranks) {
  return 3 * page_bytes() + round_up(ranks * kBanks * sizeof(uint64_t), page_bytes());
}

Gates::Gates(SharedRegion& region, size_t begin, int me, size_t ranks)
    : region_(&region),
      control_(reinterpret_cast<Control*>(region.data() + begin)),
      words_(reinterpret_cast<Shared<uint64_t>*>(region.data() + begin +
                                                 round_up(sizeof(Control), 64))),
      me_(me),
      ranks_(ranks) {}

Status Gates::prepare() {
  IBCOLL_TRY(reserve(control_, offsetof(Control, slots)));
  control_->mutex.prepare();
  return {};
}

Status Gates::reserve(const void* begin, size_t bytes) {
  return region_->reserve(
      static_cast<size_t>(static_cast<const std::byte*>(begin) - region_->data()), bytes);
}

Shared<uint64_t>& Gates::word(int local, uint32_t slot, uint32_t sequence) const {
  return words_[(slot * ranks_ + static_cast<size_t>(local)) * kBanks + sequence % kBanks];
}

Result<uint32_t> Gates::open(uint64_t group, uint32_t members) {
  const RobustMutex::Lock lock(control_->mutex);
  const uint32_t found = find(group);
  if (found == 0) return take_slot(group, members);
  Control::Slot& slot = control_->slots[found - 1];
  ++slot.users;
  --slot.to_come;
  return found - 1;
}

/// The link to a group's slot; 0: it has none.
uint32_t Gates::find(uint64_t group) const {
  uint32_t i = control_->buckets[bucket_of(group, kBucketBits)];
  while (i != 0 && control_->slots[i - 1].group != group) i = control_->slots[i - 1].next;
  return i;
}

/// A slot for a group that has none.
Result<uint32_t> Gates::take_slot(uint64_t group, uint32_t members) {
  const bool reused = control_->free != 0;
  if (!reused && control_->used == kSlots) {
    return fail(ErrorCode::kNoMemory,
                "more than {} groups at a time on this server: free groups no longer used", kSlots);
  }
  const uint32_t index = reused ? control_->free - 1 : control_->used;
  Control::Slot& slot = control_->slots[index];
  Shared<uint64_t>* const words = &word(0, index, 0);
  if (!reused) {
    IBCOLL_TRY(reserve(&slot, sizeof slot));
    IBCOLL_TRY(reserve(words, ranks_ * kBanks * sizeof(uint64_t)));
    ++control_->used;
  } else {
    control_->free = slot.next;
    keep_order();
    std::for_each(words, words + ranks_ * kBanks,
                  [](auto& gates) { gates.store(0, std::memory_order_relaxed); });
  }
  uint32_t& bucket = control_->buckets[bucket_of(group, kBucketBits)];
  slot = {group, 1, members - 1, bucket};
  keep_order();
  bucket = index + 1;
  return index;
}

void Gates::close(uint32_t index, bool over) {
  const RobustMutex::Lock lock(control_->mutex);
  Control::Slot& slot = control_->slots[index];
  if (--slot.users != 0 || (slot.to_come != 0 && !over)) return;
  uint32_t* link = &control_->buckets[bucket_of(slot.group, kBucketBits)];
  while (*link != index + 1) link = &control_->slots[*link - 1].next;
  *link = slot.next;
  keep_order();
  slot.next = control_->free;
  keep_order();
  control_->free = index + 1;
}

void Gates::signal(uint32_t slot, uint32_t sequence, uint32_t gates) const {
  word(me_, slot, sequence).store(gate_word(sequence, gates), std::memory_order_release);
}

bool Gates::passed(int peer, uint32_t slot, uint32_t sequence, uint32_t gates) const {
  const uint64_t seen = word(peer, slot, sequence).load(std::memory_order_acquire);
  if (seen == 0) return false;
  const auto ahead = static_cast<int32_t>(static_cast<uint32_t>(seen >> 32) - sequence);
  return ahead > 0 || (ahead == 0 && seen >= gate_word(sequence, gates));
}

}  // namespace ibcoll::shm
