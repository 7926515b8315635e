#pragma once
/// The groups of a context: made of any of the job's ranks, locally.

#include <memory>
#include <span>
#include <vector>

#include "engine/core/group.h"
#include "engine/core/server_placement.h"

namespace ibcoll {

class Groups {
 public:
  /// `me`: this rank of the job. What is referred to must outlive it.
  Groups(const GroupServices& services, const ServerPlacement& job, Rank me)
      : services_(services), job_(job), me_(me) {}

  /// A new group of these ranks of the job, of which this one is a member. Must be gone before the
  /// context is. `id`: see GroupRecords::add; refused if such a group is there already.
  Result<std::shared_ptr<Group>> create(std::vector<Rank> members, uint64_t id = 0);
  /// One that is made of another group, as `origin` says, which is never the same again. `id`: its
  /// name in messages.
  Result<std::shared_ptr<Group>> derive(std::vector<Rank> members, uint64_t id, uint64_t origin);
  /// Ends such a group on all its ranks, whether or not they have made it. This one has not.
  Status end_derived(std::vector<Rank> members, uint64_t id, uint64_t origin, const Failure& why);
  /// The group of this rank's next call on a set of ranks of the job, of which it is one: of that
  /// call alone, and gone with it. `members` ascending. Takes time that goes with the members.
  /// `tag`: the caller's; calls on one set with one tag are matched in the order in which they are
  /// made.
  Result<std::shared_ptr<Group>> of_call(std::vector<Rank> members, uint64_t tag);
  /// The call that of_call() gave its group to was refused on this rank alone, as if it had not
  /// been made.
  void take_back(const Group& of_call) { services_.records.take_back(of_call.identity()); }
  /// Refuses ranks that can't be members of a group or set, `what` with its article.
  Status check_members(std::span<const Rank> members, const char* what);

 private:
  Result<std::shared_ptr<Group>> add(std::vector<Rank>&& members, uint64_t id, uint64_t origin);
  std::shared_ptr<Group> make(std::vector<Rank>&& members, Shape&& shape,
                              const GroupIdentity& identity);
  Result<Shape> shape_of(std::span<const Rank> members) const;

  const GroupServices services_;
  const ServerPlacement& job_;
  const Rank me_;
};

}  // namespace ibcoll
