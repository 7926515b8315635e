#pragma once
/// What ranks of different servers send each other where nothing has been arranged: exposures,
/// tokens that need no exposure, and short messages with their data (eager calls).

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/execute/transport.h"
#include "engine/schedule/program.h"

namespace ibcoll {

enum class MailKind : uint8_t {
  kExposure,
  kToken,
  kData,
  kInquiry,  ///< who waits for long asks whether both mean the same call
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
  uint8_t unused = 0;
  uint64_t block_bytes;  ///< inquiry: the sender's rank in the job instead
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
  Buffer buffer;
  uint64_t address;
  uint64_t bytes;
};

/// The 32 bits of an immediate: kind 2 (data or token), epoch 6, cell 24; the cell is a slot of
/// concurrent calls and a rank of the group.
struct Cell {
  static constexpr uint32_t kRankBits = 18, kSlotBits = 6, kEpochBits = 6;
  static constexpr uint32_t kSlots = 1u << kSlotBits;
  /// Set in a token; one to a peer whose exposure is here already needs no mail.
  static constexpr uint32_t kToken = 1u << (kRankBits + kSlotBits + kEpochBits);
  static constexpr uint32_t pack(uint32_t epoch, uint32_t slot, uint32_t rank) {
    return (epoch & ((1u << kEpochBits) - 1)) << (kRankBits + kSlotBits) | slot << kRankBits | rank;
  }
  static constexpr uint32_t rank(uint32_t immediate) { return immediate & ((1u << kRankBits) - 1); }
  static constexpr uint32_t slot(uint32_t immediate) {
    return immediate >> kRankBits & (kSlots - 1);
  }
  static constexpr uint32_t epoch(uint32_t immediate) {
    return immediate >> (kRankBits + kSlotBits) & ((1u << kEpochBits) - 1);
  }
};

}  // namespace ibcoll
