#pragma once
/// Calls that are to end by some time.

#include <algorithm>
#include <vector>

#include "engine/execute/group_ends.h"
#include "engine/execute/posted_call.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// Ends the groups of calls that take longer than they may. All of it is for calls that have a
/// deadline; others need not be told.
class Deadlines {
 public:
  Deadlines(const LocalTransport& local, GroupEnds& ends);
  ~Deadlines();

  /// A call is posted.
  void add(PostedCall& call) {
    if (call.binding.deadline_ns != 0) [[unlikely]]
      calls_.push_back(&call);
  }
  /// It has finished.
  void remove(PostedCall& call) {
    if (call.binding.deadline_ns != 0) [[unlikely]]
      std::erase(calls_, &call);
  }
  /// All calls of a group are stopped.
  void remove_all(const GroupState& group) {
    std::erase_if(calls_, [&group](const PostedCall* call) { return call->group == &group; });
  }
  /// Ends the groups of those whose deadlines have passed.
  void check() {
    if (!calls_.empty()) [[unlikely]]
      check_all();
  }

 private:
  void check_all();

  const LocalTransport& local_;
  GroupEnds& ends_;
  std::vector<PostedCall*> calls_;
};

}  // namespace ibcoll
