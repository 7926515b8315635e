#include <algorithm>

#include "engine/schedule/describe.h"
#include "engine/schedule/rank_order.h"
#include "engine/schedule/rehearsal.h"

/// What happens to the data in a rehearsal: who writes and reads which cell, and in which order.

namespace ibcoll {

Status Rehearsal::put(Running& put) {
  const Op& op = put.op;
  const RankRun& peer = runs_[op.peer];
  Channel& there = channel(put.rank, op.peer);
  const bool local = shape_.same_server(put.rank, op.peer);
  const uint32_t expects = peer.expect_first[put.rank + 1] - peer.expect_first[put.rank];
  if (there.puts == expects) {
    return invalid("{}: rank {} expects only {} of its puts", name(put), op.peer, expects);
  }
  const uint32_t expect_item = peer.expects[peer.expect_first[put.rank] + there.puts++];
  const int lane = local ? kLocal : kRecv;
  const Op& expected = op_of(op.peer, lane, expect_item);
  const LaneCursor &mine = runs_[put.rank].at[put.lane], &theirs = peer.at[lane];
  const bool placed = !has_graph(programs_[put.rank]->collective);  // else its receiver knows
  const char* const differs =
      placed && (op.dst_buffer != expected.dst_buffer || op.dst_first != expected.dst_first)
          ? "the place"
      : op.count != expected.count                              ? "the number of slots"
      : op.exposure != expected.exposure                        ? "the exposure"
      : op.step != expected.step                                ? "the step"
      : mine.streamed(put.item) != theirs.streamed(expect_item) ? "whether they are in a stream"
      : mine.piece(put.item) != theirs.piece(expect_item)       ? "the piece"
                                                                : nullptr;
  if (differs != nullptr) {
    return invalid(
        "{} does not match {}, which receives it, as puts are received in their order: they "
        "differ in {}",
        name(put), name(op.peer, lane, expect_item), differs);
  }
  if (!local) {
    Channel& back = channel(op.peer, put.rank);
    put.start.join(back.exposures[op.exposure]);
    back.exposures_used = std::max<uint32_t>(back.exposures_used, op.exposure + 1);
    watch_pace(put, expect_item);
    if (puts_ != nullptr) record(put, expect_item);
  } else {
    ++there.offered;
  }
  SentPut sent{put.item, put.start, {}};
  for (const size_t cell : cells(put, op.src_first)) {
    IBCOLL_ASSIGN(Content content, read(put, op.src_buffer, cell));
    sent.contents.push_back(std::move(content));
  }
  there.messages.push_back(std::move(sent));
  wake(op.peer);
  return {};
}

Status Rehearsal::expect(Running& expect, VectorClock& complete) {
  const Op& op = expect.op;
  Channel& from = channel(op.peer, expect.rank);
  const SentPut sent = std::move(from.messages.front());
  from.messages.pop_front();
  const bool local = shape_.same_server(expect.rank, op.peer);
  const auto to = cells(expect, op.dst_first);
  for (size_t i = 0; i < to.size(); ++i) {
    if (op.combines) {
      IBCOLL_TRY(combine(expect, to[i], sent.contents[i]));
      continue;
    }
    // A put of another server may write as soon as it starts, a local one is pulled from here.
    IBCOLL_TRY(
        write(expect, op.dst_buffer, to[i], sent.contents[i], local ? expect.start : sent.start));
  }
  complete.join(sent.start);
  if (local) {
    --from.offered;
    finish(op.peer, kLocal, sent.put, sent.start);
    wake(op.peer);
  }
  return {};
}

std::vector<size_t> Rehearsal::cells(const Running& item, uint32_t first) const {
  const LaneCursor& items = runs_[item.rank].at[item.lane];
  const bool one = items.streamed(item.item);
  const uint32_t begin = one ? items.piece(item.item) : 0;
  const uint32_t end = one ? begin + 1 : pieces_;
  std::vector<size_t> cells;
  for (uint32_t slot = first; slot < first + item.op.count; ++slot) {
    for (uint32_t piece = begin; piece < end; ++piece) {
      cells.push_back(size_t{slot} * pieces_ + piece);
    }
  }
  return cells;
}

Result<Rehearsal::Content> Rehearsal::read(const Running& item, Buffer buffer, size_t index) {
  Cell& cell = runs_[item.rank].cells[static_cast<int>(buffer) - 1][index];
  if (!cell.written) {
    return invalid("{}: reads {} before anything is written there", name(item),
                   name_cell(buffer, index));
  }
  if (item.start.complete(item.rank, cell.writer_lane) < cell.written_by) {
    return invalid("{}: reads block {} in {} while it may still be written by {}", name(item),
                   describe(cell.content.block, *programs_[item.rank]), name_cell(buffer, index),
                   name(item.rank, cell.writer_lane, cell.written_by - 1));
  }
  uint32_t& read_by = cell.read_by[item.lane];
  read_by = std::max(read_by, item.item + 1);
  return cell.content;
}

Status Rehearsal::write(const Running& item, Buffer buffer, size_t index, const Content& content,
                        const VectorClock& start) {
  const RankProgram& program = *programs_[item.rank];
  Cell& cell = runs_[item.rank].cells[static_cast<int>(buffer) - 1][index];
  if (cell.written) {
    return invalid("{}: block {} is written to {}, which holds block {} by {}", name(item),
                   describe(content.block, program), name_cell(buffer, index),
                   describe(cell.content.block, program),
                   name(item.rank, cell.writer_lane, cell.written_by - 1));
  }
  const Block meant = program.block(buffer, static_cast<uint32_t>(index / pieces_));
  if (!(content.block == meant)) {
    return invalid("{}: block {} arrives in {}, which is for block {}", name(item),
                   describe(content.block, program), name_cell(buffer, index),
                   describe(meant, program));
  }
  IBCOLL_TRY(check_unread(item, buffer, index, start));
  cell.content = content;
  cell.written = true;
  cell.writer_lane = static_cast<int8_t>(item.lane);
  cell.written_by = item.item + 1;
  return {};
}

Status Rehearsal::check_unread(const Running& item, Buffer buffer, size_t index,
                               const VectorClock& start) {
  const Cell& cell = runs_[item.rank].cells[static_cast<int>(buffer) - 1][index];
  for (int lane = 0; lane < kLanes; ++lane) {
    if (start.complete(item.rank, lane) < cell.read_by[lane]) {
      return invalid("{}: writes {} while it may still be read by {}", name(item),
                     name_cell(buffer, index), name(item.rank, lane, cell.read_by[lane] - 1));
    }
  }
  return {};
}

/// Combines content with what is in `dst`: the same block, each rank's data at most once, in the
/// order of ranks where the operation says so.
Status Rehearsal::combine(const Running& item, size_t dst, const Content& from) {
  const Op& op = item.op;
  IBCOLL_TRY(check_unread(item, op.dst_buffer, dst, item.start));
  IBCOLL_ASSIGN(const Content into, read(item, op.dst_buffer, dst));
  const RankProgram& program = *programs_[item.rank];
  if (!(into.block == from.block)) {
    return invalid("{}: block {} is combined with block {}", name(item),
                   describe(into.block, program), describe(from.block, program));
  }
  const std::vector<Rank>& a = op.before ? *from.parts : *into.parts;
  const std::vector<Rank>& b = op.before ? *into.parts : *from.parts;
  if (op.ordered && (a.back() + 1 != b.front() ||
                     b.back() - a.front() + 1 != static_cast<Rank>(a.size() + b.size()))) {
    return invalid("{}: data of ranks {} to {} is followed by that of ranks {} to {}", name(item),
                   a.front(), a.back(), b.front(), b.back());
  }
  if (op.ordered && !are_parts(a.front(), b.front(), b.back() + 1)) {
    return invalid(
        "{}: the tree of ordered reductions does not combine ranks {} to {} with {} to {}",
        name(item), a.front(), a.back(), b.front(), b.back());
  }
  std::vector<Rank> parts(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), parts.begin());
  const auto twice = std::adjacent_find(parts.begin(), parts.end());
  if (twice != parts.end()) {
    return invalid("{}: the data of rank {} is combined twice", name(item), *twice);
  }
  Cell& cell = runs_[item.rank].cells[static_cast<int>(op.dst_buffer) - 1][dst];
  cell.content.parts = std::make_shared<const std::vector<Rank>>(std::move(parts));
  cell.writer_lane = static_cast<int8_t>(item.lane);
  cell.written_by = item.item + 1;
  return {};
}

/// A schedule is paced if whatever other servers have put into a server has landed, and the sender
/// knows, when a put into it starts.
void Rehearsal::watch_pace(const Running& put, uint32_t expect_item) {
  const int mine = shape_.server_of(put.rank);
  for (const Rank rank : shape_.members(shape_.server_of(put.op.peer))) {
    for (const Inflow& inflow : inflow_[rank]) {
      if (!witness_.empty() || inflow.server < 0 || inflow.server == mine ||
          put.start.complete(rank, kRecv) >= inflow.until) {
        continue;
      }
      witness_ = fmt::format("{} may start before the put of rank {} to rank {} has landed",
                             name(put), inflow.sender, rank);
    }
  }
  // The two latest of different servers are enough to know the latest of those other than any one.
  auto& [latest, second] = inflow_[put.op.peer];
  Inflow& place = latest.server == mine ? latest : second;
  if (expect_item + 1 > place.until) place = {mine, expect_item + 1, put.rank};
  if (second.until > latest.until) std::swap(latest, second);
}

void Rehearsal::record(const Running& put, uint32_t expect_item) {
  OrderedPut record{put.rank, put.op.peer, put.op.step, put.op.count, expect_item + 1, {}};
  record.known.resize(programs_.size());
  for (Rank rank = 0; rank < shape_.ranks(); ++rank) {
    record.known[rank] = put.start.complete(rank, kRecv);
  }
  puts_->push_back(std::move(record));
}

}  // namespace ibcoll
