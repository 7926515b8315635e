#include "engine/schedule/verifier.h"

#include <algorithm>

#include "engine/schedule/rehearsal.h"

namespace ibcoll {

namespace {

Status check_together(const Shape& shape,
                      std::span<const std::shared_ptr<const RankProgram>> programs) {
  if (programs.size() != static_cast<size_t>(shape.ranks())) {
    return fail(ErrorCode::kInvalidProgram, "{} programs for {} ranks", programs.size(),
                shape.ranks());
  }
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    if (programs[rank] == nullptr) {
      return fail(ErrorCode::kInvalidProgram, "rank {} has no program", rank);
    }
    const RankProgram& program = *programs[rank];
    const RankProgram& first = *programs[0];
    if (program.me != rank) {
      return fail(ErrorCode::kInvalidProgram, "the program in place {} is rank {}'s", rank,
                  program.me);
    }
    if (program.collective != first.collective || program.algorithm != first.algorithm ||
        program.root != first.root || program.cut != first.cut || program.hash != first.hash) {
      return fail(ErrorCode::kInvalidProgram,
                  "rank {} has {} {} (hash {:016x}), rank 0 has {} {} (hash {:016x})", rank,
                  to_string(program.collective), program.algorithm, program.hash,
                  to_string(first.collective), first.algorithm, first.hash);
    }
    IBCOLL_TRY(check_program(shape, program));
  }
  return {};
}

void add_costs(const Shape& shape, const RankProgram& program, ScheduleReport& report) {
  ScheduleReport rank;
  for (const auto& lane : program.lanes) {
    for (const Op& op : lane) {
      if (op.kind == OpKind::kCopy) rank.copied_blocks += op.count;
      if (op.kind == OpKind::kReduce || op.combines) rank.combined_blocks += op.count;
      if (op.kind == OpKind::kExpose) ++rank.net_tokens;
      if (op.kind == OpKind::kSignal && op.lane != Lane::kLocal) ++rank.net_tokens;
      if (op.kind != OpKind::kPut) continue;
      const bool local = shape.same_server(program.me, op.peer);
      ++(local ? rank.local_messages : rank.net_messages);
      (local ? rank.local_blocks : rank.net_blocks) += op.count;
    }
  }
  const auto most = [](uint64_t& so_far, uint64_t value) { so_far = std::max(so_far, value); };
  report.steps = std::max(report.steps, program.steps);
  most(report.net_messages, rank.net_messages);
  // Parts of a block that is cut count together.
  const auto whole = [&](uint64_t slots) { return (slots + program.cut - 1) / program.cut; };
  rank.net_blocks = whole(rank.net_blocks);
  rank.local_blocks = whole(rank.local_blocks);
  rank.copied_blocks = whole(rank.copied_blocks);
  rank.combined_blocks = whole(rank.combined_blocks);
  most(report.net_blocks, rank.net_blocks);
  most(report.net_tokens, rank.net_tokens);
  most(report.local_messages, rank.local_messages);
  most(report.local_blocks, rank.local_blocks);
  most(report.copied_blocks, rank.copied_blocks);
  most(report.combined_blocks, rank.combined_blocks);
  most(report.scratch_slots, program.scratch.size());
  report.all_net_messages += rank.net_messages;
  report.all_net_blocks += rank.net_blocks;
  report.operations += program.size();
  report.memory_bytes = std::max(report.memory_bytes, program.memory_bytes());
}

}  // namespace

Result<ScheduleReport> verify(const Shape& shape,
                              std::span<const std::shared_ptr<const RankProgram>> programs,
                              uint32_t pieces, std::vector<OrderedPut>* puts) {
  IBCOLL_TRY(check_together(shape, programs));
  ScheduleReport report;
  bool streams = false;
  for (const auto& program : programs) {
    add_costs(shape, *program, report);
    if (streams) continue;
    for (const Stream& stream : program->streams) streams |= !stream.once;
  }
  const uint32_t first = pieces == 0 ? 1 : pieces, last = pieces != 0 ? pieces : streams ? 3 : 1;
  for (uint32_t count = first; count <= last; ++count) {
    Rehearsal rehearsal(shape, programs, count, count == first ? puts : nullptr);
    IBCOLL_TRY(rehearsal.run());
    if (report.witness.empty()) report.witness = rehearsal.witness();
  }
  report.paced = report.witness.empty();
  return report;
}

}  // namespace ibcoll
