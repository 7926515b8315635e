#pragma once
/// What a call that leaves its server has with ranks of others. The Mailroom makes it ready, fills
/// it with what arrives, and gives back what it holds.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/execute/mail.h"
#include "engine/execute/peer_states.h"
#include "engine/execute/user_registrations.h"
#include "engine/schedule/program.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// Where a put of this rank lands.
struct NextLanding {
  RegionPlace place;
  uint64_t bytes = 0;
  uint32_t next = kNone;
};

/// A message that came with its data and waits for its operation.
struct MailedPut {
  size_t offset = 0, bytes = 0;  ///< in RemoteState::mailed_data
  uint32_t next = kNone;
};

/// Memory that is registered for a call, or that the program has registered.
struct RegisteredMemory {
  MemoryKey key;
  RegionName region;
  UserRegistration* user = nullptr;  ///< whose both are; null: the call's
};

/// What one buffer's memory is registered as: a whole, or run by run of slots.
struct BufferRegions {
  std::vector<RegisteredMemory> registered;  ///< to be given back
  std::vector<uint32_t> of_slot;  ///< index in `registered`; empty: the first one is meant
  uint32_t gathered = kNone;      ///< which of them covers StridedBuffer::gathered; kNone: none

  /// What covers a slot, if that has data.
  RegisteredMemory of(uint32_t slot) const {
    if (registered.empty()) return {};
    return registered[of_slot.empty() ? 0 : of_slot[slot]];
  }
};

/// An exposure that this rank passes on to the other ranks of its server.
struct Forwarding {
  std::vector<std::byte> mail;
  int next_local = 0;
  bool last = true;  ///< of the mails that make up the exposure
};

/// Forwardings under way, in the order in which they came; entries keep their memory.
struct Forwardings {
  std::vector<Forwarding> items;
  size_t first = 0, count = 0;  ///< of items

  bool empty() const { return first == count; }
  Forwarding& front() { return items[first]; }
  Forwarding& add();
  void pop() {
    if (++first == count) clear();
  }
  void clear() { first = count = 0; }
};

struct RemoteState {
  std::optional<uint32_t> cell;          ///< the immediate that peers' puts arrive with
  std::array<BufferRegions, 4> regions;  ///< by Buffer
  PeerStates peers;
  std::vector<NextLanding> landings;
  std::vector<MailedPut> mailed;
  std::vector<std::byte> mailed_data;
  /// An expect of the receive lane.
  struct Expected {
    int server;      ///< the sender's
    uint32_t place;  ///< in the lane
    Rank peer;
    uint8_t exposure;
    auto operator<=>(const Expected&) const = default;
  };
  std::vector<Expected> expects_by_server;  ///< ascending
  OpReader receives;                        ///< that lane
  Forwardings forwarding;
  uint32_t forwarded = 0;        ///< exposures that have been passed on
  uint64_t number = 0;           ///< which no other call of this rank has
  std::optional<uint64_t> left;  ///< a mark of the network behind all of the call
  std::optional<Rank> held_by;   ///< in the job: what the call posted has not left for it yet

  const BufferRegions& regions_of(Buffer buffer) const { return regions[static_cast<int>(buffer)]; }
  /// Keeps a message of a rank of the job until its operation takes it.
  void keep(Rank from, std::span<const std::byte> data);
  /// Forgets what came for the call before.
  void clear() {
    peers.clear();
    landings.clear();
    mailed.clear();
    mailed_data.clear();
    forwarding.clear();
    forwarded = 0;
  }
};

}  // namespace ibcoll
