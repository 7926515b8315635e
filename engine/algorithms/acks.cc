#include "engine/algorithms/acks.h"

#include <algorithm>

#include "engine/algorithms/server_tree.h"

namespace ibcoll {
namespace {

/// Adds to a program that is written.
class Appender {
 public:
  Appender(const Shape& shape, const RankProgram& program)
      : shape_(shape), program_(std::make_shared<RankProgram>(program)) {}

  void wait(Rank peer, uint32_t step) { add(OpKind::kWait, peer, step, lane_of_waits(peer)); }
  /// Once everything written so far has come, and so have all tokens that are waited for.
  void signal(Rank peer, uint32_t step) {
    Op& op = add(OpKind::kSignal, peer, step,
                 shape_.same_server(peer, program_->me) ? Lane::kLocal : Lane::kSend);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (lane != static_cast<int>(op.lane)) op.after[lane] = size(lane);
    }
    op.after[static_cast<int>(op.lane)] = size(static_cast<int>(op.lane)) - 1;
  }
  ProgramPtr finish() { return std::move(program_); }

 private:
  uint32_t size(int lane) const { return static_cast<uint32_t>(program_->lanes[lane].size()); }

  /// All waits for one rank's tokens stand in one lane.
  Lane lane_of_waits(Rank peer) const {
    for (const auto& lane : program_->lanes) {
      for (const Op& op : lane) {
        if (op.kind == OpKind::kWait && op.peer == peer) return op.lane;
      }
    }
    return shape_.same_server(peer, program_->me) ? Lane::kLocal : Lane::kRecv;
  }

  Op& add(OpKind kind, Rank peer, uint32_t step, Lane lane) {
    Op& op = program_->lanes[static_cast<int>(lane)].edit().emplace_back();
    op.kind = kind;
    op.lane = lane;
    op.peer = peer;
    op.step = step;
    program_->steps = std::max(program_->steps, step + 1);
    return op;
  }

  const Shape& shape_;
  std::shared_ptr<RankProgram> program_;
};

}  // namespace

ProgramPtr with_acks(const Shape& shape, const RankProgram& program) {
  const ServerLine line(shape, program.root);
  const int place = line.place_of(shape.server_of(program.me));
  const BinomialTree tree{line.places()};
  const Rank leader = line.leader(place);
  const uint32_t first = program.steps;
  Appender appender(shape, program);
  if (program.me != leader) {
    appender.signal(leader, first);
    return appender.finish();
  }
  for (const Rank local : shape.members(line.server_at(place))) {
    if (local != leader) appender.wait(local, first);
  }
  for (const int child : tree.children(place)) {
    appender.wait(line.leader(child), first + 1 + tree.level(child));
  }
  if (place != 0) {
    appender.signal(line.leader(tree.parent(place)), first + 1 + tree.level(place));
  }
  return appender.finish();
}

}  // namespace ibcoll
