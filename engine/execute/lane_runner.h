#pragma once
/// Carries out the operations of one run's lanes as far as they go.

#include "engine/execute/executor.h"

namespace ibcoll {

/// The part of an operation's data that is meant: everything, or one piece of a stream.
struct Part {
  uint32_t piece = 0, pieces = 1;
  size_t begin(size_t length) const { return length * piece / pieces; }
  size_t end(size_t length) const { return length * (piece + 1) / pieces; }
  bool last() const { return piece + 1 == pieces; }
};

class LaneRunner {
 public:
  LaneRunner(Executor& executor, Run& run) : executor_(executor), run_(run) {}

  /// Starts what can be started; true if anything moved.
  bool advance(LaneState& lane);

 private:
  enum class Outcome : uint8_t { kDone, kMoved, kBlocked };
  bool ready(const Op& op, Part part = {});
  void retire(LaneState& lane);
  bool advance_run(LaneState& lane);
  Outcome advance_stream(LaneState& lane);
  Outcome execute(LaneState& lane, const Op& op, uint32_t position, Part part);
  Outcome copy(LaneState& lane, const Op& op, Part part);
  Outcome put_local(LaneState& lane, const Op& op, uint32_t position, Part part, bool token);
  Outcome put_network(LaneState& lane, const Op& op, uint32_t position, Part part);
  Outcome pull(LaneState& lane, const Op& op, Part part, bool token);
  bool all_exposed(const Op& op) const;
  bool gates_passed(const Op& op);
  bool open_gates();
  Rank job_rank(Rank rank) const { return run_.group->to_job[rank]; }
  bool local(Rank peer) const { return run_.group->shape.same_server(peer, run_.group->me); }

  Executor& executor_;
  Run& run_;
};

}  // namespace ibcoll
