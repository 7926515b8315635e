#pragma once
/// A set of ranks that makes calls together, as the executor sees it.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/execute/call_window.h"
#include "engine/schedule/ranks.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

struct PostedCall;

struct GroupState {
  uint64_t key = 0;   ///< equal on all members, different from every other group one of them is in
  uint64_t list = 0;  ///< equal for all groups of the same list of ranks
  /// For messages to people: the program's name for the group, 0 for none; of a call on a set the
  /// tag.
  uint64_t identifier = 0;
  bool of_set = false;  ///< it is of one call on a set
  Shape shape;          ///< of the group: ranks 0..size-1
  Rank me = 0;
  /// Rank in the job of each member. By arrival: -1 where this rank has nothing to do with one.
  RankList to_job;
  /// Its calls are made by arrivals (see ArrivalRuns), and `key` says so: nobody asks what they
  /// mean or whether they are late, and who makes them looks after their ends.
  bool by_arrival = false;
  /// Ranks of the job that have died, or take no data, and that the others go on without: what is
  /// sent to them counts as taken. By arrival only.
  std::vector<Rank> lost;
  /// Added to the numbers of its calls to tell which of those that ranks may run ahead with are not
  /// eager: so that groups of one call each ask, too. Equal on all members.
  uint32_t asking = 0;
  bool one_way = false;  ///< ranks may have ended calls that others had not begun
  CallWindow calls;
  std::deque<PostedCall*>
      waiting;  ///< posted calls that may not start yet, in the order of their numbers
  std::optional<uint32_t> gate_slot;  ///< opened by the first program that uses gates
  std::optional<Error> over;          ///< what ended the group, if anything has; see GroupEnds

  explicit GroupState(Shape group_shape) : shape(std::move(group_shape)) {}

  bool has_lost(Rank job_rank) const {
    return !lost.empty() && std::find(lost.begin(), lost.end(), job_rank) != lost.end();
  }
  /// The rank in the group of a rank of the job that is one of its members. Not for the data path.
  Rank rank_of(Rank job_rank) const { return static_cast<Rank>(to_job.find(job_rank)); }
};

}  // namespace ibcoll
