#pragma once
/// What a sender has learned about how its messages get to one peer: which way took least, of what
/// the latest ones took. docs/tuning.md describes it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/costs/ring_limits.h"
#include "engine/sharing/test_hooks.h"

namespace ibcoll::shm {

/// Messages that share what is learned: of one kind of memory, sent in one manner, of up to 1 KB
/// times a power of two.
struct MessageSort {
  static constexpr size_t kShortest = 1024;  ///< nothing is learned of messages up to this length
  static constexpr size_t kLengths = 7;      ///< up to 128 KB
  static constexpr size_t kSorts = 4 * kLengths;

  bool shared;   ///< memory that the peer has mapped
  bool one_way;  ///< MessageKey::one_way
  size_t length;

  static MessageSort of(bool shared, bool one_way, size_t bytes);
  static MessageSort at(size_t index);
  size_t index() const { return ((shared ? 2U : 0U) + (one_way ? 1U : 0U)) * kLengths + length; }
  size_t from() const { return (kShortest << length) + 1; }
  size_t to() const { return kShortest << (length + 1); }
};

/// Of one sender and one peer.
class LearnedWays {
 public:
  struct Next {
    MessageWay way;
    bool timed;  ///< sender and receiver are to say what it takes them
  };

  explicit LearnedWays(double round_trip_ns = 0) : round_trip_ns_(round_trip_ns) {}

  /// How the next message of that sort is to go. `usual`: how it goes as long as nothing is known.
  Next next(const MessageSort& sort, MessageWay usual) const;
  /// One has gone so. Of a timed one: its number in the ring, and what it took the sender.
  void sent(const MessageSort& sort, MessageWay usual, const Next& how, size_t bytes,
            uint32_t number, int64_t sender_ns);
  bool awaits() const { return awaited_.sort != kNone; }
  /// What the receiver has told last: of which message, and how long it took; 0: it can't say.
  void hear(uint32_t number, uint32_t receiver_ns);

  /// For those who report.
  struct Finding {
    std::optional<MessageWay> way;  ///< nothing: as it is usual
    /// What a message of the greatest length takes on each way; 0: not known.
    std::array<double, kMessageWays> ns{};
  };
  Finding finding(size_t sort) const;

 private:
  /// The median of so many is what a way takes.
  static constexpr size_t kLatest = 3;
  /// Every so many messages one is timed, on the way that they go.
  IBCOLL_LIMIT(uint32_t, kTimedEach, 8);
  /// A trial sends so many messages another way, of which the first does not count, and gives up
  /// where the receiver says nothing of that many.
  static constexpr uint8_t kTried = kLatest + 1;
  IBCOLL_LIMIT(uint32_t, kMostTried, 64);
  /// Messages between trials: as many as hold the loss under a fiftieth, within these bounds.
  IBCOLL_LIMIT(uint32_t, kSoonest, 48);
  static constexpr uint32_t kLatestTrial = 8192;
  static constexpr size_t kNone = MessageSort::kSorts;

  /// The latest last; quarters of nanoseconds a kilobyte, since messages of a sort differ in
  /// length; 0: there were not so many.
  using Costs = std::array<uint16_t, kLatest>;
  struct Record {
    std::array<Costs, kMessageWays> costs{};
    Costs before{};                        ///< the last trial, of the way that it tried
    uint16_t count = 0;                    ///< messages since the last trial
    uint16_t pause = 0;                    ///< until the next one
    MessageWay way = MessageWay::kRing;    ///< if `known`: it is not just the usual one
    MessageWay tried = MessageWay::kRing;  ///< last, or now
    uint8_t heard = 0;                     ///< of the trial
    uint8_t tried_messages = 0;            ///< 0: there is none
    uint8_t until_timed = 0;               ///< messages before the next one that is
    bool known = false;
    bool answered = false;  ///< since the last trial, of a message on the own way
  };
  struct Awaited {
    size_t sort = kNone;
    MessageWay way{}, usual{};
    uint32_t number = 0;
    int64_t sender_ns = 0;
    size_t bytes = 0;
    uint32_t passed = 0;  ///< messages that were sent since
  };

  static MessageWay own_way(const Record& record, MessageWay usual) {
    return record.known ? record.way : usual;
  }
  static uint32_t median(const Costs& costs);
  static uint32_t cost_of(const Record& record, MessageWay way) {
    return median(record.costs[static_cast<size_t>(way)]);
  }
  static bool is_due(const Record& record, MessageWay own);
  static MessageWay better_way(const Record& record, MessageWay own);
  static MessageWay next_tried(const Record& record, MessageWay own);
  static void begin_trial(Record& record, MessageWay own);
  static void end_trial(Record& record, MessageWay own);

  double round_trip_ns_ = 0;
  std::array<Record, MessageSort::kSorts> records_{};
  Awaited awaited_;
  uint32_t random_ = 1;
};

/// What a sender has learned of all peers to which messages of that sort go that way.
struct LearnedWay {
  MessageSort sort;
  std::optional<MessageWay> way;  ///< nothing: as it is usual
  int peers;
  std::array<double, kMessageWays> ns;  ///< of the peer where it is most; 0: nowhere known
};

}  // namespace ibcoll::shm
