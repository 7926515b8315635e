#pragma once
/// The data of one multicast on their way: a call of a registered broadcast among ranks of which
/// each knows those that it has to do with.

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/multicast/services.h"

namespace ibcoll {

/// A call with a group of its own. Stays until it is over, or the job is.
class MulticastTransfer {
 public:
  /// `key`: the group's, with the bit of those made by arrivals. `to_job`: -1 for those that this
  /// rank knows nothing of.
  MulticastTransfer(Executor& executor, Shape shape, Rank me, std::vector<Rank> to_job,
                    uint64_t key);
  ~MulticastTransfer();
  MulticastTransfer(const MulticastTransfer&) = delete;
  MulticastTransfer& operator=(const MulticastTransfer&) = delete;

  const Shape& shape() const { return group_.shape; }
  Rank me() const { return group_.me; }
  /// Starts it. `agreed`: what all ranks know alike of the call, by which messages are checked.
  /// `available`: see Binding. Fails where the program has to do with an unknown rank.
  Status post(ProgramPtr program, std::byte* data, size_t bytes, uint32_t pieces, uint32_t agreed,
              const uint64_t* available);
  bool under_way() const { return posted_ && !completion_.done; }
  /// Why it ended, if not well.
  const Error* error() const { return completion_.error; }
  /// All that this rank is to receive has come; it may still have to pass it on.
  bool has_received() const;
  /// How many bytes of a block that comes in pieces, one behind the other, have come.
  uint64_t received() const;
  /// Whether this rank knows that one as a member.
  bool includes(Rank rank) const { return group_.rank_of(rank) != group_.shape.ranks(); }
  /// Nothing more is sent to a rank of the job, which has died.
  void lose(Rank rank);
  /// Ends it on this rank, and tells the others; it stays under way until nobody touches the data.
  void end(const Failure& why);

 private:
  Executor& executor_;
  GroupState group_;
  ProgramPtr program_;
  Completion completion_;
  uint64_t bytes_ = 0;
  uint32_t pieces_ = 1;
  bool posted_ = false;
};

}  // namespace ibcoll
