#pragma once
/// What a master has under way, and whom it waits for.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/multicast/rank_set.h"

namespace ibcoll {

/// The multicasts of one master that are under way. Those that only late ranks lack don't count
/// against its window, but against these ranks, so that others go on.
///
/// Memory: for each one under way a copy of its set, and a few words for each run of members that
/// had the same message before.
class MulticastWindow {
 public:
  /// `limit`: how many may be under way (IBCOLL_MULTICAST_WINDOW), and how many each late rank may
  /// lack.
  MulticastWindow(int ranks, uint32_t limit);

  /// Why a multicast may not start now.
  struct Held {
    Rank rank = -1;          ///< is waited for; -1: some member of the oldest one
    uint32_t under_way = 0;  ///< that the rank lacks, or in all
    bool late = false;       ///< the rank lacks `limit` messages; else: `limit` are under way
    bool operator==(const Held&) const = default;
  };
  /// nullopt: one to `set` may start.
  std::optional<Held> held(const RankSet& set) const;

  /// Starts one. Returns its counter (1, 2, ...), and for each member (ascending) the counter of
  /// the one before to it that is still under way (a late one too, even where that member has it),
  /// else 0; `previous` is left empty where that is 0 for all. Where nothing is under way no member
  /// is looked at; else each 64 ranks of the set cost a comparison with those under way from the
  /// newest on, until all its members are found.
  uint64_t start(const RankSet& set, std::vector<uint64_t>& previous);
  /// It waits for `missing` alone, as far as is known: it counts against those ranks only. May be
  /// called again, with fewer. Nothing happens where it is over.
  void late(uint64_t counter, const RankSet& missing);
  /// It is over (complete or failed). Nothing happens where it was before.
  void finish(uint64_t counter);
  /// The previous counter that start() gave to that member, while it is under way (to skip it at
  /// members that will not get it). 0 for others.
  uint64_t previous_of(uint64_t counter, Rank member) const;
  /// How many are under way, late ones too.
  size_t under_way() const { return entries_.size(); }

 private:
  /// Members up to logical id `end` - 1, from the end of the run before.
  struct MemberRun {
    int end;
    uint64_t previous;
  };
  struct Entry {
    uint64_t counter;
    RankSet set;
    std::vector<MemberRun> runs;     ///< of previous counters; empty: all 0
    std::optional<RankSet> missing;  ///< where it is late
  };
  std::deque<Entry>::iterator find(uint64_t counter);
  void count(const Entry& entry, int sign);
  bool find_previous(const RankSet& set, std::vector<uint64_t>& previous) const;

  const int ranks_;
  const uint32_t limit_;
  uint64_t counter_ = 0;
  uint32_t in_time_ = 0;         ///< under way and not late
  std::deque<Entry> entries_;    ///< ascending
  std::vector<uint32_t> lacks_;  ///< by rank: late ones; empty before the first one
  std::set<Rank> full_;          ///< ranks that lack `limit_` messages
};

/// Appends the previous counters of the members of a set, or of a part of it, that start() of the
/// message `counter` gave: runs of equal ones take a few bytes, none at all (empty) one byte.
void encode_previous(std::span<const uint64_t> previous, uint64_t counter,
                     std::vector<std::byte>& out);
/// Reads them from the beginning of `in`, which then begins behind them; `members`: of that part.
/// Empty: all are 0. Fails (kMismatch) where they are cut off or not as encode_previous() writes
/// them.
Result<std::vector<uint64_t>> decode_previous(std::span<const std::byte>& in, uint64_t counter,
                                              size_t members);

}  // namespace ibcoll
