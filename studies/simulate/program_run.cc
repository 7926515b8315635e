#include "studies/simulate/program_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

Status add_routes(const Shape& shape, const RankProgram& program,
                  std::span<const uint32_t> host_of_rank, Routes& routes) {
  for (const OpList& lane : program.lanes) {
    for (const Op& op : lane) {
      if (op.kind != OpKind::kPut && op.kind != OpKind::kSignal && op.kind != OpKind::kExpose)
        continue;
      const Rank to = op.to_server ? gateway(shape, program.me, op.peer) : op.peer;
      if (shape.same_server(program.me, to)) continue;
      IBCOLL_TRY(routes.add(host_of_rank[program.me], host_of_rank[to]));
    }
  }
  return {};
}

std::vector<uint32_t> hosts_of_ranks(const Shape& shape, std::span<const uint32_t> hosts) {
  const auto each = static_cast<uint32_t>(hosts.size()) / static_cast<uint32_t>(shape.servers());
  std::vector<uint32_t> host_of;
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    host_of.push_back(hosts[static_cast<uint32_t>(shape.server_of(rank)) * each +
                            static_cast<uint32_t>(shape.local_of(rank)) % each]);
  }
  return host_of;
}

const char* to_string(Hold hold) {
  return hold == Hold::kProgram    ? "the program"
         : hold == Hold::kRankStep ? "a send and receive a step"
                                   : "barriers between steps";
}

ProgramRun::ProgramRun(const Shape& shape, std::vector<PackedProgram> programs,
                       std::span<const uint32_t> hosts, const Routes& routes, Network& network,
                       const RunOptions& options)
    : shape_(shape),
      network_(network),
      routes_(routes),
      options_(options),
      random_(options.seed ^ 0x5deece66d),
      host_of_(hosts_of_ranks(shape, hosts)),
      from_peer_(shape.ranks()),
      local_(static_cast<size_t>(shape.ranks()) * shape.max_server_size()) {
  size_t steps = 1;
  for (const PackedProgram& program : programs) {
    steps = std::max(steps, program.items_of_step.size());
  }
  left_in_step_.resize(steps);
  times_.steps.resize(steps);
  times_.rank_end.resize(programs.size());
  ranks_.reserve(programs.size());
  for (PackedProgram& program : programs) {
    items_ += program.items();
    for (size_t step = 0; step < program.items_of_step.size(); ++step) {
      left_in_step_[step] += program.items_of_step[step];
    }
    if (options.hold == Hold::kRankStep) {
      program.items_of_step.resize(steps);
      rank_left_in_step_.push_back(std::move(program.items_of_step));
    }
    ranks_.emplace_back(std::move(program));
    program = {};
  }
}

Result<RunTimes> ProgramRun::run(const Describe& describe) {
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
  IBCOLL_TRY(limits_);
  IBCOLL_TRY(check_finished(describe));
  times_.end = *std::max_element(times_.rank_end.begin(), times_.rank_end.end());
  return std::move(times_);
}

Status ProgramRun::check_finished(const Describe& describe) const {
  for (Rank rank = 0; rank < shape_.ranks(); ++rank) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const PackedCursor& at = ranks_[rank].at[lane];
      if (at.all_complete()) continue;
      return fail(ErrorCode::kInvalidProgram, "no progress with {} at {}", to_string(options_.hold),
                  describe(rank, static_cast<Lane>(lane), at.complete()));
    }
  }
  return {};
}

/// Now and then: whether it goes on.
void ProgramRun::check_limits() {
  constexpr uint64_t kEvery = 1 << 16;
  constexpr double kFirstSeconds = 5;  // after them the pace is known
  if (++since_check_ % kEvery != 0 || !limits_) return;
  const uint64_t flights = flights_.size();
  if (options_.most_flights > 0 && flights > options_.most_flights) {
    limits_ = fail(ErrorCode::kNoMemory,
                   "given up: {} messages under way and more, some {} bytes each, would take over "
                   "the most memory allowed",
                   flights, kFlightBytes);
    network_.stop();
    return;
  }
  const double spent = watch_.seconds();
  if (options_.most_seconds <= 0 || spent < kFirstSeconds) return;
  const double expected = spent * static_cast<double>(items_) / static_cast<double>(done_ + 1);
  if (expected <= options_.most_seconds) return;
  limits_ = fail(ErrorCode::kDeadline,
                 "given up after {:.0f} s: it would take some {:.0f} s, over the {:.0f} s allowed",
                 spent, expected, options_.most_seconds);
  network_.stop();
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
  while (ready_first_ < ready_.size() && limits_) {
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
            kSearch,
            [&](uint32_t /*item*/, const PackedItem& what) { return may_start(rank, what); });
        if (item == kNone) break;
        begin(rank, lane, {item, run.at[lane].at(item)});
        moved = true;
      }
    }
  }
}

void ProgramRun::begin(Rank rank, int lane, const Started& started) {
  RankRun& run = ranks_[rank];
  run.at[lane].start(started.item);
  StepTime& step = times_.steps[started.what.step()];
  step.begin = std::min(step.begin, network_.now());
  take(rank, started.what);
  if (started.what.copies() && options_.copy_bytes_per_second > 0) {
    run.copies[lane] = {started, started.what.bytes()};
    return start_slice(rank, lane);
  }
  const Time time = cost(rank, started.what);
  if (time == 0) return effect(rank, lane, started);
  run.busy = true;
  run.busy_lane = static_cast<uint8_t>(lane);
  run.doing = started;
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
  run.doing = copy;
  const double time = static_cast<double>(bytes) / options_.copy_bytes_per_second * 1e12;
  network_.wake_at(network_.now() + std::llround(time), rank);
}

/// What an operation does once the rank has spent its time on it.
void ProgramRun::effect(Rank rank, int lane, const Started& started) {
  const auto& [item, what] = started;
  const Rank peer = what.peer();
  const int server = shape_.server_of(rank);
  Flight flight{what.kind(), rank, peer, item, what.step(), 0, -1};
  switch (what.kind()) {
    case OpKind::kPut:
      if (shape_.same_server(rank, peer)) {
        local_puts(rank, peer).puts.push_back({item, what.step()});
        return wake(peer);  // complete when it is taken
      }
      flight.route = route(rank, peer);
      ++times_.messages;
      return launch(flight, what.bytes(), false);
    case OpKind::kSignal:
      if (!what.sends_token()) break;
      if (shape_.same_server(rank, peer)) {
        ++local_puts(rank, peer).tokens;
        wake(peer);
      } else {
        flight.route = route(rank, peer);
        launch(flight, 0, true);
      }
      break;
    case OpKind::kExpose:
      if (what.to_server()) {
        flight.server = peer;
        flight.to = gateway(shape_, rank, peer);
      }
      flight.route = route(rank, flight.to);
      launch(flight, options_.control_bytes, true);
      break;
    case OpKind::kExpect:
      if (shape_.same_server(rank, peer)) {
        LocalPuts& from = local_puts(peer, rank);
        const LocalPut put = from.puts[from.first++];
        complete(peer, static_cast<int>(Lane::kLocal), put.item, put.step);
        wake(peer);
      }
      break;
    case OpKind::kGateSignal:
      ++ranks_[rank].gates;
      wake_server(server);
      break;
    default:
      break;
  }
  complete(rank, lane, item, what.step());
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
  check_limits();
}

void ProgramRun::delivered(uint32_t tag) {
  const Flight flight = flights_[tag];
  const int server = shape_.server_of(flight.to);
  switch (flight.kind) {
    case OpKind::kPut:
      ++from_peer_(flight.to, flight.from).arrived;
      wake(flight.to);
      // The acknowledgement.
      network_.wake_at(network_.now() + routes_.latency(flight.route), tag + shape_.ranks());
      return;
    case OpKind::kSignal:
      ++from_peer_(flight.to, flight.from).tokens;
      wake(flight.to);
      break;
    default:  // an exposure
      if (flight.server < 0) {
        ++from_peer_(flight.to, flight.from).exposures;
        wake(flight.to);
      } else {
        ++ranks_[flight.to].routed;
        for (const Rank peer : shape_.members(server)) ++from_peer_(peer, flight.from).exposures;
        wake_server(server);
      }
  }
  free_flights_.push_back(tag);
}

void ProgramRun::woken(uint32_t tag) {
  if (tag >= static_cast<uint32_t>(shape_.ranks())) {
    const Flight flight = flights_[tag - shape_.ranks()];
    free_flights_.push_back(tag - shape_.ranks());
    complete(flight.from, static_cast<int>(Lane::kSend), flight.item, flight.step);
    return wake(flight.from);
  }
  const auto rank = static_cast<Rank>(tag);
  RankRun& run = ranks_[rank];
  run.busy = false;
  const Started done = std::exchange(run.doing, {});
  if (done.item != kNone) {
    Copy& copy = run.copies[run.busy_lane];
    run.turn = static_cast<uint8_t>((run.busy_lane + 1) % kLanes);
    if (copy.item != done.item || copy.left == 0) {
      if (copy.item == done.item) copy.item = kNone;
      effect(rank, run.busy_lane, done);
    }
  }
  wake(rank);
}

void ProgramRun::complete(Rank rank, int lane, uint32_t item, uint32_t step) {
  RankRun& run = ranks_[rank];
  run.at[lane].finish(item);
  times_.steps[step].end = network_.now();
  if (--run.left == 0) times_.rank_end[rank] = network_.now();
  if (++done_ % kProgressEvery == 0 && options_.progress) options_.progress(done_, items_);
  check_limits();
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
