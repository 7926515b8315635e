#include "shm/gates.h"

#include <pthread.h>

#include <cerrno>

#include "engine/execute/transport.h"

namespace ibcoll::shm {
namespace {

constexpr uint32_t kSlots = 1024;  ///< groups at a time
constexpr size_t kPage = 4096;

constexpr size_t round_to_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

constexpr size_t kRankBytes =
    round_to_pages(sizeof(uint64_t) * kSlots * LocalTransport::kGateBanks);

/// A rank's passed gates of the call a bank holds: sequence in the upper half, gates + 1 in the
/// lower (0: never used).
constexpr uint64_t gate_word(uint32_t sequence, uint32_t gates) {
  return uint64_t{sequence} << 32 | (uint64_t{gates} + 1);
}

}  // namespace

/// Which group uses which slot. Guarded by the mutex.
struct Gates::Control {
  struct Slot {
    uint64_t group;
    uint32_t users;
  };
  pthread_mutex_t mutex;
  Slot slots[kSlots];
};

size_t Gates::bytes(size_t ranks) { return round_to_pages(sizeof(Control)) + ranks * kRankBytes; }

Gates::Gates(std::byte* memory, int me)
    : control_(reinterpret_cast<Control*>(memory)),
      words_(reinterpret_cast<std::atomic<uint64_t>*>(memory + round_to_pages(sizeof(Control)))),
      me_(me) {}

void Gates::prepare() {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&control_->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

std::atomic<uint64_t>& Gates::word(int local, uint32_t slot, uint32_t sequence) const {
  return words_[local * (kRankBytes / sizeof(uint64_t)) + slot * LocalTransport::kGateBanks +
                sequence % LocalTransport::kGateBanks];
}

Result<uint32_t> Gates::open(uint64_t group, std::span<const int> members) {
  const int locked = pthread_mutex_lock(&control_->mutex);
  // A rank that died inside left at worst a slot that stays taken.
  if (locked == EOWNERDEAD) pthread_mutex_consistent(&control_->mutex);
  uint32_t slot = kSlots;
  for (uint32_t i = 0; i < kSlots; ++i) {
    const Control::Slot& entry = control_->slots[i];
    if (entry.users != 0 && entry.group == group) {
      slot = i;
      break;
    }
    if (entry.users == 0 && slot == kSlots) slot = i;
  }
  if (slot < kSlots) {
    Control::Slot& entry = control_->slots[slot];
    if (entry.users == 0) {
      for (const int member : members) {
        for (uint32_t bank = 0; bank < LocalTransport::kGateBanks; ++bank)
          word(member, slot, bank).store(0, std::memory_order_relaxed);
      }
    }
    entry.group = group;
    ++entry.users;
  }
  pthread_mutex_unlock(&control_->mutex);
  if (slot == kSlots) {
    return fail(ErrorCode::kNoMemory,
                "more than {} groups at a time on this server: free groups no longer used", kSlots);
  }
  return slot;
}

void Gates::close(uint32_t slot) {
  if (pthread_mutex_lock(&control_->mutex) == EOWNERDEAD)
    pthread_mutex_consistent(&control_->mutex);
  --control_->slots[slot].users;
  pthread_mutex_unlock(&control_->mutex);
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
