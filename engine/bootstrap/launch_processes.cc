#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/config.h"
#include "engine/base/log.h"
#include "engine/base/unique_fd.h"
#include "engine/bootstrap/binding.h"
#include "engine/bootstrap/control.h"
#include "engine/bootstrap/descriptors.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/peer_watch.h"
#include "engine/bootstrap/process_end.h"
#include "engine/bootstrap/process_fd.h"

namespace ibcoll {
namespace {

using Clock = std::chrono::steady_clock;

/// How long ranks get between SIGTERM and SIGKILL when the user interrupts a job.
constexpr auto kInterruptGrace = std::chrono::seconds(1);

struct Child {
  pid_t pid = -1;
  UniqueFd exited;  ///< pidfd; invalid once the child has been reaped
  /// The end of a pipe whose other one the child has, and closes when it executes another program.
  UniqueFd runs;
};

/// Blocks the signals that shall end the job in this thread; the old mask comes back at the end.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&ending_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ending_, number);
    pthread_sigmask(SIG_BLOCK, &ending_, &before_);
  }
  ~BlockedSignals() { restore(); }
  void restore() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  const sigset_t& ending() const { return ending_; }

 private:
  sigset_t ending_, before_;
};

/// How often the launcher looks whether a job has ended whose ranks it keeps.
constexpr int kLookMs = 1000;

/// What a forked process does; never returns.
[[noreturn]] void run_rank(ControlBlock& control, Rank rank, pid_t launcher, const CpuSet& units,
                           const RankMain& main) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(1);  // it died before the line above
  // Where Yama restricts ptrace, this lets the launcher's descendants, our peers, copy from our
  // memory. Fails harmlessly where there is no Yama.
  prctl(PR_SET_PTRACER, launcher);
  set_log_rank(rank);
  if (const Status bound = bind_thread(units); !bound)
    log().warn("runs unbound: {}", bound.error().message);
  const int status = main(*control.bootstrap(rank));
  std::fflush(nullptr);
  _exit(status);
}

class Supervisor {
 public:
  Supervisor(const LaunchOptions& options, ControlBlock& control)
      : options_(options), control_(control) {}
  ~Supervisor() {
    kill_all(SIGKILL);
    for (Child& child : children_)
      if (child.exited.valid()) waitpid(child.pid, nullptr, 0);
  }

  Status start(const RankMain& main, BlockedSignals& signals) {
    signals_.reset(signalfd(-1, &signals.ending(), SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.valid()) return fail_errno("cannot create a signalfd");
    std::vector<CpuSet> binding;
    IBCOLL_ASSIGN(const std::string bound_to, config_choice("IBCOLL_BIND"));
    if (options_.bind && bound_to == "core") {
      if (const auto& cores = usable_core_sets())
        binding = plan_binding(options_.ranks, *cores);
      else
        log().warn("ranks run unbound: {}", cores.error().message);
    }
    binding.resize(static_cast<size_t>(options_.ranks));
    std::fflush(nullptr);  // or every rank would write what is in the buffers once more
    const pid_t launcher = getpid();
    program_ = program_of(launcher);
    children_.reserve(binding.size());
    for (Rank rank = 0; rank < options_.ranks; ++rank) {
      int ends[2] = {-1, -1};
      if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_opening(
            fmt::format("cannot open a pipe to rank {} of {}", rank, options_.ranks));
      UniqueFd runs(ends[0]), of_child(ends[1]);
      const pid_t pid = fork();
      if (pid == 0) {
        signals.restore();
        signals_.reset();
        children_.clear();
        runs.reset();
        // Not its children's, and as long as the process runs this program.
        static ProcessFd kept;
        kept = ProcessFd(std::move(of_child));
        run_rank(control_, rank, launcher, binding[static_cast<size_t>(rank)], main);
      }
      if (pid < 0)
        return fail_errno(fmt::format("cannot fork rank {} of {}", rank, options_.ranks));
      children_.push_back({pid, open_process(pid), std::move(runs)});
      if (!children_.back().exited.valid()) {
        const auto error = fail_errno(fmt::format("cannot watch rank {}", rank));
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        return error;
      }
    }
    return {};
  }

  Result<int> supervise() {
    std::vector<pollfd> watched;
    while (running() > 0) {
      watched.clear();
      watched.push_back({signals_.get(), POLLIN, 0});
      watched.push_back({control_.failure_fd(), POLLIN, 0});
      for (const Child& child : children_) watched.push_back({child.exited.get(), POLLIN, 0});
      for (const Child& child : children_) watched.push_back({child.runs.get(), POLLIN, 0});
      if (failure_seen_ || keeps_) watched[1].fd = -1;
      if (poll(watched.data(), watched.size(), milliseconds_left()) < 0 && errno != EINTR)
        return fail_errno("cannot wait for the ranks");
      // Signals first: a terminal sends them to the ranks as well, whose end is then no failure.
      take_signals();
      for (size_t i = 0; i < children_.size(); ++i)
        if (watched[i + 2].revents != 0) reap(static_cast<Rank>(i));
      for (size_t i = 0; i < children_.size(); ++i)
        if (watched[i + 2 + children_.size()].revents != 0) look_at_program(static_cast<Rank>(i));
      notice_failure();
      if (deadline_ && Clock::now() >= *deadline_) {
        kill_all(SIGKILL);
        deadline_.reset();
      }
    }
    return result_ != 0 || has_returned_ ? result_ : result_of_killed_;
  }

 private:
  int64_t running() const {
    return std::count_if(children_.begin(), children_.end(),
                         [](const Child& child) { return child.exited.valid(); });
  }

  void kill_all(int number) {
    for (const Child& child : children_)
      if (child.exited.valid()) kill(child.pid, number);
  }

  int milliseconds_left() const {
    // What ends a job after a death wakes nobody.
    if (!deadline_) return keeps_ ? kLookMs : -1;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      const int number = static_cast<int>(info.ssi_signo);
      interrupted_ = true;
      if (result_ == 0) result_ = 128 + number;
      control_.report(
          {-1, ErrorCode::kPeerFailed,
           fmt::format("the job was ended by signal {} ({})", number, strsignal(number))},
          options_.ranks);
      kill_all(SIGTERM);
      limit(Clock::now() + kInterruptGrace);
    }
  }

  void reap(Rank rank) {
    Child& child = children_[static_cast<size_t>(rank)];
    int status = 0;
    if (!child.exited.valid() || waitpid(child.pid, &status, WNOHANG) != child.pid) return;
    child.exited.reset();
    child.runs.reset();
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const Failure failure = end_of_rank(rank, child.pid, status);
    int& result = options_.keep_survivors && WIFSIGNALED(status) ? result_of_killed_ : result_;
    has_returned_ |= WIFEXITED(status);
    if (code != 0) {
      if (result == 0) result = code;
      control_.note_end(failure);
      control_.report(failure, options_.ranks);
    }
    control_.departed(rank);
  }

  /// A process that ends closes the pipe, too, and one that closes everything it finds open.
  void look_at_program(Rank rank) {
    Child& child = children_[static_cast<size_t>(rank)];
    if (!child.runs.valid()) return;
    child.runs.reset();
    if (program_of(child.pid) == program_) return;
    const auto failure = left_by_living(rank, child.pid, child.exited.get(), program_);
    if (!failure) return;
    if (result_ == 0) result_ = 1;
    control_.note_end(*failure);
    control_.report(*failure, options_.ranks);
    control_.departed(rank);
  }

  void notice_failure() {
    if (failure_seen_) return;
    const auto failure = control_.failure();
    if (!failure) return;
    // What ends the job after a death takes its place.
    const bool keeps = options_.keep_survivors && failure->code == ErrorCode::kRankDied;
    if (keeps && keeps_) return;
    keeps_ = keeps;
    if (!keeps) {
      failure_seen_ = true;
      limit(Clock::now() + std::chrono::nanoseconds(options_.grace_ns));
    }
    if (interrupted_) return;  // the user knows
    if (options_.on_failure)
      options_.on_failure(*failure);
    else
      log().error("{}", failure->what);
  }

  void limit(Clock::time_point deadline) {
    deadline_ = deadline_ ? std::min(*deadline_, deadline) : deadline;
  }

  const LaunchOptions& options_;
  ControlBlock& control_;
  UniqueFd signals_;
  std::optional<ProgramPlace> program_;  ///< of the launcher, and of ranks
  std::vector<Child> children_;
  std::optional<Clock::time_point> deadline_;
  bool interrupted_ = false;
  bool failure_seen_ = false;
  bool keeps_ = false;  ///< what is left after a death
  int result_ = 0;
  int result_of_killed_ = 0;  ///< where the others are kept
  bool has_returned_ = false;
};

}  // namespace

Result<int> launch_processes(const LaunchOptions& options, const RankMain& main) {
  if (options.ranks < 1 || options.ranks > kMaxLaunchRanks) {
    return fail(ErrorCode::kInvalidArgument, "{} ranks: at least 1 and at most {} can be started",
                options.ranks, kMaxLaunchRanks);
  }
  usable_cores();  // before any rank is bound: they inherit what is found here
  make_room_for_files(2 * static_cast<size_t>(options.ranks) + kOwnFiles);  // two a rank
  IBCOLL_ASSIGN(const auto control,
                ControlBlock::create(options.ranks, ControlBlock::Sharing::kProcesses));
  BlockedSignals signals;
  Supervisor supervisor(options, *control);
  IBCOLL_TRY(supervisor.start(main, signals));
  return supervisor.supervise();
}

}  // namespace ibcoll
