#pragma once
/// One multicast as a member has it: made by its arrival, gone when all below have the message and
/// the program has freed it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/multicast/messages.h"
#include "engine/multicast/transfer.h"

namespace ibcoll {

struct MulticastSend;

/// As the program gets it.
struct MulticastMessage {
  const std::byte* data = nullptr;
  size_t bytes = 0;
  uint64_t tag = 0;
  Rank master = -1;
  int members = 0, id = 0;  ///< of the set; which of them this rank is
};

struct MulticastRun {
  /// A rank that is told of the multicast by this one.
  struct Child {
    Rank rank;
    int place = -1;           ///< the leader of a server; -1: a member of this one
    bool acked = false;       ///< or acknowledges to the master
    RankSet late;             ///< whom it waits for, as far as it has said so
    bool takes_none = false;  ///< of the data: a member of this server that has no memory for them
  };

  MulticastId id;
  MulticastFacts facts;
  uint64_t previous = 0;
  MulticastMessage message;
  // Whom it has to do with.
  Rank parent = -1;  ///< of the job; of the root: the master; -1: this rank's own
  bool is_root = false;
  Rank listener = -1;           ///< whom it acknowledges to: its parent, or the master itself
  bool listens = true;          ///< it is there, and does not know already
  std::vector<Child> children;  ///< leaders of servers, then members of this server
  int unacked = 0;
  std::optional<MulticastPart> part;  ///< of leaders
  MulticastLocal local;               ///< of other members
  MulticastSend* own = nullptr;       ///< a copy of what this rank itself sends
  // How far it is.
  bool wanted = true;       ///< false: it is passed on, but not handed over
  bool has_memory = false;  ///< from the pool
  bool complete = false;    ///< the message is there
  bool over = false;        ///< it does not come, or does not go on
  bool acked = false;
  bool handed_over = false;  ///< the program has it, or may take it
  bool freed = false;        ///< the program has it no longer, or never gets it
  bool moves = false;        ///< stands in the list of those that are looked at each round
  bool hungry = false;       ///< waits for memory
  std::byte* buffer = nullptr;
  std::vector<std::byte> short_data;
  uint64_t available = 0;  ///< bytes of the buffer that the feed has filled
  std::unique_ptr<MulticastTransfer> feed, distribution;
  ErrorCode why = ErrorCode::kPeerFailed;
  std::vector<Rank> missing;  ///< they do not get it
  int64_t begun_ns = 0;
  RankSet told_late;

  bool transfers_under_way() const {
    return (feed && feed->under_way()) || (distribution && distribution->under_way());
  }
};

}  // namespace ibcoll
