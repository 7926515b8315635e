#pragma once
/// Which groups a rank has made: how groups of the same ranks are told apart without asking
/// anybody.

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/core/set_call_counts.h"
#include "engine/execute/inquiry.h"
#include "engine/execute/posted_call.h"

namespace ibcoll {

/// What tells a group from others; the same on all members if they made theirs alike.
struct GroupIdentity {
  uint64_t key = 0;   ///< of the list of ranks and the group's number; never by arrival
  uint64_t list = 0;  ///< of the list of ranks, and of the caller's identifier if it gives one
  uint64_t identifier = 0;  ///< that one, or the tag of a call on a set
  uint32_t number = 0;      ///< how many groups of the same list were made before
  bool of_set = false;      ///< of one call on a set, which its tag and `number` name
  uint32_t calls = 0;       ///< how many calls had been made on those by then
  uint32_t history = 0;     ///< of `calls` of all groups of the list up to this one
};

/// Ranks count the groups of each list of ranks they make, those of each identifier of the caller's
/// apart, so that it does not matter in which order groups of different ones are made. A list none
/// of whose groups is left is forgotten after kRemembered others: a group made of it afterwards is
/// taken for the first one, so all its members must have forgotten it.
///
/// A call on a set of ranks is a group of its own, which lives as long as the call: its key is that
/// of the set, the tag and how many calls on both this rank has made before (SetCallCounts).
/// Nothing else is in it: neither which of those calls are still under way, nor which have ended or
/// how, so it is the same on all members whatever each has freed, and calls of one set and tag are
/// matched in the order in which they are made.
class GroupRecords final : public MadeGroups {
 public:
  /// `id`: the caller's, which tells groups of the same ranks apart; 0: none. `origin`: what tells
  /// those apart that are made of another group, whose `id` is but a name; 0: it is none of those.
  GroupIdentity add(std::span<const Rank> members, uint64_t id = 0, uint64_t origin = 0);
  /// Of this rank's next call on a set, `members` in ascending order. Never the same as a group's.
  GroupIdentity add_call(std::span<const Rank> members, uint64_t tag);
  /// The call added last was refused on this rank: the next one is in its place.
  void take_back(const GroupIdentity& call) { set_calls_.put_back(call.list); }
  /// Whether a group of these ranks with that identifier, or a request of it, is there.
  bool has_live(std::span<const Rank> members, uint64_t id) const;
  /// A group is there until it has left(). Gives where its calls are to be counted, with those of
  /// all groups of its list: they count for groups that are made afterwards. Null: nowhere.
  uint32_t* entered(const GroupIdentity& identity, const GroupState& group);
  void left(const GroupIdentity& identity, const GroupState& group);
  size_t size() const { return records_.size(); }
  bool has_made(uint64_t list, uint32_t number, const CallKey& call) const override;
  bool made_several(uint64_t group) const override;
  void ended(uint64_t list) override;
  /// Whether a group of these ranks with that identifier was ended before its time, as far as this
  /// rank knows. There can be no other one, since members may differ in how many calls they made.
  bool has_ended(std::span<const Rank> members, uint64_t id) const;

  static constexpr size_t kRemembered = size_t{1} << 18;

 private:
  struct Record {
    uint32_t made = 0;
    uint32_t calls = 0;  ///< on all of them
    uint32_t history = 0;
    uint32_t live = 0;   ///< groups that are there
    bool ended = false;  ///< one was, before its time
    uint64_t died = 0;   ///< when its last group went, by deaths_; 0: there is one
  };
  void forget_oldest();
  bool has_made_on_set(uint64_t list, uint32_t number, const CallKey& call) const;

  SetCallCounts set_calls_;
  struct LiveCall {
    const GroupState* group;
    uint32_t number;
  };
  std::vector<LiveCall> live_calls_;  ///< on sets; mostly the newest goes first
  std::unordered_map<uint64_t, Record> records_;
  std::unordered_map<uint64_t, const GroupState*> live_groups_;  ///< by key
  struct Death {
    uint64_t list, number;
  };
  std::deque<Death> dead_;  ///< the oldest comes first; some have been made again since
  uint64_t deaths_ = 0;
};

}  // namespace ibcoll
