#pragma once
/// What ranks of different servers send each other where nothing has been arranged: exposures,
/// tokens that need no exposure, and short messages with their data (eager calls).

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/schedule/program.h"
#include "engine/transport/transport.h"

namespace ibcoll {

enum class MailKind : uint8_t {
  kExposure,
  kToken,
  kData,
  kInquiry,    ///< who waits for long asks whether both mean the same call
  kStuck,      ///< an answer: the call asked about is not made before one that this rank waits in
  kEnd,        ///< the group is over
  kMulticast,  ///< for the runs that arrivals make: `group` is the run's key
};

/// Groups whose calls are made by arrivals have this bit in their keys, others do not: so that what
/// belongs to a run which this rank does not know yet is told from a call that it should have made.
inline constexpr uint64_t kByArrivalKey = uint64_t{1} << 63;
constexpr bool is_by_arrival(uint64_t key) { return (key & kByArrivalKey) != 0; }

/// Of one call: which group, which call on it.
struct CallKey {
  uint64_t group = 0;
  uint32_t sequence = 0;
  friend bool operator==(const CallKey&, const CallKey&) = default;
};

/// Head of every mail. Data follow it at once.
struct MailHeader {
  uint64_t group;
  uint32_t sequence;
  uint32_t program;  ///< low half of the program's hash, and what the bytes mean
  Rank from;         ///< rank in the group
  MailKind kind;
  bool to_server;   ///< exposure: meant for all ranks of the receiving server
  bool by_landing;  ///< exposure: slot sizes differ, the places are in the landings behind it
  bool more;        ///< exposure: its other landings follow in the next mail
  uint64_t block_bytes;
};

/// A registration of the exposing rank's memory, as peers know it: a slot of its table of regions,
/// and which use of that slot.
struct RegionName {
  static constexpr uint32_t kNowhere = ~uint32_t{0};
  uint32_t slot = kNowhere;
  uint32_t use = 0;
};

/// A place in a region.
struct RegionPlace {
  RegionName region;
  uint64_t offset = 0;
};

/// Follows the head of an exposure, which says: you may write to these buffers of mine, and signal
/// arrivals in this cell. Keys of regions that the receivers have not been told of follow, then
/// landings.
struct Exposure {
  uint32_t cell;  ///< the immediate that counts arrivals, by their senders
  Rank rank;      ///< of the job: who exposes
  uint16_t keys;
  uint16_t landings;
  uint32_t unused = 0;
  RegionPlace recv, scratch;  ///< of equal blocks; others have landings
};

/// Where a region lies, and its key in the transport's form, which follows at once. It travels once
/// to each peer, ahead of all places in the region.
struct RegionKey {
  RegionName region;
  uint64_t base;
  uint32_t bytes;  ///< of the key, which is filled up to a multiple of eight
  uint32_t unused = 0;
};

/// How long the mail of an exposure is whose receivers have not been told of so many buffers, each
/// with a key of eight bytes.
constexpr uint64_t exposure_mail_bytes(uint64_t buffers) {
  return sizeof(MailHeader) + sizeof(Exposure) + buffers * (sizeof(RegionKey) + sizeof(uint64_t));
}

/// Follows the head of a mail of kind kEnd; the text that says why follows at once.
struct EndNotice {
  Rank sender;   ///< of the job
  Rank culprit;  ///< of the job: who ended the group, or was waited for in vain
  uint32_t text_bytes;
  uint8_t code;  ///< an ErrorCode
  bool asks;     ///< the sender waits to hear that the receiver has stopped, too
  bool answers;  ///< the sender has stopped: all its puts came before
};

/// Data that one mail can carry.
inline size_t max_mail_data(const NetworkTransport& network) {
  return network.max_data_mail_bytes() - sizeof(MailHeader);
}

/// Where one put lands and how long it must be. Puts of one sender use theirs in order.
struct Landing {
  Rank sender;  ///< rank in the group
  uint32_t unused = 0;
  RegionPlace place;
  uint64_t bytes;
};

/// The bits of an immediate: kind 2, epoch 6, cell 24. A cell belongs to one call of one rank, and
/// to no other on its server; the rank hands it out with its exposures (see Cells). Who signals is
/// known from the connection that the signal comes by.
struct Cell {
  static constexpr uint32_t kIndexBits = 24, kEpochBits = 6;
  /// The kind of a token; one to a peer whose exposure is here already needs no mail. Data has kind
  /// 0, and two kinds are free.
  static constexpr uint32_t kToken = 1u << (kIndexBits + kEpochBits);
  static constexpr uint32_t pack(uint32_t epoch, uint32_t index) {
    return (epoch & ((1u << kEpochBits) - 1)) << kIndexBits | index;
  }
  static constexpr uint32_t index(uint32_t immediate) {
    return immediate & ((1u << kIndexBits) - 1);
  }
};

}  // namespace ibcoll
