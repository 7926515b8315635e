#pragma once
/// What ranks send each other: active messages of one kind, told apart by their headers.

#include <cstdint>
#include <type_traits>

#include "engine/schedule/shape.h"

namespace ibcoll::ucx {

/// Messages to one peer that may be under way: what the peer has not handed out to its rank yet.
inline constexpr uint32_t kWindow = 128;
inline constexpr uint32_t kMailsPerPeer = 2;
inline constexpr unsigned kMessageId = 1;

enum class MessageKind : uint8_t {
  kData,    ///< goes to a place in memory; none of it: a signal, or that a put has arrived
  kMail,    ///< is handed out as it is
  kCredit,  ///< has no number: tells only what was taken
};

/// Messages of one sender are numbered, and are handed out by their numbers in whatever order UCP
/// delivers them. So one that tells of a put may be sent when that has arrived, and all that were
/// sent since wait for it at the receiver.
struct Header {
  uint64_t address = 0;  ///< where the data goes
  uint64_t key = 0;      ///< of the receiver's registration that it goes to
  uint32_t number = 0;
  uint32_t immediate = 0;
  uint32_t taken = 0;        ///< messages of the receiver's that were handed out here
  uint32_t mails_taken = 0;  ///< mails of the receiver's that were read here
  Rank from = -1;
  MessageKind kind = MessageKind::kData;
  bool delivers = false;  ///< the immediate
  uint16_t mail_slot = 0;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 40);

}  // namespace ibcoll::ucx
