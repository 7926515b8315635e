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
      options_(options) {}

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
  runs_.back()->slot = static_cast<uint32_t>(runs_.size() - 1);
  active_.reserve(runs_.size());
  idle_.reserve(runs_.size());
  return runs_.back().get();
}

uint32_t Executor::reserve_sequence(GroupState& group) {
  const uint32_t sequence = next_sequence(group);
  reserved_.emplace_back(&group, sequence);
  return sequence;
}

Status Executor::post(GroupState& group, const RankProgram& program, const Binding& binding,
                      Completion& completion, uint32_t sequence) {
  if (failed_) [[unlikely]]
    return tl::unexpected<Error>(*failed_);
  if (!reserved_.empty())
    std::erase(reserved_, std::pair<const GroupState*, uint32_t>(&group, sequence));
  Run* run = take_run();
  run->program = &program;
  run->completion = &completion;
  run->group = &group;
  run->binding = binding;
  run->key = {group.key, sequence, static_cast<uint32_t>(program.hash) ^ run->binding.meaning,
              false};
  run->active = true;
  completion.run = run;
  completion.done = false;
  if (!can_start(*run)) [[unlikely]] {
    run->queued = true;
    queued_.push_back(run);
    return {};
  }
  if (Status started = start(*run); !started) {
    give_up(started.error());
    return tl::unexpected<Error>(*failed_);
  }
  if (advance(*run)) local_.poll();
  return {};
}

/// Gates have a bank for each of the last calls of a group, so no call may run that far ahead of an
/// unfinished one; and immediates have so many bits for the slot.
bool Executor::can_start(const Run& run) const {
  if (run.slot >= Cell::kSlots) [[unlikely]]
    return false;
  const auto too_far = [&run](const GroupState* group, uint32_t sequence) {
    return group == run.group && static_cast<int32_t>(run.key.sequence - sequence) >=
                                     static_cast<int32_t>(LocalTransport::kGateBanks);
  };
  for (const auto& [group, sequence] : reserved_) {
    if (too_far(group, sequence)) return false;
  }
  return std::none_of(active_.begin(), active_.end(),
                      [&](const Run* other) { return too_far(other->group, other->key.sequence); });
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
  run.outward = !program.lanes[0].empty() || !program.lanes[1].empty();
  active_.push_back(&run);
  if (run.outward) {
    ++run.epoch;
    const size_t ranks = shape.ranks();
    run.arrived.assign(ranks, 0);
    run.arrivals_used.assign(ranks, 0);
    run.tokens.assign(ranks, 0);
    run.tokens_used.assign(ranks, 0);
    run.exposed.assign(ranks, {});
    run.landings.clear();
    if (run.binding.eager) {
      run.mailed.resize(ranks);
      for (Queue<MailedPut>& queue : run.mailed) queue.clear();
      run.mailed_data.clear();
    }
    run.forwarded = 0;
    if (run.binding.unequal) index_expects(run);
    if (Status registered = register_buffers(run); !registered) {
      active_.pop_back();
      return registered;
    }
  }
  if (early_count_ != 0) [[unlikely]]
    accept_early_mails(run);
  return {};
}

void Executor::start_queued() {
  for (size_t i = 0; i < queued_.size();) {
    Run* run = queued_[i];
    if (!can_start(*run)) {
      ++i;
      continue;
    }
    queued_.erase(queued_.begin() + static_cast<ptrdiff_t>(i));
    run->queued = false;
    if (Status started = start(*run); !started) return give_up(started.error());
  }
}

Status Executor::register_buffers(Run& run) {
  const RankProgram& program = *run.program;
  const Shape& shape = run.group->shape;
  const auto extent = [&run](Buffer buffer, uint32_t slots) -> size_t {
    if (!run.binding.unequal) return slots * run.binding.block_bytes;
    size_t end = 0;
    for (uint32_t i = 0; i < slots; ++i) {
      end = std::max<size_t>(end, run.binding[buffer].offsets[i] + run.binding[buffer].bytes[i]);
    }
    return end;
  };
  const auto enter = [&](Buffer buffer, uint32_t slots, MemoryKey& key) -> Status {
    key = {};
    const size_t bytes = extent(buffer, slots);
    if (bytes == 0 || network_ == nullptr || run.binding.eager) return {};
    Result<MemoryKey> registered = network_->register_memory(run.binding[buffer].base, bytes);
    if (!registered) {
      // The others are told this rank's error, so it says where.
      return fail(registered.error().code, "{}, for step 0 of {} ({}), call {}",
                  registered.error().message, to_string(program.collective), program.algorithm,
                  run.key.sequence);
    }
    key = *registered;
    return {};
  };
  IBCOLL_TRY(enter(Buffer::kSend, program.send_slots(shape), run.send_key));
  IBCOLL_TRY(enter(Buffer::kRecv, program.recv_slots(shape), run.recv_key));
  return enter(Buffer::kScratch, static_cast<uint32_t>(program.scratch.size()), run.scratch_key);
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
  if (run.forwarding.count != 0) return moved;
  finish(run);
  return true;
}

void Executor::finish(Run& run) {
  if (run.outward) {
    for (MemoryKey* key : {&run.send_key, &run.recv_key, &run.scratch_key}) {
      if (key->local != 0 || key->remote != 0) network_->deregister_memory(*key);
    }
  }
  if (run.record != nullptr) [[unlikely]] {
    run.record->rank.end_ns = now_ns();
    run.record = nullptr;
  }
  run.active = false;
  ended_[ended_count_++ % ended_.size()] = run.key;
  active_.erase(std::find(active_.begin(), active_.end(), &run));
  idle_.push_back(&run);
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
    if (i < active_.size()) moved |= advance(*active_[i]);
    if (failed_) [[unlikely]]
      return false;
  }
  if (!queued_.empty()) [[unlikely]]
    start_queued();
  moved |= local_.poll();
  return moved;
}

Result<bool> Executor::test(Completion& completion) {
  if (!completion.done) progress();
  // Asking who died costs a system call; a program that polls asks for that often enough.
  if (!completion.done && (++tests_ & 1023) == 0) check_health(completion.run, 0);
  if (failed_) [[unlikely]]
    return tl::unexpected<Error>(*failed_);
  return completion.done;
}

Status Executor::wait(Completion& completion) {
  int idle_rounds = 0;
  int64_t idle_since = 0;
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
      next_report_ns_ = options_.late_ns;
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
    check_health(completion.run, waited);
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
  if (failed_) [[unlikely]]
    return tl::unexpected<Error>(*failed_);
  return {};
}

}  // namespace ibcoll
