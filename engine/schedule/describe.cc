#include "engine/schedule/describe.h"

#include <fmt/format.h>

namespace ibcoll {

std::string describe(const Slice& slice) {
  if (slice.count == 1) return fmt::format("{}[{}]", to_string(slice.buffer), slice.first);
  return fmt::format("{}[{}..{}]", to_string(slice.buffer), slice.first,
                     uint64_t{slice.first} + slice.count - 1);
}

std::string describe(const Block& block) {
  if (block.origin == Block::kNobody) return "nothing";
  if (block.origin == Block::kCombined) return fmt::format("combined->{}", block.target);
  if (block.target == Block::kEveryone) return fmt::format("{}->all", block.origin);
  return fmt::format("{}->{}", block.origin, block.target);
}

std::string describe(const Op& op) {
  const std::string exposure =
      op.exposure == 0 ? "" : fmt::format(" under exposure {}", int{op.exposure});
  switch (op.kind) {
    case OpKind::kCopy:
      return fmt::format("copy {} to {}", describe(op.src()), describe(op.dst()));
    case OpKind::kReduce:
      return fmt::format("reduce {} into {}{}", describe(op.src()), describe(op.dst()),
                         op.ordered ? " in rank order" : "");
    case OpKind::kPut:
      return fmt::format("put {} to rank {} at {}{}", describe(op.src()), op.peer,
                         describe(op.dst()), exposure);
    case OpKind::kExpect:
      return fmt::format("expect {} from rank {}{}", describe(op.dst()), op.peer, exposure);
    case OpKind::kExpose:
      return fmt::format("expose to {} {}", op.to_server ? "server" : "rank", op.peer);
    case OpKind::kWaitExposed:
      return fmt::format("wait until server {} has exposed {}x", op.peer, op.threshold);
    case OpKind::kForward:
      return fmt::format("forward {} exposures", op.threshold);
    case OpKind::kSignal:
      return op.threshold == 0 ? fmt::format("signal rank {}", op.peer)
                               : fmt::format("signal rank {} when {:.0f} % are left", op.peer,
                                             100.0 * op.threshold / TransferPlan::kParts);
    case OpKind::kWait:
      return fmt::format("wait for rank {}", op.peer);
    case OpKind::kGateSignal:
      return "pass a gate";
    case OpKind::kGateWait:
      return fmt::format("wait for gate {} of all local ranks", op.threshold);
  }
  return "?";
}

std::string describe(const RankProgram& program, Lane lane, uint32_t op) {
  const Op& what = program.lane(lane)[op];
  return fmt::format("rank {}, lane {}, step {}, op {} ({})", program.me, to_string(lane),
                     what.step, op, describe(what));
}

std::string list(const RankProgram& program) {
  std::string text = fmt::format("{} {}, rank {}: {} operations, {} steps, {} scratch slots\n",
                                 to_string(program.collective), program.algorithm, program.me,
                                 program.size(), program.steps, program.scratch.size());
  for (const Lane lane : {Lane::kSend, Lane::kRecv, Lane::kLocal}) {
    const auto& ops = program.lane(lane);
    text += fmt::format("lane {}: {} operations\n", to_string(lane), ops.size());
    for (size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      std::string notes;
      for (const Stream& stream : program.streams) {
        if (stream.lane == lane && stream.first == i) {
          notes += fmt::format("  stream of {}", stream.count);
        }
      }
      if (op.relaxed == Op::Relaxed::kFirstOfRun) notes += "  run begins";
      if (op.relaxed == Op::Relaxed::kInRun) notes += "  in run";
      for (int other = 0; other < kLanes; ++other) {
        if (op.after[other] == 0) continue;
        notes += fmt::format("  after {}:{}", to_string(static_cast<Lane>(other)), op.after[other]);
      }
      text += fmt::format("  {:5}  step {:<5} {}{}\n", i, op.step, describe(op), notes);
    }
  }
  return text;
}

}  // namespace ibcoll
