#include "engine/schedule/rehearsal.h"

#include <algorithm>

#include "engine/schedule/describe.h"
#include "engine/schedule/op_kinds.h"

namespace ibcoll {

Rehearsal::Rehearsal(const Shape& shape,
                     std::span<const std::shared_ptr<const RankProgram>> programs, uint32_t pieces,
                     std::vector<OrderedPut>* puts)
    : shape_(shape), programs_(programs), pieces_(pieces), puts_(puts) {
  inflow_.resize(programs.size());
  runs_.reserve(programs.size());
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    runs_.emplace_back(*programs[rank], pieces);
    prepare(rank);
  }
}

void Rehearsal::prepare(Rank rank) {
  const RankProgram& program = *programs_[rank];
  RankRun& run = runs_[rank];
  std::vector<std::vector<uint32_t>> expects(shape_.ranks());
  for (int lane = 0; lane < kLanes; ++lane) {
    LaneRun& lane_run = run.lanes[lane];
    lane_run.start = lane_run.run_base = lane_run.finish = VectorClock(shape_.ranks(), rank);
    const LaneCursor& items = run.at[lane];
    for (uint32_t item = 0; item < items.size(); ++item) {
      const auto& after = items.after(item);
      for (int other = 0; other < kLanes; ++other) {
        if (after[other] == 0) continue;
        auto& references = run.lanes[other].references;
        if (references.size() <= after[other]) references.resize(after[other] + 1);
        ++references[after[other]];
      }
      const Op& op = items.op(item);
      if (op.kind == OpKind::kExpect) expects[op.peer].push_back(item);
    }
  }
  for (const auto& of_peer : expects) {
    run.expect_first.push_back(static_cast<uint32_t>(run.expects.size()));
    run.expects.insert(run.expects.end(), of_peer.begin(), of_peer.end());
  }
  run.expect_first.push_back(static_cast<uint32_t>(run.expects.size()));

  const size_t slots[] = {program.send_slots(shape_), program.recv_slots(shape_),
                          program.scratch.size()};
  for (int buffer = 0; buffer < 3; ++buffer) run.cells[buffer].resize(slots[buffer] * pieces_);
  Parts own;
  if (reduces(program.collective)) {
    own = std::make_shared<const std::vector<Rank>>(1, rank);
  }
  for (size_t cell = 0; cell < run.cells[0].size(); ++cell) {
    run.cells[0][cell].content = {
        program.block(Buffer::kSend, static_cast<uint32_t>(cell / pieces_)), own};
    run.cells[0][cell].written = true;
  }
}

std::string Rehearsal::name(Rank rank, int lane, uint32_t item) const {
  const LaneCursor& items = runs_[rank].at[lane];
  std::string text = describe(*programs_[rank], static_cast<Lane>(lane), items.place(item));
  if (pieces_ > 1) text += fmt::format(", piece {} of {}", items.piece(item), pieces_);
  return text;
}

void Rehearsal::wake(Rank rank) {
  if (runs_[rank].queued) return;
  runs_[rank].queued = true;
  queue_.push_back(rank);
}

void Rehearsal::wake_server(int server) {
  for (const Rank rank : shape_.members(server)) wake(rank);
}

std::string Rehearsal::name_cell(Buffer buffer, size_t cell) const {
  return describe(Slice{buffer, static_cast<uint32_t>(cell / pieces_), 1});
}

Status Rehearsal::run() {
  for (Rank rank = 0; rank < shape_.ranks(); ++rank) wake(rank);
  while (!queue_.empty()) {
    const Rank rank = queue_.front();
    queue_.pop_front();
    runs_[rank].queued = false;
    IBCOLL_TRY(advance(rank));
  }
  IBCOLL_TRY(check_stuck());
  IBCOLL_TRY(check_leftovers());
  return check_delivered();
}

Status Rehearsal::advance(Rank rank) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int lane = 0; lane < kLanes; ++lane) {
      while (!runs_[rank].at[lane].all_started() && !obstacle(rank, lane)) {
        IBCOLL_TRY(start_next(rank, lane));
        moved = true;
      }
    }
  }
  return {};
}

std::optional<Rehearsal::Obstacle> Rehearsal::obstacle(Rank rank, int lane) {
  const ProgramCursor& at = runs_[rank].at;
  const uint32_t item = at[lane].next();
  if (at.behind(lane, item) >= 0) return Obstacle{true, -1};
  return obstacle_at_peer(rank, at[lane].op(item));
}

std::optional<Rehearsal::Obstacle> Rehearsal::obstacle_at_peer(Rank rank, const Op& op) {
  const int server = shape_.server_of(rank);
  bool ready = true;
  switch (op.kind) {
    case OpKind::kPut:
      ready = shape_.same_server(rank, op.peer)
                  ? channel(rank, op.peer).offered == 0
                  : channel(op.peer, rank).exposures.size() > op.exposure;
      break;
    case OpKind::kExpect:
      ready = !channel(op.peer, rank).messages.empty();
      break;
    case OpKind::kWait:
      ready = !channel(op.peer, rank).tokens.empty();
      break;
    case OpKind::kForward:
      ready = runs_[rank].routed >= op.threshold;
      break;
    case OpKind::kWaitExposed:
      for (const Rank peer : shape_.members(op.peer)) {
        if (server_exposures_[key(peer, server)].size() < op.threshold)
          return Obstacle{false, peer};
      }
      break;
    case OpKind::kGateWait:
      for (const Rank peer : shape_.members(server)) {
        if (runs_[peer].gates.size() < op.threshold) return Obstacle{false, peer};
      }
      break;
    default:
      break;
  }
  if (ready) return {};
  return Obstacle{false, op.peer};
}

/// What is known when the next item of a lane starts, in the loosest order: not that those of its
/// relaxed run, or of its stream in strands, have started, nor that anything before it is complete,
/// unless it says so.
VectorClock Rehearsal::start_clock(Rank rank, int lane) {
  RankRun& run = runs_[rank];
  LaneRun& mine = run.lanes[lane];
  const LaneCursor& at = run.at[lane];
  const Op::Relaxed relaxed = at.relaxed(at.next());
  if (relaxed == Op::Relaxed::kFirstOfRun) mine.run_base = mine.start;
  VectorClock clock = relaxed == Op::Relaxed::kInRun ? mine.run_base : mine.start;
  for (int other = 0; other < kLanes; ++other) {
    const uint32_t count = at.after(at.next())[other];
    if (count == 0) continue;
    LaneRun& needed = run.lanes[other];
    if (clock.complete(rank, other) < count) clock.join(needed.known.at(count));
    if (--needed.references[count] == 0) needed.known.erase(count);
  }
  return clock;
}

/// Marks an item complete; `clock` is what its completion knows.
void Rehearsal::finish(Rank rank, int lane, uint32_t item, const VectorClock& clock) {
  LaneRun& run = runs_[rank].lanes[lane];
  LaneCursor& at = runs_[rank].at[lane];
  run.done_early.emplace(item, clock);
  uint32_t complete = at.complete();
  at.finish(item);
  while (complete < at.complete()) {
    const auto done = run.done_early.find(complete);
    run.finish.join(done->second);
    run.done_early.erase(done);
    run.finish.set_complete(rank, lane, ++complete);
    if (complete < run.references.size() && run.references[complete] > 0) {
      run.known.emplace(complete, run.finish);
    }
  }
}

Status Rehearsal::start_next(Rank rank, int lane) {
  LaneCursor& at = runs_[rank].at[lane];
  Running item{rank, lane, at.next(), at.op(at.next()), start_clock(rank, lane)};
  at.start(item.item);
  VectorClock complete = item.start;
  bool is_complete = true;
  switch (item.op.kind) {
    case OpKind::kCopy: {
      const auto from = cells(item, item.op.src_first), to = cells(item, item.op.dst_first);
      for (size_t i = 0; i < from.size(); ++i) {
        IBCOLL_ASSIGN(const Content content, read(item, item.op.src_buffer, from[i]));
        IBCOLL_TRY(write(item, item.op.dst_buffer, to[i], content, item.start));
      }
      break;
    }
    case OpKind::kReduce: {
      const auto from = cells(item, item.op.src_first), to = cells(item, item.op.dst_first);
      for (size_t i = 0; i < from.size(); ++i) {
        IBCOLL_ASSIGN(const Content content, read(item, item.op.src_buffer, from[i]));
        IBCOLL_TRY(combine(item, to[i], content));
      }
      break;
    }
    case OpKind::kPut:
      is_complete = !shape_.same_server(rank, item.op.peer);  // else when it is taken
      IBCOLL_TRY(put(item));
      complete = item.start;
      break;
    case OpKind::kExpect:
      IBCOLL_TRY(expect(item, complete));
      break;
    case OpKind::kExpose:
      IBCOLL_TRY(expose(item));
      break;
    case OpKind::kSignal:
      if (!at.sends_token(item.item, pieces_)) break;
      channel(rank, item.op.peer).tokens.push_back(item.start);
      wake(item.op.peer);
      break;
    case OpKind::kGateSignal:
      runs_[rank].gates.push_back(item.start);
      wake_server(shape_.server_of(rank));
      break;
    case OpKind::kForward:
      runs_[rank].forwarded = std::max(runs_[rank].forwarded, item.op.threshold);
      break;
    case OpKind::kWaitExposed:
    case OpKind::kWait:
    case OpKind::kGateWait:
      meet(item, complete);
      item.start = complete;  // these hold back what follows in the lane
      break;
  }
  runs_[rank].lanes[lane].start.join(item.start);
  if (is_complete) finish(rank, lane, item.item, complete);
  return {};
}

/// What a wait that is over knows.
void Rehearsal::meet(const Running& wait, VectorClock& complete) {
  const Op& op = wait.op;
  const int server = shape_.server_of(wait.rank);
  if (op.kind == OpKind::kWait) {
    auto& tokens = channel(op.peer, wait.rank).tokens;
    complete.join(tokens.front());
    tokens.pop_front();
  } else if (op.threshold > 0) {
    for (const Rank peer : shape_.members(op.kind == OpKind::kGateWait ? server : op.peer)) {
      if (op.kind == OpKind::kGateWait) {
        complete.join(runs_[peer].gates[op.threshold - 1]);
      } else {
        complete.join(server_exposures_[key(peer, server)][op.threshold - 1]);
        uint32_t& used = server_exposures_used_[key(peer, server)];
        used = std::max(used, op.threshold);
      }
    }
  }
}

Status Rehearsal::expose(const Running& expose) {
  const Op& op = expose.op;
  const auto to_rank = [&](Rank peer) -> Status {
    Channel& there = channel(expose.rank, peer);
    const RankRun& run = runs_[expose.rank];
    for (uint32_t i = run.expect_first[peer]; i < run.expect_first[peer + 1]; ++i) {
      const uint32_t item = run.expects[i];
      if (op_of(expose.rank, kRecv, item).exposure < there.exposures.size() &&
          expose.start.complete(expose.rank, kRecv) <= item) {
        return invalid("{}: {}, which uses the exposure before, may not be complete", name(expose),
                       name(expose.rank, kRecv, item));
      }
    }
    there.exposures.push_back(expose.start);
    wake(peer);
    return {};
  };
  if (!op.to_server) return to_rank(op.peer);
  for (const Rank peer : shape_.members(op.peer)) IBCOLL_TRY(to_rank(peer));
  server_exposures_[key(expose.rank, op.peer)].push_back(expose.start);
  ++runs_[gateway(shape_, expose.rank, op.peer)].routed;
  return {};
}

Status Rehearsal::check_stuck() {
  std::string stuck;
  uint32_t earliest = UINT32_MAX;
  int lanes = 0;
  for (Rank rank = 0; rank < shape_.ranks(); ++rank) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const LaneCursor& at = runs_[rank].at[lane];
      if (at.all_started()) continue;
      ++lanes;
      const Op& op = at.op(at.next());
      const Obstacle why = *obstacle(rank, lane);
      // An item that waits for another of its rank says nothing new: that one is stuck too.
      if (why.own || op.step >= earliest) continue;
      earliest = op.step;
      const bool put_inside = op.kind == OpKind::kPut && lane == kLocal;
      stuck = fmt::format("{} waits {}{}", name(rank, lane, at.next()),
                          why.peer < 0 ? "" : fmt::format("for rank {} ", why.peer),
                          put_inside ? "to take the put before" : meaning(op.kind).awaits);
    }
  }
  if (lanes == 0) return {};
  if (stuck.empty()) stuck = "operations that come after each other in a cycle";
  return invalid("no progress, {} lanes stand still, the earliest at {}", lanes, stuck);
}

Status Rehearsal::check_leftovers() {
  for (const auto& [pair, channel] : channels_) {
    const auto from = static_cast<Rank>(pair >> 32), to = static_cast<Rank>(pair & 0xffffffff);
    if (!channel.tokens.empty()) {
      return invalid("rank {}: {} tokens of rank {} are never waited for", to,
                     channel.tokens.size(), from);
    }
    const uint64_t with_server = key(from, shape_.server_of(to));
    const size_t to_server = server_exposures_[with_server].size();
    if (channel.exposures.size() > to_server && channel.exposures.size() > channel.exposures_used) {
      return invalid("rank {} exposes {} times to rank {}, which uses {}", from,
                     channel.exposures.size(), to, channel.exposures_used);
    }
    uint32_t& used = server_exposures_used_[with_server];
    used = std::max(used, channel.exposures_used);
  }
  for (const auto& [pair, exposures] : server_exposures_) {
    const uint32_t used = server_exposures_used_[pair];
    if (exposures.size() > used) {
      return invalid("rank {} exposes {} times to server {}, which uses {}", pair >> 32,
                     exposures.size(), pair & 0xffffffff, used);
    }
  }
  for (Rank rank = 0; rank < shape_.ranks(); ++rank) {
    const RankRun& run = runs_[rank];
    if (run.routed != run.forwarded) {
      return invalid("rank {} stays for {} exposures of other servers, but {} come through it",
                     rank, run.forwarded, run.routed);
    }
    const Rank first = shape_.rank_at(shape_.server_of(rank), 0);
    if (run.gates.size() != runs_[first].gates.size()) {
      return invalid("rank {} passes {} gates, rank {} of its server {}", rank, run.gates.size(),
                     first, runs_[first].gates.size());
    }
  }
  return {};
}

Status Rehearsal::check_delivered() {
  for (Rank rank = 0; rank < shape_.ranks(); ++rank) {
    const RankRun& run = runs_[rank];
    const RankProgram& program = *programs_[rank];
    for (const Buffer buffer : {Buffer::kRecv, Buffer::kScratch}) {
      const auto& cells = run.cells[static_cast<int>(buffer) - 1];
      for (size_t cell = 0; cell < cells.size(); ++cell) {
        const auto slot = static_cast<uint32_t>(cell / pieces_);
        if (!cells[cell].written) {
          return invalid("rank {}: block {} never arrives in {}", rank,
                         describe(program.block(buffer, slot), program), name_cell(buffer, cell));
        }
        const Parts& parts = cells[cell].content.parts;
        if (buffer == Buffer::kScratch || parts == nullptr) continue;
        const Rank wanted = contributors(program.collective, shape_, rank);
        for (Rank other = 0; other < shape_.ranks(); ++other) {
          const bool there = std::binary_search(parts->begin(), parts->end(), other);
          if (there == (other < wanted)) continue;
          return invalid("rank {}: the data of rank {} is {}in what is combined in {}", rank, other,
                         there ? "" : "not ", name_cell(buffer, cell));
        }
      }
    }
    if (moves_data(program.collective)) continue;
    VectorClock end = run.lanes[kSend].finish;
    end.join(run.lanes[kRecv].finish);
    end.join(run.lanes[kLocal].finish);
    for (Rank other = 0; other < shape_.ranks(); ++other) {
      if (!end.entered(other)) {
        return invalid("rank {} may leave the barrier before rank {} has entered", rank, other);
      }
    }
  }
  return {};
}

}  // namespace ibcoll
