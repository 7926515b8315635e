#include "engine/execute/executor.h"

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/base/test_hooks.h"
#include "engine/base/thread_end.h"
#include "engine/execute/arrival_descriptor.h"
#include "engine/execute/lane_runner.h"
#include "engine/execute/poll_for.h"
#include "engine/execute/shared_waits.h"

namespace ibcoll {
Executor::Executor(Bootstrap& bootstrap, LocalTransport& local, NetworkTransport* network,
                   Bell& bell, std::function<std::optional<Rank>()> find_dead,
                   const ExecutorOptions& options)
    : bootstrap_(bootstrap),
      local_(local),
      network_(network),
      bell_(bell),
      oversubscribed_(options.oversubscribed),
      streaming_bytes_(options.streaming_bytes),
      has_died_(options.has_died),
      groups_(options.groups),
      end_(
          bootstrap, local, under_way_,
          [this](const Failure& failure) { return survives(failure); }, [this] { withdraw(); }),
      ends_(bootstrap, local, network, end_),
      disagreements_(bootstrap, local, network, under_way_, ends_, end_, options.board,
                     options.groups),
      mailroom_(local, network, under_way_, disagreements_, ends_, end_, options.cells),
      health_(bootstrap, local, under_way_, disagreements_, ends_, end_,
              {options.late_ns, options.deadline_ns, std::move(find_dead)}),
      services_{local, network, mailroom_, disagreements_, ends_, end_} {}

Executor::~Executor() = default;

void Executor::record_into(CallRecord* record) {
  record_ = record;
  for (const std::unique_ptr<PostedCall>& call : calls_) call->record = nullptr;
}

/// A call of several phases is recorded in its last one, what checks it left out.
void Executor::begin_record(PostedCall& call) {
  const CallMeaning* const told = call.binding.told;
  if (told != nullptr && told->purpose == CallPurpose::kCheck) return;
  record_into(record_);
  call.record = record_;
  *record_ = {call.program, call.binding.block_bytes, call.binding.pieces, {now_ns(), 0, {}, {}}};
}

PostedCall* Executor::take_call() {
  if (!idle_.empty()) {
    PostedCall* call = idle_.back();
    idle_.pop_back();
    return call;
  }
  calls_.push_back(std::make_unique<PostedCall>());
  under_way_.started.reserve(calls_.size());
  idle_.reserve(calls_.size());
  return calls_.back().get();
}

/// Of so many calls that ranks may end before others begin them one asks them: what nobody has
/// asked for takes their memory until they come.
IBCOLL_LIMIT(uint32_t, kUnasked, 16);

Status Executor::post(GroupState& group, const RankProgram& program, const Binding& binding,
                      Completion& completion, uint32_t sequence) {
  if (end_.has_come()) [[unlikely]]
    return status();
  if (group.over) [[unlikely]]
    return tl::unexpected<Error>(*group.over);
  PostedCall* call = take_call();
  call->program = &program;
  call->completion = &completion;
  call->group = &group;
  call->binding = binding;
  if (binding.one_way) {
    group.one_way = true;
    if ((group.asking + sequence) % kUnasked == kUnasked - 1) call->binding.eager = false;
  }
  const uint32_t meant = static_cast<uint32_t>(program.hash) ^ binding.meaning;
  call->key = {group.key, sequence, meant, false, program.sends_locally_only};
  call->watch.begin();
  completion.call = call;
  completion.done = false;
  if (binding.deadline_ns != 0) [[unlikely]]
    timed_.push_back(call);
  disagreements_.note(*call);
  if (end_.has_come()) [[unlikely]]
    return status();
  if (!group.calls.may_start(sequence)) [[unlikely]] {
    queue(*call);
    return {};
  }
  start_or_give_up(*call);
  if (end_.has_come()) [[unlikely]]
    return status();
  try {
    if (!call->queued && advance(*call)) {
      unseen_ = true;
      local_.poll();
    }
  } catch (...) {
    if (thread_ends()) give_up_for_thread();
    throw;
  }
  return {};
}

void Executor::give_up_for_thread() {
  under_way_.waiting = nullptr;
  end_.give_up(
      {ErrorCode::kPeerFailed,
       "a thread has ended inside a call, by pthread_exit in a function of the program's"});
}

/// Keeps a call that may not start yet. The second phase of one that began earlier goes before
/// others.
void Executor::queue(PostedCall& call) {
  call.queued = true;
  std::deque<PostedCall*>& waiting = call.group->waiting;
  auto place = waiting.end();
  while (place != waiting.begin() &&
         static_cast<int32_t>((*std::prev(place))->key.sequence - call.key.sequence) > 0) {
    --place;
  }
  waiting.insert(place, &call);
}

/// Starts the calls that were kept and may start now.
void Executor::start_waiting(GroupState& group) {
  while (!end_.has_come() && !group.waiting.empty() &&
         group.calls.may_start(group.waiting.front()->key.sequence)) {
    PostedCall& call = *group.waiting.front();
    group.waiting.pop_front();
    start_or_give_up(call);
  }
}

/// Starts a call that waits for a cell: one has been given back.
void Executor::start_without_cell() {
  PostedCall& next = *without_cells_.front();
  without_cells_.pop_front();
  start_or_give_up(next);
}

void Executor::start_or_give_up(PostedCall& call) {
  call.set_ways(streaming_bytes_);
  call.queued = call.outward && !mailroom_.admit(call);
  if (call.queued) [[unlikely]] {
    without_cells_.push_back(&call);
  } else if (Status started = start(call); !started) [[unlikely]] {
    end_.give_up(started.error());
  }
}

Status Executor::start(PostedCall& call) {
  const RankProgram& program = *call.program;
  for (int i = 0; i < kLanes; ++i) {
    LaneState& lane = call.lanes[i];
    lane.ops = program.lanes[i].data();
    lane.size = static_cast<uint32_t>(program.lanes[i].size());
    lane.next = lane.stream_position = lane.piece = lane.open_strands = 0;
    lane.in_run = false;
    lane.progress = 0;
    lane.pending.clear();
    call.next_stream(lane, 0);
  }
  for (const Stream& stream : program.streams) {
    if (!stream.in_strands()) continue;
    LaneState& lane = call.lanes[static_cast<int>(stream.lane)];
    lane.strands.reserve(program.strands[stream.strands].ends.size());
  }
  call.complete.fill(0);
  call.gates = 0;
  call.remote.number = ++numbers_;
  call.remote.left.reset();
  call.remote.held_by.reset();
  // What arrivals make meanwhile is not the call that the program means.
  if (record_ != nullptr && !call.group->by_arrival) [[unlikely]]
    begin_record(call);
  under_way_.started.push_back(&call);
  if (call.outward) {
    if (Status opened = mailroom_.open(call); !opened) {
      under_way_.started.pop_back();
      mailroom_.close(call);
      return opened;
    }
  }
  mailroom_.take_early_mails(call);
  return {};
}

/// Moves one call on; true if something moved. The call may have finished, and be idle, afterwards.
bool Executor::advance(PostedCall& call) {
  LaneRunner runner(services_, call);
  bool moved = false;
  if (call.outward) {
    // Posting to the network comes first: it works on while this core copies. Exposures go before
    // puts: a network in software copies in put(), and peers can put meanwhile.
    LaneState& sends = call.lanes[static_cast<int>(Lane::kSend)];
    LaneState& receives = call.lanes[static_cast<int>(Lane::kRecv)];
    const bool exposes = !call.binding.eager;
    if (network_ != nullptr) network_->post_for(call.remote.number);
    moved |= runner.advance(exposes ? receives : sends);
    moved |= runner.advance(exposes ? sends : receives);
    moved |= mailroom_.pass_on(call);
    if (network_ != nullptr) {
      network_->post_for(0);
      network_->flush();
    }
  }
  moved |= runner.advance(call.lanes[static_cast<int>(Lane::kLocal)]);
  for (const LaneState& lane : call.lanes) {
    if (!lane.finished()) return moved;
  }
  if (!call.remote.forwarding.empty() || !has_left(call)) return moved;
  finish(call);
  return true;
}

/// Whether what the call has posted needs this rank no more. Peers of other calls that are under
/// way may come to them after this one has ended.
bool Executor::has_left(PostedCall& call) {
  if (!call.outward || network_ == nullptr) return true;
  if (!call.remote.left) call.remote.left = network_->mark();
  call.remote.held_by =
      network_->held_by(call.remote.number, *call.remote.left, call.group->to_job);
  return !call.remote.held_by;
}

void Executor::finish(PostedCall& call) {
  if (call.outward) mailroom_.close(call);
  if (call.record != nullptr) [[unlikely]] {
    call.record->rank.end_ns = now_ns();
    for (auto& arrival : call.record->rank.arrivals)
      arrival.from = call.group->rank_of(arrival.from);
    call.record = nullptr;
  }
  std::vector<PostedCall*>& started = under_way_.started;
  if (started.back() == &call) [[likely]] {
    started.pop_back();
  } else {
    started.erase(std::find(started.begin(), started.end(), &call));
  }
  idle_.push_back(&call);
  if (call.binding.deadline_ns != 0) [[unlikely]]
    std::erase(timed_, &call);
  GroupState& group = *call.group;
  if (group.calls.end(call.key.sequence)) start_waiting(group);
  if (!without_cells_.empty() && call.outward) [[unlikely]]
    start_without_cell();
  Completion& completion = *call.completion;
  completion.call = nullptr;
  if (completion.then != nullptr) {
    completion.then(completion.owner);
  } else {
    completion.done = true;
  }
}

/// After so many rounds in a row in which nothing has moved, some milliseconds, peers may wait for
/// room. Waits look at that before they sleep, too.
constexpr uint32_t kIdleRounds = 4096;

bool Executor::progress() {
  try {
    return make_round();
  } catch (...) {
    // Before the calls that it has under way are gone with its stack.
    if (thread_ends()) give_up_for_thread();
    throw;
  }
}

bool Executor::make_round() {
  if (end_.has_come()) [[unlikely]]
    return false;
  bool moved = network_ != nullptr && mailroom_.poll();
  if (!timed_.empty()) [[unlikely]]
    check_deadlines();
  if (ends_.busy()) [[unlikely]]
    moved |= advance_ends();
  if (runs_ != nullptr) [[unlikely]]
    moved = advance_runs(moved);
  // From the newest down: a call that finishes leaves the list.
  const std::vector<PostedCall*>& started = under_way_.started;
  for (size_t i = started.size(); i-- > 0;) {
    if (i < started.size()) {
      PostedCall& call = *started[i];
      const bool call_moved = advance(call);
      call.moves += static_cast<uint32_t>(call_moved);
      moved |= call_moved;
    }
    if (end_.has_come()) [[unlikely]]
      return false;
  }
  moved |= local_.poll();
  idle_rounds_ = moved ? 0 : idle_rounds_ + 1;
  if (idle_rounds_ == kIdleRounds) [[unlikely]] {
    idle_rounds_ = 0;
    moved = local_.relieve();
  }
  disagreements_.look_at_strays();
  moves_ += static_cast<uint32_t>(moved);
  unseen_ |= moved;
  return moved;
}

bool Executor::progress_before_sleep() {
  services_.patient = false;
  const bool moved = progress();
  services_.patient = true;
  return local_.relieve() || moved;
}

Result<bool> Executor::test(Completion& completion) {
  if (!completion.done) progress();
  if (!completion.done && completion.call != nullptr && completion.call->watch.tests.is_due()) {
    if (network_ == nullptr) mailroom_.take_local_mails();
    health_.check_tested(*completion.call, moves_);
  }
  if (end_.has_come()) [[unlikely]]
    return tl::unexpected<Error>(*end_.error());
  if (completion.error != nullptr) [[unlikely]]
    return tl::unexpected<Error>(*completion.error);
  return completion.done;
}

/// The wait of a program's only thread.
class Executor::LoneWait {
 public:
  LoneWait(Executor& executor, const Completion& completion)
      : executor_(executor), completion_(completion) {}

  bool over() const { return completion_.done; }
  void after_round(bool) {}
  void yield() { sched_yield(); }
  bool serves_host() const { return true; }
  void serve_host() { executor_.host_.progress(executor_.host_.host); }
  void look_after(int64_t waited_ns) {
    executor_.under_way_.waiting = &completion_;
    if (waited_ns < waited_ns_) next_report_ns_ = executor_.health_.late_ns();  // something moved
    waited_ns_ = waited_ns;
    executor_.health_.check(completion_.call, waited_ns, next_report_ns_);
  }
  int64_t longest_sleep_ns() const {
    const int64_t deadline = executor_.health_.deadline_ns();
    return deadline > 0 ? std::max<int64_t>(deadline - waited_ns_, 1) : Idling::kSleepNs;
  }
  /// True: the announcement that a thread of this rank sleeps still stands.
  bool sleep(uint32_t announced, int64_t limit_ns) {
    sleep_on(executor_.bell_, announced, limit_ns);
    return true;
  }

 private:
  Executor& executor_;
  const Completion& completion_;
  int64_t waited_ns_ = INT64_MAX, next_report_ns_ = 0;
};

Status Executor::wait(Completion& completion) {
  if (shared_ != nullptr) [[unlikely]] {
    IBCOLL_TRY(shared_->wait(completion));
  } else {
    LoneWait waiter(*this, completion);
    Idling idling(manner());
    poll_for(waiter, idling);
    under_way_.waiting = nullptr;
  }
  if (completion.error != nullptr) [[unlikely]]
    return tl::unexpected<Error>(*completion.error);
  return status();
}

void Executor::look_after(const std::vector<PostedCall*>& calls) {
  if (network_ == nullptr) mailroom_.take_local_mails();
  health_.check_all(calls, moves_);
}

Result<bool> Executor::progress_of_all() {
  constexpr int32_t kMostRounds = 1024;
  constexpr int64_t kSeldomNs = 1'000'000;
  const bool moved = progress();
  if (!moved && --rounds_left_ <= 0) {
    const int64_t now = now_ns();
    const bool often = now - rounds_read_ns_ < kSeldomNs;
    rounds_left_ = rounds_between_ = often ? std::min(2 * rounds_between_, kMostRounds) : 1;
    rounds_read_ns_ = now;
    look_after(under_way_.started);
  }
  if (end_.has_come()) [[unlikely]]
    return tl::unexpected<Error>(*end_.error());
  return moved;
}

Result<bool> Executor::arm(ArrivalDescriptor& descriptor) {
  bool wakes = true;
  const bool armed = descriptor.arm([&](int64_t& limit_ns) {
    if (network_ != nullptr) wakes = network_->wake_on_arrival(bell_);
    if (network_ == nullptr) mailroom_.take_local_mails();
    const bool moved = progress_before_sleep();
    // It is armed rarely enough to look each time.
    if (!moved && !end_.has_come()) look_after(under_way_.started);
    const bool calls = has_calls();
    if (calls || (listens() && !wakes))
      limit_ns = wakes ? Idling::kSleepNs : ArrivalDescriptor::kNapNs;
    return std::exchange(unseen_, false) || end_.has_come();
  });
  if (end_.has_come()) [[unlikely]]
    return tl::unexpected<Error>(*end_.error());
  return armed;
}

}  // namespace ibcoll
