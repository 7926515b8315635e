#include "engine/bootstrap/joined_job.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/bootstrap/control.h"
#include "engine/bootstrap/control_agent.h"
#include "engine/bootstrap/descriptors.h"
#include "engine/bootstrap/meeting.h"
#include "engine/bootstrap/peer_watch.h"
#include "engine/bootstrap/process_end.h"

namespace ibcoll {
namespace {

constexpr double kGoodbyeSeconds = 1;
/// Less than rank 0 stays for those whose leader has died.
constexpr int64_t kFreshNs = 1'000'000'000;
constexpr int64_t kBetweenLooksNs = 20'000'000;

class JoinedBootstrap;

/// The jobs of this process, for its end, but for those it was lent to.
class JoinedJobs {
 public:
  static void add(JoinedBootstrap* job);
  static void remove(JoinedBootstrap* job);

 private:
  static void say_goodbye(int status, void* self);
  static JoinedJobs& instance() {
    static auto* const jobs = new JoinedJobs;  // lives as long as the process
    return *jobs;
  }
  JoinedJobs() {
#ifdef __GLIBC__
    on_exit(say_goodbye, this);
#endif
  }

  std::mutex mutex_;
  std::set<JoinedBootstrap*> jobs_;
};

class JoinedBootstrap final : public Bootstrap {
 public:
  static Result<std::unique_ptr<Bootstrap>> create(ProcessManager& manager,
                                                   const JoinOptions& options) {
    Meeting meeting(manager, options);
    IBCOLL_TRY(meeting.hold(manager));
    auto self = begin(manager, options, meeting);
    if (!self) return tl::unexpected<Error>(meeting.give_up(self.error()));
    if (!options.hosted) JoinedJobs::add(self->get());
    return std::unique_ptr<Bootstrap>(std::move(*self));
  }

  static Result<std::unique_ptr<JoinedBootstrap>> begin(ProcessManager& manager,
                                                        const JoinOptions& options,
                                                        Meeting& meeting) {
    auto self = std::make_unique<JoinedBootstrap>();
    UniqueFd wake(meeting.leader() ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1);
    if (meeting.leader() && !wake.valid()) return fail_opening("cannot create an eventfd");
    IBCOLL_ASSIGN(self->block_, meeting.share_block());
    const std::vector<Rank>& here = self->block_->job_ranks();
    const auto place_of = [&](Rank rank) {
      return static_cast<Rank>(std::find(here.begin(), here.end(), rank) - here.begin());
    };
    self->rank_ = manager.rank();
    self->size_ = manager.size();
    self->hosted_ = options.hosted;
    self->leader_ = place_of(meeting.leader_rank());
    self->here_ = place_of(self->rank_);
    self->local_ = self->block_->bootstrap(self->here_);
    self->has_others_ = self->block_->ranks() < self->size_;
    if (self->has_others_) self->block_->set_process(self->here_, this_place(self->rank_).process);
    if (meeting.leader()) {
      (void)self->block_->pass_lead(-1, self->rank_);
      self->block_->set_root_address(meeting.connections().root_address);
      IBCOLL_ASSIGN(self->agent_,
                    ControlAgent::start(self->rank_, *self->block_, meeting.connections(),
                                        {std::move(wake), options.silence_ms,
                                         UniqueFd(fcntl(options.launcher, F_DUPFD_CLOEXEC, 0))}));
      self->leads_.store(true, std::memory_order_release);
    } else {
      self->up_ = meeting.take_up();
      self->led_ = self->up_.open();
      self->root_ = meeting.place();
      self->listener_ = meeting.take_listener();
      self->launcher_ = UniqueFd(fcntl(options.launcher, F_DUPFD_CLOEXEC, 0));
      self->silence_ms_ = options.silence_ms;
      self->leader_pid_ = process_at(self->up_.fd());
      self->leader_process_ = open_process(self->leader_pid_);
      self->leader_program_ = program_of(self->leader_pid_);
      self->block_->set_watch([raw = self.get()] { raw->watch_leader(); });
    }
    return self;
  }

  ~JoinedBootstrap() override {
    if (getpid() == process_) {  // a forked child has nothing to tell
      if (!hosted_) JoinedJobs::remove(this);
      leave();
    }
    agent_.reset();
  }

  /// Whoever waits for this rank learns that it is gone.
  void leave() {
    if (getpid() != process_) return;
    if (block_ && local_) {
      block_->departed(here_);
      // Where nobody speaks for this machine any more, the others learn of it from this rank.
      if (!leads() && block_->ends_noted() > 0) watch_leader();
    }
    const std::lock_guard lock(watching_);
    if (up_.open()) {
      up_.send(FrameKind::kBye, rank_);
      (void)up_.flush_by(deadline_in(kGoodbyeSeconds));
      led_ = false;
      up_.close();
    }
    has_left_ = true;
    leads_.store(false, std::memory_order_release);
    agent_.reset();
  }

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  Status barrier() override {
    IBCOLL_TRY(allgather(nullptr, 0, nullptr));
    if (survives_deaths_) local_->fail_after_deaths();
    return {};
  }
  void abort(const Failure& failure) override {
    if (getpid() != process_) return;
    if (!leads()) watch_leader();
    local_->abort(failure);
  }
  void end_after_death(const Failure& end) override { local_->end_after_death(end); }
  std::optional<Failure> failure() const override {
    // Who waits for others outside a barrier asks for this alone.
    if (!leads() && !block_->failure()) watch_leader_now_and_then();
    return block_->failure();
  }
  void set_survival(bool survives) override {
    survives_deaths_ = survives && has_others_;
    if (survives) return local_->set_survival(true);
    const std::lock_guard lock(watching_);
    listener_ = ControlListener();  // else those who call a leader that has died would wait for it
  }
  std::vector<Rank> ended() const override { return local_->ended(); }
  Result<std::optional<int64_t>> settle(uint64_t question, int64_t proposal) override {
    return local_->settle(question, proposal);
  }
  std::optional<int64_t> verdict(uint64_t question) const override {
    return local_->verdict(question);
  }
  void forget_verdict(uint64_t question) override { local_->forget_verdict(question); }
  void set_leaving(bool leaving) override { local_->set_leaving(leaving); }
  void set_gone() override { local_->set_gone(); }
  bool is_leaving(Rank rank) const override { return local_->is_leaving(rank); }
  bool has_left(Rank rank) const override { return local_->has_left(rank); }
  std::optional<Failure> absence(Rank rank) const override { return local_->absence(rank); }
  std::optional<Failure> end_of(Rank rank) const override { return local_->end_of(rank); }
  uint32_t ends_noted() const override { return local_->ends_noted(); }
  bool is_watched(Rank rank) const override {
    const std::vector<Rank>& here = block_->job_ranks();
    if (survives_deaths_) return true;  // by the leader of its machine, or the next one
    return (leads() || led_.load(std::memory_order_relaxed)) &&
           (here.empty() || std::binary_search(here.begin(), here.end(), rank));
  }
  uint64_t sent_bytes() const override { return leads() ? agent_->sent_bytes() : 0; }

  Status allgather(const void* mine, size_t bytes, void* all) override {
    const auto here = static_cast<size_t>(block_->ranks());
    if (here == static_cast<size_t>(size_)) return local_->allgather(mine, bytes, all);
    std::vector<std::byte> part(here * bytes);
    IBCOLL_TRY(local_->allgather(mine, bytes, part.data()));
    return pass_on(std::nullopt, part, bytes, {static_cast<std::byte*>(all), size_ * bytes});
  }

  Status allgather_of(std::span<const Rank> givers, const void* mine, size_t bytes,
                      void* all) override {
    if (block_->ranks() == size_) return local_->allgather_of(givers, mine, bytes, all);
    const std::vector<Rank> here = givers_here(givers);
    std::vector<std::byte> part(here.size() * bytes);
    IBCOLL_TRY(local_->allgather_of(here, mine, bytes, part.data()));
    return pass_on(givers, part, bytes, {static_cast<std::byte*>(all), givers.size() * bytes});
  }

 private:
  /// Those of them that are on this machine, by their places here.
  std::vector<Rank> givers_here(std::span<const Rank> givers) const {
    const std::vector<Rank>& ranks = block_->job_ranks();
    std::vector<Rank> here;
    for (size_t place = 0; place < ranks.size(); ++place)
      if (std::binary_search(givers.begin(), givers.end(), ranks[place]))
        here.push_back(static_cast<Rank>(place));
    return here;
  }

  /// Has the leader exchange what the givers of this machine have given for what all have.
  Status pass_on(std::optional<std::span<const Rank>> givers, std::span<const std::byte> part,
                 size_t bytes, std::span<std::byte> all) {
    if (leads()) {
      const Status done = agent_->exchange(givers, part, bytes, all);
      // The others wait, those of this machine for what this rank has not got.
      const bool died = block_->survives() && block_->ends_noted() > 0;
      if (!done && !died && !failure()) abort({rank_, done.error().code, done.error().message});
      IBCOLL_TRY(done);
    }
    if (all.empty()) return local_->barrier();  // until the leader is back
    return local_->broadcast(leader_, all.data(), all.size());
  }

  void watch_leader_now_and_then() const {
    if (now_ns() - looked_ns_.load(std::memory_order_relaxed) >= kBetweenLooksNs) watch_leader();
  }

  void watch_leader() const {
    const std::unique_lock lock(watching_, std::try_to_lock);
    if (!lock.owns_lock() || has_left_ || getpid() != process_) return;
    const int64_t before_ns = looked_ns_.exchange(now_ns(), std::memory_order_relaxed);
    if (up_.open()) hear_leader(before_ns);
    if (!has_others_ || leads() || block_->failure()) return;
    const bool led = up_.open() && block_->leader() >= 0;
    if (block_->survives() && !led) return follow_lead();
    if (up_.open()) return;
    // Nobody passes reports of this machine on any more.
    if (const auto proposal = block_->proposal())
      block_->decide(ask_root(*proposal, before_ns), here_);
  }

  /// The leader says goodbye before it leaves; nobody else would notice its death. `before_ns`:
  /// when it was looked at the last time.
  void hear_leader(int64_t before_ns) const {
    if (up_.quiet()) return;
    const Result<std::optional<Frame>> frame = up_.take();
    if (frame && !*frame) return;
    led_.store(false, std::memory_order_relaxed);
    up_.close();
    const bool goes_on_after = has_others_ && block_->survives();
    if (!goes_on_after) listener_ = ControlListener();  // nobody is to be found there any more
    if (frame && (*frame)->kind == FrameKind::kBye) return;
    if (frame && (*frame)->kind == FrameKind::kFailure)
      return block_->decide((*frame)->failure(), here_);
    const Rank leader = block_->job_ranks()[static_cast<size_t>(leader_)];
    const auto goes_on =
        left_by_living(leader, leader_pid_, leader_process_.get(), leader_program_);
    Failure failure = goes_on.value_or(death_of(leader));
    if (goes_on_after && block_->presence(leader) == Presence::kGone) return;  // follow_lead()
    if (goes_on_after) {
      const int process = leader_process_.get();
      return take_lead(leader, goes_on ? goes_on : end_of_leader(leader, leader_pid_, process));
    }
    // Other machines learn no more than that, nor do ranks that wait for this memory in vain; all
    // shall say the same.
    if (block_->ranks() == size_ && block_->shared() && goes_on) {
      // All see that it does.
    } else if (block_->ranks() == size_ && block_->shared()) {
      const auto end = end_of_leader(leader, leader_pid_, leader_process_.get());
      if (!end) return block_->departed(leader_);
      failure = *end;
    } else if (!block_->failure()) {
      failure = ask_root(failure, before_ns);
    }
    block_->decide(failure, here_);  // the leader was the one who would have asked the others
  }

  /// Nothing where it has ended well.
  static std::optional<Failure> end_of_leader(Rank leader, pid_t pid, int process) {
    const auto status = status_of_ended(pid, process);
    if (status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return std::nullopt;
    return end_of_rank(leader, pid, status);
  }

  bool leads() const { return leads_.load(std::memory_order_acquire); }

  /// A job that survives deaths: sees whether some rank here leads, where the first leader is gone.
  void follow_lead() const {
    const Rank leader = block_->leader();
    const bool has_left = leader < 0 || block_->presence(leader) == Presence::kGone;
    if (has_left) {
      // At the end of a job all leave, and nobody needs another one, unless one has died.
      const bool goes_on = block_->presence(rank_) == Presence::kHere;
      if (goes_on || block_->ends_noted() > 0) take_lead(leader, std::nullopt);
      return;
    }
    const WatchedProcess process = block_->process(place_of(leader));
    if (leader_pid_ != process.pid || !leader_process_.valid()) {
      auto opened = watch_process(process);
      if (!opened) return;  // another rank may find out, or this one later
      leader_pid_ = process.pid;
      leader_process_ = std::move(*opened);
    }
    pollfd end{leader_process_.get(), POLLIN, 0};
    const bool lives = leader_process_.valid() && poll(&end, 1, 0) == 0;
    led_.store(lives, std::memory_order_relaxed);
    if (!lives) take_lead(leader, end_of_leader(leader, process.pid, leader_process_.get()));
  }

  /// This rank leads its machine from now on, unless another one is quicker. `end`: how the leader
  /// before has ended; nothing: in order.
  void take_lead(Rank before, const std::optional<Failure>& end) const {
    if (!block_->pass_lead(before, rank_)) return;
    if (before >= 0 && end && end->code != ErrorCode::kRankDied)
      block_->report(*end, here_);  // its process goes on without the job, which ends
    else if (before >= 0 && end)
      (void)block_->note_end(*end);
    else if (before >= 0)
      block_->departed(place_of(before));
    ControlConnections connections;
    connections.listener = std::move(listener_);
    connections.token = root_.token;
    connections.root_address = block_->root_address();
    connections.root_port = root_.port;
    AgentOptions options{UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), silence_ms_,
                         UniqueFd(fcntl(launcher_.get(), F_DUPFD_CLOEXEC, 0)), true};
    if (options.wake.valid()) {
      auto agent = ControlAgent::start(rank_, *block_, connections, std::move(options));
      if (agent) {
        agent_ = std::move(*agent);
        return leads_.store(true, std::memory_order_release);
      }
    }
    // Another rank may have what this one lacks, or this one has it later.
    listener_ = std::move(connections.listener);
    (void)block_->pass_lead(rank_, -1);
  }

  Rank place_of(Rank rank) const {
    const std::vector<Rank>& here = block_->job_ranks();
    return static_cast<Rank>(std::lower_bound(here.begin(), here.end(), rank) - here.begin());
  }

  /// The leader is gone, and nobody else speaks for this machine: rank 0 says what counts.
  Failure ask_root(const Failure& failure, int64_t looked_ns) const {
    if (block_->job_ranks()[static_cast<size_t>(leader_)] == 0) return failure;
    const bool fresh = now_ns() - looked_ns < kFreshNs && block_->presence(0) != Presence::kGone;
    return word_of_root(root_, rank_, silence_ms_ / 2, failure, fresh);
  }

  const pid_t process_ = getpid();
  Rank rank_ = 0, here_ = 0, leader_ = 0;  ///< the latter two by place on this machine
  int size_ = 1;
  std::unique_ptr<ControlBlock> block_;
  std::unique_ptr<LocalBootstrap> local_;
  bool has_others_ = false;                      ///< the job has other machines, too
  bool survives_deaths_ = false;                 ///< from the next barrier on
  mutable std::unique_ptr<ControlAgent> agent_;  ///< of the leader
  mutable std::atomic<bool> leads_ = false;      ///< this rank does, by that
  mutable ControlListener listener_;             ///< of the others: the home of this machine
  UniqueFd launcher_;                            ///< of the others, for when they lead
  mutable ControlConnection up_;                 ///< of the others: to it
  mutable std::atomic<bool> led_ = false;        ///< the leader watches the ranks of this machine
  mutable std::mutex watching_;
  bool has_left_ = false;
  mutable std::atomic<int64_t> looked_ns_ = 0;
  mutable pid_t leader_pid_ = 0;
  mutable UniqueFd leader_process_;
  std::optional<ProgramPlace> leader_program_;
  RootPlace root_;  ///< for when the leader has left
  int silence_ms_ = 0;
  bool hosted_ = false;
};

void JoinedJobs::add(JoinedBootstrap* job) {
  JoinedJobs& self = instance();
  const std::lock_guard lock(self.mutex_);
  self.jobs_.insert(job);
}

void JoinedJobs::remove(JoinedBootstrap* job) {
  JoinedJobs& self = instance();
  const std::lock_guard lock(self.mutex_);
  self.jobs_.erase(job);
}

/// A program that returns without having finalized leaves in order; one that fails does not, except
/// where the job has failed before.
void JoinedJobs::say_goodbye(int status, void* self) {
  auto& jobs = *static_cast<JoinedJobs*>(self);
  const std::unique_lock lock(jobs.mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (JoinedBootstrap* job : jobs.jobs_) {
    if (status == 0 || job->failure() || job->ends_noted() > 0) job->leave();
  }
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> join_through(ProcessManager& manager,
                                                const JoinOptions& options) {
  // Where Yama restricts ptrace, this lets the launcher's descendants on this machine, our peers,
  // copy from our memory. Fails harmlessly where there is no Yama.
  if (!options.hosted) prctl(PR_SET_PTRACER, getppid());
  set_log_rank(manager.rank());
  return JoinedBootstrap::create(manager, options);
}

}  // namespace ibcoll
