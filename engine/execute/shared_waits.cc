#include "engine/execute/shared_waits.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/quiet_thread.h"
#include "engine/execute/executor.h"
#include "engine/execute/poll_for.h"

namespace ibcoll {

namespace {

/// A thread that waits so long may be the last one of the process that could call.
constexpr int64_t kStuckNs = 100'000'000;
/// A program that has made no call for so long may make none for long.
constexpr std::chrono::milliseconds kAway{10};

}  // namespace

/// What a keeper does between its rounds.
class SharedWaits::Keeping {
 public:
  Keeping(SharedWaits& shared, Waiting& own) : shared_(shared), own_(own) {}

  bool over() const {
    if (own_.completion == nullptr && !shared_.helper_runs_) return true;
    return shared_.keeper_ != &own_ || shared_.over(own_);
  }
  void after_round(bool moved) {
    if (moved || shared_.limited_ != 0 || shared_.services_.end.has_come()) shared_.wake_finished();
    if (shared_.turns_.wanted()) shared_.turns_.let_others_in();
    // What others do may move all the time: nobody would sleep, and look.
    constexpr uint32_t kRounds = 1024;
    if (++shared_.rounds_ < kRounds) return;
    shared_.rounds_ = 0;
    if (!over()) look_after(0);
  }
  void yield() {
    shared_.turns_.give();
    sched_yield();
    shared_.turns_.take();
  }
  /// The host's calls are for the program's threads.
  bool serves_host() const { return own_.completion != nullptr; }
  void serve_host() {
    // The thread may end in there, and leaves with the turn.
    class WithoutTurn {
     public:
      explicit WithoutTurn(Turns& turns) : turns_(turns) { turns_.give(); }
      ~WithoutTurn() { turns_.take(); }
      WithoutTurn(const WithoutTurn&) = delete;
      WithoutTurn& operator=(const WithoutTurn&) = delete;

     private:
      Turns& turns_;
    };
    const WithoutTurn without_turn(shared_.turns_);
    shared_.services_.serve_host();
  }
  void look_after(int64_t waited_ns) {
    if (shared_.one_calls_ || (waited_ns >= kStuckNs && shared_.nobody_else_calls(own_)))
      shared_.services_.under_way.waiting = own_.completion;
    std::vector<PostedCall*>& calls = shared_.looked_after_;
    calls.clear();
    if (own_.completion == nullptr) {
      calls = shared_.services_.under_way.started;
    } else {
      for (const Waiting* waiting : shared_.waiting_) {
        if (PostedCall* call = waiting->completion->call) calls.push_back(call);
      }
    }
    shared_.services_.rounds.look_after(calls);
  }
  /// What others have moved is not known here: a deadline may pass while it sleeps.
  int64_t longest_sleep_ns() const {
    if (shared_.limited_ == 0) return Idling::kSleepNs;
    const int64_t now = now_ns();
    int64_t longest = Idling::kSleepNs;
    for (const Waiting* waiting : shared_.waiting_) {
      if (waiting->until_ns != 0)
        longest = std::min(longest, std::max<int64_t>(waiting->until_ns - now, 1));
    }
    return longest;
  }
  bool sleep(uint32_t announced, int64_t limit_ns) {
    shared_.wake_finished();
    shared_.moves_ = shared_.services_.under_way.moves;
    shared_.calls_ = shared_.services_.under_way.started.size();
    own_.where = Waiting::Where::kOnBell;
    shared_.turns_.give();
    sleep_on(shared_.services_.bell, announced, limit_ns);
    shared_.turns_.take();
    own_.where = Waiting::Where::kAwake;
    return shared_.keeper_ == &own_;
  }

 private:
  SharedWaits& shared_;
  Waiting& own_;
};

SharedWaits::SharedWaits(const Executor& executor) : services_(executor.wait_services()) {
  constexpr size_t kThreads = 64;  // more of them take memory when they wait
  waiting_.reserve(kThreads);
}

SharedWaits::~SharedWaits() { stop_progress_thread(); }

bool SharedWaits::over(const Waiting& waiting) const {
  if (services_.end.has_come()) return true;
  if (waiting.completion != nullptr) {
    return waiting.completion->done || (waiting.until_ns != 0 && now_ns() >= waiting.until_ns);
  }
  return !helper_is_needed() && !services_.rounds.help_peers();
}

/// Whether there is something for the progress thread to do at once.
bool SharedWaits::helper_is_needed() const {
  return !for_peers_ && (services_.rounds.are_needed() || services_.rounds.listen());
}

bool SharedWaits::somebody_waits() const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [this](const Waiting* waiting) { return !over(*waiting); });
}

/// Whether all threads of the process but this one, which waits, are the library's own. Until its
/// wait ends nobody makes another call then, nor starts a thread that might.
bool SharedWaits::nobody_else_calls(const Waiting& waiting) const {
  return waiting.completion != nullptr && waiting.until_ns == 0 && waiting_.size() == 1 &&
         threads_of_others() == 1;
}

void SharedWaits::rest(Waiting& waiting) {
  wake_finished();
  waiting.where = Waiting::Where::kAtRest;
  turns_.rest(waiting.place);
}

void SharedWaits::wake(Waiting& waiting) {
  if (waiting.where == Waiting::Where::kAtRest) {
    waiting.where = Waiting::Where::kAwake;
    turns_.recall(waiting.place);
  } else if (waiting.where == Waiting::Where::kOnBell) {
    waiting.where = Waiting::Where::kRung;
    ring_slow(services_.bell);
  }
}

void SharedWaits::wake_finished() {
  for (Waiting* waiting : waiting_) {
    if (over(*waiting)) wake(*waiting);
  }
}

/// What a sleeping keeper has not seen may be for it to go on with: a copy in pieces, say, which
/// nobody will ring for.
void SharedWaits::kick_keeper() {
  if (keeper_ == nullptr || keeper_->where != Waiting::Where::kOnBell) return;
  if (services_.under_way.moves != moves_ || services_.under_way.started.size() > calls_)
    wake(*keeper_);
}

/// Where nobody is the keeper, has one look for it that should be: unless the first of them comes
/// too late.
void SharedWaits::see_to_keeper() {
  if (keeper_ != nullptr) return;
  for (Waiting* waiting : waiting_) {
    if (!over(*waiting)) return wake(*waiting);
  }
  if (helper_runs_ && helper_is_needed() && !services_.end.has_come()) wake(helper_);
}

void SharedWaits::leave() {
  wake_finished();
  kick_keeper();
  see_to_keeper();
  turns_.give();
}

/// Makes a thread of the program that waits the keeper if there is none, or one that sleeps, or the
/// progress thread.
bool SharedWaits::take_over(Waiting& waiting) {
  if (keeper_ != nullptr && keeper_ != &waiting) {
    const bool awake = keeper_->where == Waiting::Where::kAwake;
    if (awake && keeper_ != &helper_) return false;
    if (!awake) end_sleep(services_.bell);  // what that one has announced
    // It is to see when the program is away again, for which nobody rings.
    if (keeper_ == &helper_ && services_.rounds.help_peers()) wake(helper_);
  }
  keeper_ = &waiting;
  return true;
}

/// Is the keeper until the wait is over, or another one has taken over.
void SharedWaits::keep(Waiting& waiting, Idling& idling) {
  Keeping keeping(*this, waiting);
  poll_for(services_, keeping, idling);
}

void SharedWaits::stop_waiting(Waiting& waiting) {
  limited_ -= static_cast<size_t>(waiting.until_ns != 0);
  std::erase(waiting_, &waiting);
  services_.under_way.waiting = nullptr;
  if (keeper_ == &waiting) keeper_ = nullptr;
}

Status SharedWaits::wait(const Completion& completion, int64_t until_ns) {
  class Registered {
   public:
    Registered(SharedWaits& shared, Waiting& own) : shared_(shared), own_(own) {
      shared_.waiting_.push_back(&own_);
      shared_.limited_ += static_cast<size_t>(own_.until_ns != 0);
    }
    ~Registered() { shared_.stop_waiting(own_); }  // leave() sees to the next keeper
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;

   private:
    SharedWaits& shared_;
    Waiting& own_;
  };
  if (completion.done) return services_.end.status();
  Waiting own;
  own.completion = &completion;
  own.until_ns = until_ns;
  const Registered registered(*this, own);
  Idling idling(services_.manner);
  while (!over(own)) {
    if (take_over(own)) {
      keep(own, idling);
    } else {
      rest(own);
    }
  }
  return services_.end.status();
}

void SharedWaits::set_one_calls(bool one) {
  turns_.take();  // the progress thread may run
  one_calls_ = one;
  turns_.give();
}

Status SharedWaits::start_progress_thread(bool for_peers) {
  if (thread_.joinable()) {
    turns_.take();
    for_peers_ = for_peers;
    leave();
    return {};
  }
  for_peers_ = for_peers;
  helper_runs_ = true;
  try {
    thread_ = quiet_thread([this] { run_progress_thread(); });
  } catch (const std::system_error& error) {
    helper_runs_ = false;
    return fail(ErrorCode::kSystem, "no thread to make progress: {}", error.what());
  }
  return {};
}

void SharedWaits::stop_progress_thread() {
  if (!thread_.joinable()) return;
  turns_.take();
  helper_runs_ = false;
  wake(helper_);
  turns_.give();
  thread_.join();
}

/// Whether no call has been made since this was asked last.
bool SharedWaits::program_is_away() { return std::exchange(entries_seen_, entries_) == entries_; }

/// Where peers may need help, nobody else sees when the program has gone away.
void SharedWaits::rest_helper() {
  if (!services_.rounds.help_peers()) return rest(helper_);
  wake_finished();
  helper_.where = Waiting::Where::kAtRest;
  turns_.nap(helper_.place, kAway);
  helper_.where = Waiting::Where::kAwake;
}

void SharedWaits::run_progress_thread() {
  turns_.take();
  entries_seen_ = entries_;
  while (helper_runs_) {
    if (keeper_ != nullptr || over(helper_) || somebody_waits() ||
        (!program_is_away() && !helper_is_needed())) {
      rest_helper();
      continue;
    }
    keeper_ = &helper_;
    try {
      Idling idling(Idling::Manner::kSleep);
      keep(helper_, idling);
    } catch (const std::bad_alloc&) {
      services_.end.give_up({ErrorCode::kNoMemory, "out of memory"});
    } catch (const std::exception& thrown) {  // the process is the host's
      services_.end.give_up({ErrorCode::kInternal, thrown.what()});
    } catch (...) {
      leave();
      throw;  // the thread ends, and the job has: nobody needs a keeper any more
    }
    if (keeper_ == &helper_) keeper_ = nullptr;
  }
  leave();
}

}  // namespace ibcoll
