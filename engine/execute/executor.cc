#include "engine/execute/executor.h"

#include <sched.h>
#include <new>

#include <algorithm>
#include <utility>

#include "engine/base/clock.h"
#include "engine/execute/arrival_descriptor.h"
#include "engine/execute/lone_waits.h"
#include "engine/execute/shared_waits.h"

namespace ibcoll {

Executor::Executor(Bootstrap& bootstrap, LocalTransport& local, NetworkTransport* network,
                   Bell& bell, std::function<std::optional<Rank>()> find_dead,
                   const ExecutorOptions& options)
    : bootstrap_(bootstrap),
      network_(network),
      deaths_(options.has_died,
              [this](const Failure& death) {
                if (network_ != nullptr) network_->lose(death.culprit);
                mailroom_.lose(death.culprit);
                ends_.lose(death);
              }),
      end_(bootstrap, local, under_way_, deaths_, [this] { withdraw(); }),
      ends_(bootstrap, local, network, end_, deaths_, options.groups),
      disagreements_(bootstrap, local, network, under_way_, ends_, end_, options.board,
                     options.groups),
      mailroom_(local, network, under_way_, disagreements_, ends_, end_, options.cells),
      health_(bootstrap, local, under_way_, disagreements_, ends_, end_, deaths_,
              {options.late_ns, options.deadline_ns, options.cycle_ns,
               [this, find = std::move(find_dead)] {
                 part_from_departed();
                 return find ? find() : std::nullopt;
               }}),
      calls_({local, network, mailroom_, disagreements_, ends_, end_}, under_way_,
             options.streaming_bytes),
      runs_(network, mailroom_, deaths_),
      rounds_(calls_.services(), under_way_, calls_, runs_, health_),
      waits_{rounds_, under_way_,
             health_, end_,
             bell,    options.oversubscribed ? Idling::Manner::kYield : Idling::Manner::kSpin} {}

Executor::~Executor() = default;

/// The job is over, and the program may use the memory of its calls again. A peer that does not
/// know it yet must not take what stands there then for what was sent.
void Executor::withdraw() {
  calls_.retract_offers();
  ends_.withdraw();
  if (network_ != nullptr) network_->withdraw();
}

/// After a death ranks leave without waiting for others: connections to them are of no use any
/// more, and nobody would close them.
void Executor::part_from_departed() {
  constexpr int64_t kBetweenLooksNs = 20'000'000;
  if (network_ == nullptr || deaths_.known().empty()) return;
  const int64_t now = now_ns();
  if (now - departed_looked_ns_ < kBetweenLooksNs) return;
  departed_looked_ns_ = now;
  for (Rank rank = 0; rank < bootstrap_.size(); ++rank)
    if (rank != bootstrap_.rank() && bootstrap_.has_left(rank)) network_->part(rank);
}

void Executor::enter(GroupState& group) {
  ends_.enter(group);
  // Before any call of it starts: this rank has confirmed that it stopped.
  calls_.stop_due();
}

void Executor::leave(const GroupState& group) {
  // Its members wait to hear from this rank.
  calls_.stop_due();
  if (group.one_way && !group.by_arrival && !end_.has_come()) {
    try {
      disagreements_.look_at_untaken_of(group);
    } catch (const std::bad_alloc&) {  // nobody above could take it: the group is being destroyed
      end_.give_up({ErrorCode::kNoMemory, "out of memory"});
    }
  }
  ends_.leave(group);
}

void Executor::end_group(GroupState& group, const Failure& why) {
  if (end_.has_come()) return;
  ends_.request(group, why);
  if (!group.by_arrival) progress();
}

Status Executor::settle_ends() {
  Completion settled;
  ends_.when_settled(&settled);
  Status waited = wait(settled);
  ends_.when_settled(nullptr);
  return waited;
}

Result<bool> Executor::test(Completion& completion) {
  if (!completion.done) progress();
  if (!completion.done && completion.call != nullptr && completion.call->watch.tests.is_due()) {
    rounds_.take_rare_mails();
    health_.check_tested(*completion.call);
  }
  if (end_.has_come()) [[unlikely]]
    return tl::unexpected<Error>(*end_.error());
  if (completion.error != nullptr) [[unlikely]]
    return tl::unexpected<Error>(*completion.error);
  return completion.done;
}

void Executor::wait_alone(const Completion& completion) {
  if (waits_.manner == Idling::Manner::kSpin) {
    calls_.hurry(completion);
    if (completion.done) return;
  }
  LoneWait waiter(waits_, completion);
  Idling idling(waits_.manner);
  poll_for(waits_, waiter, idling);
  under_way_.waiting = nullptr;
}

Status Executor::wait_on(Completion& completion) {
  if (shared_ != nullptr) [[unlikely]] {
    IBCOLL_TRY(shared_->wait(completion));
  } else if (!completion.done) {
    wait_alone(completion);
  }
  if (completion.error != nullptr) [[unlikely]]
    return tl::unexpected<Error>(*completion.error);
  return end_.status();
}

Status Executor::wait(Completion& completion, int64_t until_ns) {
  if (shared_ != nullptr) [[unlikely]] {
    IBCOLL_TRY(shared_->wait(completion, until_ns));
  } else {
    PatientWait waiter(waits_, completion, until_ns);
    Idling idling(waits_.manner);
    poll_for(waits_, waiter, idling);
  }
  // Where others take the core for long, the time is over before the wait has looked at anything:
  // one that is made of many short ones would never do.
  if (!completion.done && !end_.has_come()) health_.check_job();
  return end_.status();
}

Result<bool> Executor::progress_of_all() {
  const bool moved = progress();
  if (!moved && idle_rounds_.is_due()) {
    idle_rounds_.read(now_ns());
    rounds_.look_after(under_way_.started);
  }
  if (end_.has_come()) [[unlikely]]
    return tl::unexpected<Error>(*end_.error());
  return moved;
}

Result<bool> Executor::arm(ArrivalDescriptor& descriptor) {
  const bool armed = descriptor.arm([&](int64_t& limit_ns) {
    const bool wakes = rounds_.can_be_woken(waits_.bell);
    rounds_.take_rare_mails();
    const bool moved = rounds_.make_before_sleep();
    // It is armed rarely enough to look each time.
    if (!moved && !end_.has_come()) rounds_.look_after(under_way_.started);
    const bool calls = has_calls();
    if (calls || (listens() && !wakes))
      limit_ns = wakes ? Idling::kSleepNs : ArrivalDescriptor::kNapNs;
    return std::exchange(under_way_.unseen, false) || end_.has_come();
  });
  if (end_.has_come()) [[unlikely]]
    return tl::unexpected<Error>(*end_.error());
  return armed;
}

Status Executor::check_nothing_is_left() {
  if (!end_.has_come()) disagreements_.look_at_what_is_left();
  if (network_ == nullptr) return end_.status();
  // Who has sent unasked to a rank that has ended the call without it may have left here already.
  constexpr int kRounds = 16;
  for (int i = 0; i < kRounds && !end_.has_come(); ++i) progress();
  const auto mine = static_cast<uint8_t>(disagreements_.has_dispute());
  std::vector<uint8_t> all(static_cast<size_t>(bootstrap_.size()));
  IBCOLL_TRY(bootstrap_.allgather(&mine, 1, all.data()));
  if (std::count(all.begin(), all.end(), 0) == bootstrap_.size()) return end_.status();
  // Longer than a peer in a dispute has to say what it means; a group that ends ends disputes, too.
  constexpr int64_t kLongestNs = 4'000'000'000;
  for (const int64_t until = now_ns() + kLongestNs; !end_.has_come() && now_ns() < until;) {
    if (!progress()) sched_yield();
    disagreements_.settle();
    if (const auto failure = bootstrap_.failure()) end_.end_with(*failure);
  }
  return end_.status();
}

}  // namespace ibcoll
