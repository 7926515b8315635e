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
  kInquiry,  ///< who waits for long asks whether both mean the same call
  kStuck,    ///< an answer: the call asked about can't be made before one that this rank waits in
};

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

/// Follows the head of an exposure, which says: you may write to these buffers of mine, and signal
/// arrivals in these cells. Landings follow.
struct Exposure {
  uint32_t cell;  ///< the immediate that counts an arrival from group rank 0; rank r's is r more
  uint32_t landings;
  RemoteAddress recv, scratch;
};

/// Data that one mail can carry.
inline constexpr size_t kMaxMailData = NetworkTransport::kMaxMailBytes - sizeof(MailHeader);

/// Where one put lands and how long it must be. Puts of one sender use theirs in order.
struct Landing {
  Rank sender;  ///< rank in the group
  uint32_t unused = 0;
  RemoteAddress place;
  uint64_t bytes;
};

/// Landings that one mail can carry; an exposure with more of them takes several.
inline constexpr uint32_t kMaxMailLandings =
    (NetworkTransport::kMaxMailBytes - sizeof(MailHeader) - sizeof(Exposure)) / sizeof(Landing);

/// The bits of an immediate: token 1, epoch 6, cell 24. A cell counts what one peer signals in one
/// call; the receiver hands cells out with its exposure (see Cells).
struct Cell {
  static constexpr uint32_t kIndexBits = 24, kEpochBits = 6;
  /// Set in a token; one to a peer whose exposure is here already needs no mail.
  static constexpr uint32_t kToken = 1u << (kIndexBits + kEpochBits);
  static constexpr uint32_t pack(uint32_t epoch, uint32_t index) {
    return (epoch & ((1u << kEpochBits) - 1)) << kIndexBits | index;
  }
  static constexpr uint32_t index(uint32_t immediate) {
    return immediate & ((1u << kIndexBits) - 1);
  }
};

}  // namespace ibcoll
