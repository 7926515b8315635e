#include "studies/simulate/program_run.h"

#include <algorithm>
#include <cmath>

#include "engine/schedule/describe.h"
#include "engine/schedule/op_kinds.h"

namespace ibcoll::sim {

namespace {

/// What a rank copies at most before it looks after its other lanes, and how far it searches a
/// relaxed run for something to start: as the executor does (engine/execute/lane_runner.cc).
constexpr uint64_t kCopyBytes = 128 * 1024;
constexpr uint32_t kSearch = 64;

constexpr uint64_t kProgressEvery = 1 << 16;

}  // namespace

Status add_all_routes(std::span<const uint32_t> hosts, Routes& routes) {
  for (const uint32_t from : hosts) {
    for (const uint32_t to : hosts) {
      if (from != to) IBCOLL_TRY(routes.add(from, to));
    }
  }
  return {};
}

const char* to_string(Hold hold) {
  return hold == Hold::kProgram    ? "the program"
         : hold == Hold::kRankStep ? "a send and receive a step"
                                   : "barriers between steps";
}

ProgramRun::ProgramRun(const Shape& shape,
                       std::span<const std::shared_ptr<const RankProgram>> programs,
                       std::span<const uint32_t> hosts, const Routes& routes, Network& network,
                       const RunOptions& options)
    : shape_(shape),
      programs_(programs),
      network_(network),
      routes_(routes),
      options_(options),
      random_(options.seed ^ 0x5deece66d),
      local_(static_cast<size_t>(shape.ranks()) * shape.max_server_size()) {
  const size_t ranks = shape.ranks();
  uint32_t steps = 1;
  for (const auto& program : programs) steps = std::max(steps, program->steps);
  left_in_step_.resize(steps);
  times_.steps.resize(steps);
  times_.rank_end.resize(ranks);
  if (options.hold == Hold::kRankStep) rank_left_in_step_.resize(ranks);
  if (shape.servers() > 1) {
    arrived_.resize(ranks * ranks);
    exposures_.resize(ranks * ranks);
  }
  ranks_.reserve(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const RankRun& run = ranks_.emplace_back(*programs[rank], options.pieces);
    if (options.hold == Hold::kRankStep) rank_left_in_step_[rank].resize(steps);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (uint32_t item = 0; item < run.at[lane].size(); ++item) {
        const uint32_t step = run.at[lane].op(item).step;
        ++left_in_step_[step];
        if (options.hold == Hold::kRankStep) ++rank_left_in_step_[rank][step];
      }
    }
    items_ += run.left;
  }
  ports_ = static_cast<uint32_t>(hosts.size());
  const uint32_t each = ports_ / static_cast<uint32_t>(shape.servers());
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    port_of_.push_back(static_cast<uint32_t>(shape.server_of(rank)) * each +
                       static_cast<uint32_t>(shape.local_of(rank)) % each);
  }
  route_of_.resize(size_t{ports_} * ports_, kNone);
  for (uint32_t from = 0; from < ports_; ++from) {
    for (uint32_t to = 0; to < ports_; ++to) {
      if (from / each == to / each) continue;
      route_of_[from * ports_ + to] = routes.find(hosts[from], hosts[to]);
    }
  }
}

Result<RunTimes> ProgramRun::run() {
  for (Rank rank = 0; rank < shape_.ranks(); ++rank) {
    if (options_.hold == Hold::kRankStep) leave_step(rank, 0);
    if (options_.skew_ns > 0) {
      ranks_[rank].busy = true;
      const double late = random_.unit() * static_cast<double>(options_.skew_ns);
      network_.wake_at(std::llround(late * kPicosecondsPerNanosecond), rank);
    } else {
      wake(rank);
    }
  }
  if (options_.hold == Hold::kBarrier) leave_step(0, 0);
  moment_over();
  IBCOLL_TRY(network_.run(*this));
  IBCOLL_TRY(check_finished());
  times_.end = *std::max_element(times_.rank_end.begin(), times_.rank_end.end());
  return std::move(times_);
}

Status ProgramRun::check_finished() const {
  for (Rank rank = 0; rank < shape_.ranks(); ++rank) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const LaneCursor& at = ranks_[rank].at[lane];
      if (at.all_complete()) continue;
      return fail(ErrorCode::kInvalidProgram, "no progress with {} at {}", to_string(options_.hold),
                  describe(*programs_[rank], static_cast<Lane>(lane), at.place(at.complete())));
    }
  }
  return {};
}

void ProgramRun::wake(Rank rank) {
  if (ranks_[rank].queued) return;
  ranks_[rank].queued = true;
  ready_.push_back(rank);
}

void ProgramRun::wake_server(int server) {
  for (const Rank rank : shape_.members(server)) wake(rank);
}

/// Ranks go on in the order of their numbers, so that the same situation on several servers goes on
/// in the same way.
void ProgramRun::moment_over() {
  std::sort(ready_.begin(), ready_.end());
  while (ready_first_ < ready_.size()) {
    const Rank rank = ready_[ready_first_++];
    ranks_[rank].queued = false;
    advance(rank);
  }
  ready_.clear();
  ready_first_ = 0;
}

/// Starts what the rank can start, lane by lane in turn.
void ProgramRun::advance(Rank rank) {
  RankRun& run = ranks_[rank];
  for (bool moved = true; moved && !run.busy;) {
    moved = false;
    for (int i = 0; i < kLanes && !run.busy; ++i) {
      const int lane = (run.turn + i) % kLanes;
      if (run.copies[lane].item != kNone) {
        start_slice(rank, lane);
        break;
      }
      while (!run.busy && run.copies[lane].item == kNone) {
        const uint32_t item = run.at[lane].pick(
            kSearch, [&](uint32_t candidate) { return may_start(rank, lane, candidate); });
        if (item == kNone) break;
        begin(rank, lane, item);
        moved = true;
      }
    }
  }
}

void ProgramRun::begin(Rank rank, int lane, uint32_t item) {
  RankRun& run = ranks_[rank];
  run.at[lane].start(item);
  const Op& op = run.at[lane].op(item);
  StepTime& step = times_.steps[op.step];
  step.begin = std::min(step.begin, network_.now());
  take(rank, op);
  if (copies(op) && options_.copy_bytes_per_second > 0) {
    run.copies[lane] = {item, item_bytes(rank, lane, item)};
    return start_slice(rank, lane);
  }
  const Time time = cost(rank, lane, item);
  if (time == 0) return effect(rank, lane, item);
  run.busy = true;
  run.busy_lane = static_cast<uint8_t>(lane);
  run.busy_item = item;
  network_.wake_at(network_.now() + time, rank);
}

/// Goes on with the copy of a lane.
void ProgramRun::start_slice(Rank rank, int lane) {
  RankRun& run = ranks_[rank];
  Copy& copy = run.copies[lane];
  const uint64_t bytes = std::min(copy.left, kCopyBytes);
  copy.left -= bytes;
  run.busy = true;
  run.busy_lane = static_cast<uint8_t>(lane);
  run.busy_item = copy.item;
  const double time = static_cast<double>(bytes) / options_.copy_bytes_per_second * 1e12;
  network_.wake_at(network_.now() + std::llround(time), rank);
}

/// What an operation does once the rank has spent its time on it.
void ProgramRun::effect(Rank rank, int lane, uint32_t item) {
  const LaneCursor& at = ranks_[rank].at[lane];
  const Op& op = at.op(item);
  const int server = shape_.server_of(rank);
  Flight flight{op.kind, false, rank, op.peer, item, 0, -1};
  switch (op.kind) {
    case OpKind::kPut:
      if (shape_.same_server(rank, op.peer)) {
        local_puts(rank, op.peer).items.push_back(item);
        return wake(op.peer);  // complete when it is taken
      }
      flight.route = route(rank, op.peer);
      ++times_.messages;
      return launch(flight, item_bytes(rank, lane, item), false);
    case OpKind::kSignal:
      if (!at.sends_token(item, options_.pieces)) break;
      if (shape_.same_server(rank, op.peer)) {
        ++local_puts(rank, op.peer).tokens;
        wake(op.peer);
      } else {
        flight.route = route(rank, op.peer);
        launch(flight, 0, true);
      }
      break;
    case OpKind::kExpose:
      if (op.to_server) {
        flight.server = op.peer;
        flight.to = gateway(shape_, rank, op.peer);
      }
      flight.route = route(rank, flight.to);
      launch(flight, options_.control_bytes, true);
      break;
    case OpKind::kExpect:
      if (shape_.same_server(rank, op.peer)) {
        LocalPuts& puts = local_puts(op.peer, rank);
        complete(op.peer, static_cast<int>(Lane::kLocal), puts.items[puts.first++]);
        wake(op.peer);
      }
      break;
    case OpKind::kGateSignal:
      ++ranks_[rank].gates;
      wake_server(server);
      break;
    default:
      break;
  }
  complete(rank, lane, item);
}

void ProgramRun::launch(const Flight& flight, uint64_t bytes, bool control) {
  uint32_t tag;
  if (free_flights_.empty()) {
    tag = static_cast<uint32_t>(flights_.size());
    flights_.push_back(flight);
  } else {
    tag = free_flights_.back();
    free_flights_.pop_back();
    flights_[tag] = flight;
  }
  network_.send({flight.route, static_cast<uint32_t>(flight.from), bytes, control}, tag);
}

void ProgramRun::delivered(uint32_t tag) {
  const Flight flight = flights_[tag];
  const int server = shape_.server_of(flight.to);
  switch (flight.kind) {
    case OpKind::kPut:
      ++arrived_[pair(flight.to, flight.from)];
      wake(flight.to);
      // The acknowledgement.
      network_.wake_at(network_.now() + routes_.latency(flight.route), tag + shape_.ranks());
      return;
    case OpKind::kSignal:
      if (tokens_.empty()) tokens_.resize(arrived_.size());
      ++tokens_[pair(flight.to, flight.from)];
      wake(flight.to);
      break;
    default:  // an exposure
      if (flight.server < 0) {
        ++exposures_[pair(flight.to, flight.from)];
        wake(flight.to);
      } else {
        ++ranks_[flight.to].routed;
        for (const Rank peer : shape_.members(server)) ++exposures_[pair(peer, flight.from)];
        wake_server(server);
      }
  }
  free_flights_.push_back(tag);
}

void ProgramRun::woken(uint32_t tag) {
  if (tag >= static_cast<uint32_t>(shape_.ranks())) {
    const Flight flight = flights_[tag - shape_.ranks()];
    free_flights_.push_back(tag - shape_.ranks());
    complete(flight.from, static_cast<int>(Lane::kSend), flight.item);
    return wake(flight.from);
  }
  const auto rank = static_cast<Rank>(tag);
  RankRun& run = ranks_[rank];
  run.busy = false;
  const uint32_t item = run.busy_item;
  run.busy_item = kNone;
  if (item != kNone) {
    Copy& copy = run.copies[run.busy_lane];
    run.turn = static_cast<uint8_t>((run.busy_lane + 1) % kLanes);
    if (copy.item != item || copy.left == 0) {
      if (copy.item == item) copy.item = kNone;
      effect(rank, run.busy_lane, item);
    }
  }
  wake(rank);
}

void ProgramRun::complete(Rank rank, int lane, uint32_t item) {
  RankRun& run = ranks_[rank];
  run.at[lane].finish(item);
  const uint32_t step = run.at[lane].op(item).step;
  times_.steps[step].end = network_.now();
  if (--run.left == 0) times_.rank_end[rank] = network_.now();
  if (++done_ % kProgressEvery == 0 && options_.progress) options_.progress(done_, items_);
  --left_in_step_[step];
  if (options_.hold == Hold::kBarrier) {
    if (step == step_ && left_in_step_[step] == 0) leave_step(rank, step);
  } else if (options_.hold == Hold::kRankStep) {
    if (--rank_left_in_step_[rank][step] == 0 && step == run.step) leave_step(rank, step);
  }
}

/// Goes on from a step that may be complete to the next that is not.
void ProgramRun::leave_step(Rank rank, uint32_t step) {
  const auto last = static_cast<uint32_t>(left_in_step_.size() - 1);
  if (options_.hold == Hold::kBarrier) {
    while (step < last && left_in_step_[step] == 0) ++step;
    step_ = step;
    for (Rank other = 0; other < shape_.ranks(); ++other) wake(other);
  } else {
    while (step < last && rank_left_in_step_[rank][step] == 0) ++step;
    ranks_[rank].step = step;
    wake(rank);
  }
}

}  // namespace ibcoll::sim
