#pragma once
/// What a member of a multicast must know to play its part, and how it learns that from the one
/// that sends to it. Nobody but the root need know the whole set.

#include <span>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/multicast/rank_set.h"

namespace ibcoll {

/// The members of a set by server. Servers are counted in *places*, by their lowest member, so that
/// the set's lowest member, the root of its multicast, leads place 0 wherever ranks run. Time and
/// memory grow with the members.
class MemberServers {
 public:
  /// `job`: of all ranks, of which the set's are some.
  MemberServers(const RankSet& set, const Shape& job);

  int places() const { return static_cast<int>(first_.size()) - 1; }
  /// Ascending.
  std::span<const Rank> members(int place) const {
    return {members_.data() + first_[place],
            static_cast<size_t>(first_[place + 1] - first_[place])};
  }
  /// The rank that sends and receives for its server: the lowest.
  Rank leader(int place) const { return members_[first_[place]]; }
  /// How many members the places before have.
  int before(int place) const { return first_[place]; }
  /// The members of the places `first` .. `end` - 1.
  RankSet set_of(int first, int end) const;

 private:
  std::vector<Rank> members_;  ///< by place, ascending in each
  std::vector<int> first_;     ///< by place: its first in members_; and the end
};

/// The part of one server's members in a multicast, as their leader gets it with the message.
///
/// Leaders form a binomial tree over the places (BinomialTree), and who sends to a child tells it
/// this. With kChildren and kRing that is a few numbers and the members at the child's own place
/// and those below it: what travels to a child grows with its subtree, not with the set, and who
/// has none below it gets some ten bytes.
struct MulticastRole {
  Relatives relatives = Relatives::kChildren;
  int members = 0;  ///< of the whole set
  int servers = 0;  ///< places in all
  int place = 0;    ///< of this server
  /// How many members the places before have: members at this place have the ids from here on, in
  /// ascending order, then come those of the next place. Where servers hold consecutive ranks these
  /// are the logical ids of the set.
  int first_id = 0;
  Rank previous = -1;  ///< kRing: the leader of the place before, of place 0 that of the last one
  Rank after = -1;     ///< kRing: the leader of the place behind this subtree, behind the last: 0's
  /// The members at the places from this one to the end of its subtree; kEverybody: all.
  RankSet known;

  friend bool operator==(const MulticastRole&, const MulticastRole&) = default;
};

/// Of the leader of place 0. `set` must not be empty.
MulticastRole root_role(const RankSet& set, const Shape& job, Relatives relatives);

/// What the member with this role derives from it.
class MulticastPart {
 public:
  /// Fails (kMismatch) where the role can't be: it names more members or places than it counts.
  static Result<MulticastPart> create(const MulticastRole& role, const Shape& job);

  const MulticastRole& role() const { return role_; }
  /// The members of this server, the leader first.
  std::span<const Rank> locals() const { return known_.members(own_); }
  /// The places that this one sends to, ascending.
  std::vector<int> children() const;
  /// The leader of a place that the role knows.
  Rank leader(int place) const { return known_.leader(own_ + place - role_.place); }
  /// The members at a child's place and those below it.
  RankSet below(int place) const;
  /// Enters all leaders that this one knows by their places.
  void name_leaders(std::vector<Rank>& by_place) const;
  /// What a child must be told.
  MulticastRole child(int place) const;
  /// kRing: the leader of the place behind this one.
  Rank next() const;

 private:
  MulticastPart(const MulticastRole& role, MemberServers known, int own);

  MulticastRole role_;
  MemberServers known_;
  int own_;  ///< where this place stands in known_
};

/// Appends a role's encoding.
void encode(const MulticastRole& role, std::vector<std::byte>& out);
/// Reads a role from the beginning of `in`, which then begins behind it. `ranks`: of the job. Fails
/// (kMismatch) where it can't be right.
Result<MulticastRole> decode_role(std::span<const std::byte>& in, int ranks);

}  // namespace ibcoll
