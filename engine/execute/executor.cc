#include "engine/execute/executor.h"

#include <sched.h>

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/execute/lane_runner.h"

namespace ibcoll {
namespace {

/// How a wait spends its time: spin while an answer may come within microseconds, then let others
/// run, then sleep.
constexpr int kSpins = 2000;
constexpr int kYieldsBetweenClocks = 32;
constexpr int64_t kYieldNs = 2'000'000;
constexpr int64_t kSleepNs = 50'000'000;
/// Where the network can't wake a sleeper.
constexpr int64_t kNapNs = 200'000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  sched_yield();
#endif
}

}  // namespace

Executor::Executor(Bootstrap& bootstrap, LocalTransport& local, NetworkTransport* network,
                   Bell& bell, std::function<std::optional<Rank>()> find_dead,
                   const ExecutorOptions& options)
    : bootstrap_(bootstrap),
      local_(local),
      network_(network),
      bell_(bell),
      find_dead_(std::move(find_dead)),
      options_(options),
      board_(options.board) {}

Executor::~Executor() = default;

void Executor::record_into(CallRecord* record) {
  record_ = record;
  for (const std::unique_ptr<Run>& run : runs_) run->record = nullptr;
}

/// A call of several phases is recorded in its last one.
void Executor::begin_record(Run& run) {
  record_into(record_);
  run.record = record_;
  *record_ = {run.program, run.binding.block_bytes, run.binding.pieces, {now_ns(), 0, {}, {}}};
}

Run* Executor::take_run() {
  if (!idle_.empty()) {
    Run* run = idle_.back();
    idle_.pop_back();
    return run;
  }
  runs_.push_back(std::make_unique<Run>());
  active_.reserve(runs_.size());
  idle_.reserve(runs_.size());
  return runs_.back().get();
}

Status Executor::post(GroupState& group, const RankProgram& program, const Binding& binding,
                      Completion& completion, uint32_t sequence) {
  if (failed_) [[unlikely]]
    return tl::unexpected<Error>(*failed_);
  Run* run = take_run();
  run->program = &program;
  run->completion = &completion;
  run->group = &group;
  run->binding = binding;
  const uint32_t meant = static_cast<uint32_t>(program.hash) ^ binding.meaning;
  run->key = {group.key, sequence, meant, false};
  run->active = true;
  run->tested.left = run->tested.interval = Tested::kFirst;
  run->tested.read_ns = 0;
  completion.run = run;
  completion.done = false;
  static constexpr CallMeaning kNothingTold;
  board_.write(group.key, sequence, meant, binding.told != nullptr ? *binding.told : kNothingTold);
  if (!inquiries_.empty() || local_.has_strays()) [[unlikely]] {
    answer_inquiries(*run);
    look_at_strays(local_.take_strays());
    if (failed_) return tl::unexpected<Error>(*failed_);
  }
  if (!group.calls.may_start(sequence)) [[unlikely]] {
    queue(*run);
    return {};
  }
  start_or_give_up(*run);
  if (failed_) [[unlikely]]
    return tl::unexpected<Error>(*failed_);
  if (!run->queued && advance(*run)) local_.poll();
  return {};
}

/// Keeps a call that may not start yet. The second phase of one that began earlier goes before
/// others.
void Executor::queue(Run& run) {
  run.queued = true;
  std::deque<Run*>& waiting = run.group->waiting;
  auto place = waiting.end();
  while (place != waiting.begin() &&
         static_cast<int32_t>((*std::prev(place))->key.sequence - run.key.sequence) > 0) {
    --place;
  }
  waiting.insert(place, &run);
}

/// Starts the calls that were kept and may start now.
void Executor::start_waiting(GroupState& group) {
  while (!failed_ && !group.waiting.empty() &&
         group.calls.may_start(group.waiting.front()->key.sequence)) {
    Run& run = *group.waiting.front();
    group.waiting.pop_front();
    start_or_give_up(run);
  }
}

void Executor::start_or_give_up(Run& run) {
  run.queued = !take_cells(run);
  if (run.queued) [[unlikely]] {
    without_cells_.push_back(&run);
  } else if (Status started = start(run); !started) [[unlikely]] {
    give_up(started.error());
  }
}

/// False: so many calls are under way that none are left.
bool Executor::take_cells(Run& run) {
  const RankProgram& program = *run.program;
  run.outward = !program.lanes[0].empty() || !program.lanes[1].empty();
  if (!run.outward) return true;
  run.cells = cells_.take(static_cast<uint32_t>(run.group->shape.ranks()), &run);
  return run.cells.has_value();
}

Status Executor::start(Run& run) {
  const RankProgram& program = *run.program;
  for (int i = 0; i < kLanes; ++i) {
    LaneState& lane = run.lanes[i];
    lane.ops = program.lanes[i].data();
    lane.size = static_cast<uint32_t>(program.lanes[i].size());
    lane.next = lane.stream_position = lane.piece = 0;
    lane.in_run = false;
    lane.progress = 0;
    lane.pending.clear();
    run.next_stream(lane, 0);
  }
  run.complete.fill(0);
  run.asked = false;
  run.absence_ns = 0;
  run.gates = 0;
  if (record_ != nullptr) [[unlikely]]
    begin_record(run);
  const Shape& shape = run.group->shape;
  const auto all = static_cast<uint64_t>(shape.ranks());
  run.streaming = false;
  if (options_.streaming_bytes != 0 &&
      2 * all * all * run.binding.block_bytes > options_.streaming_bytes) {
    // Everybody's send and receive buffers, as far as this server's ranks touch them.
    const uint64_t slots = program.send_slots(shape) + uint64_t{program.recv_slots(shape)};
    const auto ranks = static_cast<uint64_t>(shape.server_size(shape.server_of(run.group->me)));
    run.streaming = slots * run.binding.block_bytes * ranks > options_.streaming_bytes;
  }
  active_.push_back(&run);
  if (run.outward) {
    run.peers.clear();
    run.landings.clear();
    run.mailed.clear();
    run.mailed_data.clear();
    run.forwarding.clear();
    run.forwarded = 0;
    if (run.binding.unequal) index_expects(run);
    if (Status registered = register_buffers(run); !registered) {
      active_.pop_back();
      return registered;
    }
  }
  if (!early_mails_.empty()) [[unlikely]]
    accept_early_mails(run);
  return {};
}

/// Moves one call on; true if something moved. The run may have finished, and left active_,
/// afterwards.
bool Executor::advance(Run& run) {
  LaneRunner runner(*this, run);
  bool moved = false;
  if (run.outward) {
    // Posting to the network comes first: it works on while this core copies.
    moved |= runner.advance(run.lanes[static_cast<int>(Lane::kSend)]);
    moved |= runner.advance(run.lanes[static_cast<int>(Lane::kRecv)]);
    moved |= pass_on(run);
    if (network_ != nullptr) network_->flush();
  }
  moved |= runner.advance(run.lanes[static_cast<int>(Lane::kLocal)]);
  for (const LaneState& lane : run.lanes) {
    if (!lane.finished()) return moved;
  }
  if (!run.forwarding.empty()) return moved;
  finish(run);
  return true;
}

void Executor::finish(Run& run) {
  if (run.outward) {
    deregister_buffers(run);
    cells_.give_back(*run.cells);
    run.cells.reset();
  }
  if (run.record != nullptr) [[unlikely]] {
    run.record->rank.end_ns = now_ns();
    run.record = nullptr;
  }
  run.active = false;
  active_.erase(std::find(active_.begin(), active_.end(), &run));
  idle_.push_back(&run);
  GroupState& group = *run.group;
  if (group.calls.end(run.key.sequence)) start_waiting(group);
  if (!without_cells_.empty() && run.outward) [[unlikely]] {
    Run& next = *without_cells_.front();
    without_cells_.pop_front();
    start_or_give_up(next);
  }
  Completion& completion = *run.completion;
  completion.run = nullptr;
  if (completion.then != nullptr) {
    completion.then(completion.owner);
  } else {
    completion.done = true;
  }
}

bool Executor::progress() {
  if (failed_) [[unlikely]]
    return false;
  bool moved = network_ != nullptr && poll_network();
  // From the newest down: finishing a run takes it off the list.
  for (size_t i = active_.size(); i-- > 0;) {
    if (i < active_.size()) {
      Run& run = *active_[i];
      const bool run_moved = advance(run);
      run.moves += static_cast<uint32_t>(run_moved);
      moved |= run_moved;
    }
    if (failed_) [[unlikely]]
      return false;
  }
  moved |= local_.poll();
  if (local_.has_strays()) [[unlikely]]
    look_at_strays(local_.take_strays());
  moves_ += static_cast<uint32_t>(moved);
  return moved;
}

Result<bool> Executor::test(Completion& completion) {
  if (!completion.done) progress();
  if (!completion.done && completion.run != nullptr && --completion.run->tested.left <= 0)
    check_tested(*completion.run);
  if (failed_) [[unlikely]]
    return tl::unexpected<Error>(*failed_);
  return completion.done;
}

Status Executor::wait(Completion& completion) {
  int idle_rounds = 0;
  int64_t idle_since = 0, next_report = 0;
  const int spins = options_.oversubscribed ? 0 : kSpins;
  while (!completion.done) {
    if (progress()) {
      idle_rounds = 0;
      continue;
    }
    if (failed_) [[unlikely]]
      return tl::unexpected<Error>(*failed_);
    if (completion.done) break;
    if (++idle_rounds <= spins) {
      relax();
      continue;
    }
    if (idle_rounds == spins + 1) {
      idle_since = 0;
      next_report = options_.late_ns;
    }
    if ((idle_rounds - spins) % kYieldsBetweenClocks != 0) {
      sched_yield();
      continue;
    }
    const int64_t now = now_ns();
    if (idle_since == 0) idle_since = now;
    const int64_t waited = now - idle_since;
    if (waited < kYieldNs) {
      sched_yield();
      continue;
    }
    waiting_ = &completion;
    check_health(completion.run, waited, next_report);
    if (failed_) continue;
    idle_rounds -= 1;  // look at the clock again after this sleep
    const uint32_t announced = announce_sleep(bell_);
    const bool woken = network_ == nullptr || network_->wake_on_arrival(bell_);
    if (!progress() && !completion.done) {
      const int64_t left =
          options_.deadline_ns > 0 ? std::max<int64_t>(options_.deadline_ns - waited, 1) : kSleepNs;
      sleep_on(bell_, announced, std::min(woken ? kSleepNs : kNapNs, left));
    }
    end_sleep(bell_);
  }
  waiting_ = nullptr;
  if (failed_) [[unlikely]]
    return tl::unexpected<Error>(*failed_);
  return {};
}

}  // namespace ibcoll
