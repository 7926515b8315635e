#pragma once
/// What a rank knows of another that it exchanges messages with.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/transport/transport.h"
#include "ucx/library.h"
#include "ucx/message.h"

namespace ibcoll::ucx {

inline constexpr size_t kMaxSegments = 16;

class UcxTransport;
struct Peer;

/// A message to a peer, from its number on until the peer has handed it out.
struct Outgoing {
  Peer* peer = nullptr;
  Header header;
  uint64_t call = 0;        ///< which it was posted for; 0: none
  uint64_t mark = 0;        ///< the first one behind it
  uint32_t reading = 0;     ///< requests of UCP that read the data
  uint32_t others = 0;      ///< those that read the header alone, and flushes
  bool unflushed = false;   ///< a put that nobody knows the arrival of
  uint32_t flush_from = 0;  ///< of a flush: the first message that it is for; this one is the last

  bool idle() const { return reading == 0 && others == 0 && !unflushed; }
};

/// A message of a peer, from when it comes until it is handed out.
struct Incoming {
  Peer* peer = nullptr;
  bool under_way = false;  ///< its data is still coming
  bool present = false;
  bool mail = false;
  bool delivers = false;
  uint16_t mail_slot = 0;
  uint32_t immediate = 0;
  uint32_t mail_bytes = 0;
};

/// Where mails of one slot lie. It grows to the longest of them.
struct MailSlot {
  std::unique_ptr<std::byte[]> memory;
  size_t size = 0;

  /// For a mail of so many bytes; the one that was there has been read.
  std::byte* make(size_t bytes) {
    if (bytes > size) {
      size = bytes <= NetworkTransport::kMaxMailBytes ? NetworkTransport::kMaxMailBytes
                                                      : std::bit_ceil(bytes);
      memory = std::make_unique<std::byte[]>(size);
    }
    return memory.get();
  }
};

/// Numbers run on without end: they are compared by their distance.
struct Peer {
  Peer(UcxTransport& transport, Rank number)
      : owner(&transport), rank(number), outgoing(kWindow), incoming(kWindow) {}

  UcxTransport* owner;
  Rank rank;
  ucp_ep_h endpoint = nullptr;
  bool broken = false;

  uint32_t sent = 0;         ///< messages numbered so far
  uint32_t taken_there = 0;  ///< as the peer said
  uint32_t mails_sent = 0;
  uint32_t mails_taken_there = 0;
  uint64_t posted = 0, completed = 0;                ///< the numbers of the interface
  uint32_t first_unflushed = 0, last_unflushed = 0;  ///< where `flush_wanted`
  bool flush_wanted = false;
  bool stays = false;              ///< among those with messages that may wait in UCX
  std::vector<Outgoing> outgoing;  ///< by number, modulo kWindow
  using Pieces = std::array<ucp_dt_iov_t, kMaxSegments>;
  std::unique_ptr<Pieces[]> pieces;  ///< of those with several segments
  std::array<MailSlot, kMailsPerPeer> mails_out;

  uint32_t taken = 0;           ///< messages that were handed out here
  uint32_t taken_reported = 0;  ///< as the peer knows it
  uint32_t mails_taken = 0;
  uint32_t mails_reported = 0;
  bool queued = false;  ///< among those with something to hand out
  std::vector<Incoming> incoming;
  std::array<MailSlot, kMailsPerPeer> mails_in;
  Header credit;
  bool credit_under_way = false;

  bool heard = true;
  int64_t silent_since_ns = 0;
  bool probed = false;  ///< since it is silent

  Outgoing& out(uint32_t number) { return outgoing[number % kWindow]; }
  Incoming& in(uint32_t number) { return incoming[number % kWindow]; }
  bool owes_credit() const {
    return taken - taken_reported >= kWindow / 2 || mails_taken - mails_reported >= kMailsPerPeer;
  }
  /// For so many messages.
  bool room(uint32_t messages) const {
    if (sent + messages - taken_there > kWindow) return false;
    for (uint32_t at = sent; at != sent + messages; ++at)
      if (!outgoing[at % kWindow].idle()) return false;
    return true;
  }
};

/// What a peer's key is here.
struct RemoteKey {
  uint64_t number = 0;          ///< of the registration, at the peer
  ucp_rkey_h handle = nullptr;  ///< null: data goes in messages
};

}  // namespace ibcoll::ucx
