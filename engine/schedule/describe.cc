#include "engine/schedule/describe.h"

#include <fmt/format.h>

#include "engine/schedule/op_kinds.h"

namespace ibcoll {

std::string describe(const Slice& slice) {
  if (slice.count == 1) return fmt::format("{}[{}]", to_string(slice.buffer), slice.first);
  return fmt::format("{}[{}..{}]", to_string(slice.buffer), slice.first,
                     uint64_t{slice.first} + slice.count - 1);
}

namespace {

/// Whom a block is for of which this is a part.
Rank whole_target(const Block& part, const RankProgram& program) {
  if (parts_have_targets(program.collective)) {
    return (Block::kFirstPart - part.target) / static_cast<Rank>(program.cut);
  }
  const bool rooted = traits(program.collective).send.target == End::kRoot;
  return rooted ? program.root : Block::kEveryone;
}

}  // namespace

std::string describe(const Block& block, const RankProgram& program) {
  if (block.origin == Block::kNobody) return "nothing";
  const std::string origin =
      block.origin == Block::kCombined ? "combined" : std::to_string(block.origin);
  if (block.target == Block::kEveryone) return fmt::format("{}->all", origin);
  if (block.target <= Block::kFirstPart) {
    const Block whole{block.origin, whole_target(block, program)};
    return fmt::format("{}, part {} of {}", describe(whole, program),
                       part_number(block, program.cut), program.cut);
  }
  return fmt::format("{}->{}", origin, block.target);
}

std::string describe(const Op& op) {
  using fmt::arg;
  const std::string exposure =
      op.exposure == 0 ? "" : fmt::format(" under exposure {}", int{op.exposure});
  const std::string left =
      op.threshold == 0
          ? ""
          : fmt::format(" when {:.0f} % are left", 100.0 * op.threshold / TransferPlan::kParts);
  const bool unplaced = op.kind == OpKind::kPut && op.dst_buffer == Buffer::kNone;
  const char* peer = addresses_server(op) ? "server" : "rank";
  return fmt::format(
      fmt::runtime(meaning(op.kind).sentence), arg("src", describe(op.src())),
      arg("dst", unplaced ? "its place" : describe(op.dst())),
      arg("peer", fmt::format("{} {}", peer, op.peer)), arg("threshold", op.threshold),
      arg("order",
          fmt::format("{}{}", op.before ? " before it" : "", op.ordered ? " in rank order" : "")),
      arg("into", op.combines ? " combined into" : ""), arg("exposure", exposure),
      arg("left", left));
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
  if (program.cut > 1) {
    text +=
        fmt::format("blocks in {0} parts: slot s is part s % {0} of block s / {0}\n", program.cut);
  }
  for (const Lane lane : {Lane::kSend, Lane::kRecv, Lane::kLocal}) {
    const auto& ops = program.lane(lane);
    text += fmt::format("lane {}: {} operations\n", to_string(lane), ops.size());
    for (size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      std::string notes;
      for (const Stream& stream : program.streams) {
        if (stream.lane == lane && stream.first == i) {
          notes += fmt::format("  stream of {}", stream.count);
          if (stream.in_strands())
            notes += fmt::format(" in {} strands", program.strands[stream.strands].ends.size());
          if (stream.once) notes += ", once";
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
