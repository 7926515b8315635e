#pragma once
/// What ranks tell each other of multicasts.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/hash.h"
#include "engine/execute/mail.h"
#include "engine/multicast/mail_parts.h"
#include "engine/multicast/rank_set.h"
#include "engine/multicast/role.h"
#include "engine/sharing/test_hooks.h"

namespace ibcoll {

/// Which multicast: its master, and the how-many-th of that one, from 1.
struct MulticastId {
  Rank master = -1;
  uint64_t counter = 0;
  friend bool operator==(const MulticastId&, const MulticastId&) = default;
};

struct MulticastIdHash {
  size_t operator()(const MulticastId& id) const {
    return mix(mix(0, static_cast<uint64_t>(id.master)), id.counter);
  }
};

enum class MulticastMailKind : uint8_t {
  kStart,  ///< the master to the root
  kRole,   ///< a leader to those below it
  kLocal,  ///< a leader to another member of its server
  kAck,    ///< upwards: all below have the message, but for those named
  kLate,   ///< upwards: all below have it, but for those named, for whom it is waited
  kSkip,   ///< the master to a member: it does not get that one
  kDrop,   ///< downwards: it does not come
};

/// Follows the head of a mail of kind kMulticast.
struct MulticastHead {
  uint64_t counter;
  Rank master;
  Rank from;  ///< of the job
  MulticastMailKind kind;
  bool in_parts;        ///< what follows is a part (mail_parts.h)
  uint16_t data_bytes;  ///< of the whole: behind all else stand the program's data
  uint32_t unused = 0;
};

/// Messages up to this size travel with their announcement.
IBCOLL_LIMIT(size_t, kMaxShortMulticast, 3584);

/// What all members are told alike.
struct MulticastFacts {
  uint64_t bytes = 0;
  uint64_t tag = 0;
  uint32_t algorithm = 0;    ///< algorithm_number(); 0: to be chosen by the root, or not needed
  uint32_t pieces = 0;       ///< 0: to be chosen
  uint32_t with_master = 0;  ///< 1: the master is a member, too
  uint32_t unused = 0;
  uint64_t hash = 0;  ///< of the data, where it is checked
  bool is_short() const { return bytes <= kMaxShortMulticast; }
};

/// A broadcast's name in a message. The same wherever the same algorithms are.
uint32_t algorithm_number(std::string_view name);

struct MulticastStart {
  MulticastFacts facts;
  RankSet set;                     ///< without the master
  std::vector<uint64_t> previous;  ///< by member: see decode_previous(); empty: none has any
};

struct MulticastRoleMessage {
  MulticastFacts facts;
  MulticastRole role;
  std::vector<uint64_t> previous;  ///< by member that the role knows
};

/// What a member that is not its server's leader is told.
struct MulticastLocal {
  MulticastFacts facts;
  int members = 0;  ///< of the set
  int id = 0;       ///< this member's
  int servers = 0, place = 0;
  int locals = 0;  ///< members of this server
  int local = 0;   ///< which of them this one is, from 1
  uint64_t previous = 0;
  Rank listener = -1;  ///< whom it acknowledges to: see acknowledge_directly()
  uint32_t unused = 0;
};

/// Whoever has not acknowledged after this time is late.
inline constexpr int64_t kLateMulticastNs = 50'000'000;

/// Whether members of the root's server acknowledge to the master itself: one hop less, where there
/// are few of them. `others`: without the root and the master.
inline bool acknowledge_directly(bool root_is_on_masters_server, size_t others) {
  constexpr size_t kMost = 8;  // the root of a full server leaves the master its time
  return root_is_on_masters_server && others <= kMost;
}

/// Why members may lack a message.
struct MulticastMissing {
  ErrorCode code = ErrorCode::kPeerFailed;
  RankSet ranks;  ///< empty: all have it
};

// Each whole message: what follows the head, before the data.
std::vector<std::byte> encode(const MulticastStart& message, uint64_t counter);
std::vector<std::byte> encode(const MulticastRoleMessage& message, uint64_t counter);
std::vector<std::byte> encode(const MulticastLocal& message);
std::vector<std::byte> encode(const MulticastMissing& message);
std::vector<std::byte> encode_previous_one(uint64_t previous);
// Fail (kMismatch) where it can't be right. `ranks`: of the job.
Result<MulticastStart> decode_start(std::span<const std::byte> in, uint64_t counter, int ranks);
Result<MulticastRoleMessage> decode_role_message(std::span<const std::byte> in, uint64_t counter,
                                                 int ranks);
Result<MulticastLocal> decode_local(std::span<const std::byte> in, int ranks);
Result<MulticastMissing> decode_missing(std::span<const std::byte> in, int ranks);
Result<uint64_t> decode_previous_one(std::span<const std::byte> in);

/// Puts messages together from their mails.
class MulticastAssembly {
 public:
  struct Whole {
    MulticastHead head;
    std::span<const std::byte> body, data;  ///< valid until the next call
  };
  /// A whole message, once there is one. Fails where the mail can't be right.
  Result<std::optional<Whole>> take(std::span<const std::byte> mail);
  /// Parts of messages that are not whole: none when all is quiet.
  size_t waiting() const { return parts_.size(); }
  /// Drops what has come of a rank that has died.
  void lose(Rank rank);

 private:
  struct Key {
    MulticastId id;
    Rank from;
    MulticastMailKind kind;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return MulticastIdHash{}(key.id) ^ static_cast<size_t>(key.from) << 8 ^
             static_cast<size_t>(key.kind);
    }
  };
  std::unordered_map<Key, MailParts, KeyHash> parts_;
  std::vector<std::byte> whole_;
};

/// Visits the mails that carry a message: one, unless it is longer.
void for_each_mail(MulticastHead head, std::span<const std::byte> body,
                   std::span<const std::byte> data,
                   const std::function<void(std::span<const std::byte>)>& visit);

}  // namespace ibcoll
