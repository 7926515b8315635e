#pragma once
/// Mails that wait until those they are for have room.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/multicast/messages.h"
#include "engine/multicast/services.h"

namespace ibcoll {

/// Sends mails to ranks of the job in the order in which they are given, to each on its own: who
/// does not take its mails holds up nobody else's. How many wait is bounded by the multicasts under
/// way, each of which has a few for a peer.
class MulticastOutbox {
 public:
  explicit MulticastOutbox(const MulticastServices& services);
  ~MulticastOutbox();

  /// Sends a message: `body`, and behind it data of the program's.
  void send(Rank to, MulticastHead head, std::span<const std::byte> body,
            std::span<const std::byte> data = {});
  /// Tries those that wait; true if one has gone.
  bool advance();
  bool empty() const { return waiting_.empty(); }
  /// Drops what waits for a rank that has died.
  void lose(Rank rank) { waiting_.erase(rank); }
  /// Mails that have gone.
  uint64_t sent() const { return sent_; }

 private:
  struct Waiting {
    std::vector<std::byte> mail;
    size_t data_bytes;
  };
  bool offer(Rank to, std::span<const std::byte> mail, size_t data_bytes);
  void post(Rank to, std::span<const std::byte> mail, size_t data_bytes);

  const MulticastServices& services_;
  std::unordered_map<Rank, std::deque<Waiting>> waiting_;
  uint64_t sent_ = 0;
};

}  // namespace ibcoll
