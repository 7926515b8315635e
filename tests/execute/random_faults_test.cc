// Random faults in jobs over shared memory and the loopback, started by the launcher of our own and
// joined: every one ends right, or with one error that is the same on all survivors, and nothing is
// left. TEST_FAULT_SEED=4711 runs one again, TEST_FAULTS=500 so many.

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <random>
#include <thread>

#include "engine/bootstrap/launch.h"
#include "tests/faults.h"
#include "tests/joined_job.h"

namespace ibcoll::testing {
namespace {

constexpr int kEnough = 25;  // calls of a job that ends right
constexpr int64_t kMillisecondNs = 1'000'000;

enum class Fault {
  kKill,         ///< one rank, or several, by some signal
  kStop,         ///< a rank stands still for a while
  kStopTooLong,  ///< for longer than the deadline
  kLate,         ///< a rank makes a call late
  kLeave,        ///< a rank finalizes while others go on
  kExit,         ///< a rank ends with a status
  kGiveUp,       ///< a rank reports a failure
  kNoMemory,     ///< a rank gets no more memory
  kNoFiles,      ///< a rank can open no more files, from the start or from some call on
};

/// A fault in a job, both drawn by a seed.
struct Trial {
  explicit Trial(uint32_t seed) : random(seed) {
    const std::vector<std::vector<int>> layouts = {{2}, {4}, {1, 1}, {2, 1, 1}, {2, 2}, {3, 1, 2}};
    layout = layouts[draw(layouts.size())];
    for (const int ranks : layout) total += ranks;
    joined = draw(3) == 0;
    machines = joined ? static_cast<int>(1 + draw(2)) : 1;
    const std::vector<std::string> algorithms = {"", "ring", "two_level_ring", "linear"};
    algorithm = algorithms[draw(algorithms.size())];
    const std::vector<size_t> all_sizes = {0, 8, 500, 4096, 40000, 300000};
    for (int i = 0; i < 3; ++i) sizes.push_back(all_sizes[draw(all_sizes.size())]);
    victim = static_cast<Rank>(draw(static_cast<size_t>(total)));
    at_call = static_cast<int>(draw(12));
    after = std::chrono::microseconds(draw(30'000));
    choose_fault();
    text = fmt::format(
        "{} of rank {} (call {}, {} us; signal {}, to {}) in {} of {} on {} machines",
        kNames[static_cast<size_t>(fault)], victim, at_call, after.count(), signal, last_victim,
        algorithm.empty() ? "auto" : algorithm, fmt::join(layout, ","), joined ? machines : 0);
  }

  static constexpr std::array<const char*, 9> kNames = {
      "kill",      "stop",    "stop past the deadline", "lateness", "leaving", "exit", "giving up",
      "no memory", "no files"};

  size_t draw(size_t below) { return random() % below; }

  void choose_fault() {
    last_victim = victim;
    const size_t number = draw(40);
    const std::vector<int> signals = {SIGKILL, SIGKILL, SIGSEGV, SIGABRT, SIGTERM};
    if (number < 16) {
      fault = Fault::kKill;
      signal = signals[draw(signals.size())];
      if (number < 4)
        last_victim = static_cast<Rank>(std::min<size_t>(victim + draw(3), total - 1));
    } else if (number < 23) {
      fault = Fault::kStop;
    } else if (number < 24) {
      fault = Fault::kStopTooLong;
    } else if (number < 28) {
      fault = Fault::kLate;
    } else if (number < 29) {
      fault = Fault::kLeave;
    } else if (number < 31) {
      fault = Fault::kExit;
    } else if (number < 34) {
      fault = Fault::kGiveUp;
    } else if (number < 37) {
      fault = Fault::kNoMemory;
    } else {
      fault = Fault::kNoFiles;
      from_start = draw(2) == 0;
    }
  }

  bool fatal() const {
    return fault == Fault::kKill || fault == Fault::kStopTooLong || fault == Fault::kLeave ||
           fault == Fault::kExit || fault == Fault::kGiveUp;
  }
  bool may_fail() const { return fault == Fault::kNoMemory || fault == Fault::kNoFiles; }
  /// Ends without a word of its own.
  bool silent(Rank rank) const {
    if (fault == Fault::kExit) return rank == victim;
    return fault == Fault::kKill && rank >= victim && rank <= last_victim;
  }

  std::mt19937 random;
  std::vector<int> layout;
  std::vector<size_t> sizes;
  int total = 0, machines = 1, at_call = 0, signal = SIGKILL;
  bool joined = false, from_start = false;
  std::string algorithm, text;
  Rank victim = 0, last_victim = 0;
  Fault fault = Fault::kKill;
  std::chrono::microseconds after{};
};

void limit(__rlimit_resource resource, rlim_t most) {
  rlimit bounds{};
  getrlimit(resource, &bounds);
  bounds.rlim_cur = bounds.rlim_max = most;
  setrlimit(resource, &bounds);
}

rlim_t address_space_in_use() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(getpagesize());
}

/// What the victim does to itself before one of its calls. True: it makes no more calls.
bool strike(const Trial& trial, const RankView& rank) {
  switch (trial.fault) {
    case Fault::kLate:
      std::this_thread::sleep_for(trial.after);
      return false;
    case Fault::kLeave:
      return true;
    case Fault::kExit:
      _exit(9);
    case Fault::kGiveUp:
      rank.context.executor().abort(
          {trial.victim, ErrorCode::kPeerFailed, fmt::format("rank {} gave up", trial.victim)});
      return false;
    case Fault::kNoMemory:
      limit(RLIMIT_AS, address_space_in_use() + 200'000);
      return false;
    case Fault::kNoFiles:
      if (!trial.from_start) limit(RLIMIT_NOFILE, 3);
      return false;
    default:
      return false;
  }
}

/// One rank of the job.
void run_rank(const Trial& trial, Bootstrap& bootstrap, Stage& stage, Complaints& complaints);
void run_rank_guarded(const Trial& trial, Bootstrap& bootstrap, Stage& stage,
                      Complaints& complaints) {
  const Rank me = bootstrap.rank();
  try {
    run_rank(trial, bootstrap, stage, complaints);
  } catch (const std::bad_alloc&) {  // as the C interface does
    bootstrap.abort({me, ErrorCode::kNoMemory, "no memory is left"});
    const auto first = bootstrap.failure();
    complaints.add(me, first ? first->what : "no memory is left");
  }
}

void run_rank(const Trial& trial, Bootstrap& bootstrap, Stage& stage, Complaints& complaints) {
  const Rank me = bootstrap.rank();
  ContextOptions options;
  options.shape = *Shape::from_layout(trial.layout, Placement::kBlock);
  options.transport = trial.layout.size() > 1 ? "loopback" : "auto";
  options.heap_bytes = size_t{64} << 20;
  if (trial.fault == Fault::kStopTooLong) options.deadline_ns = 300 * kMillisecondNs;
  const auto context = Context::create(bootstrap, options);
  if (!context) {
    bootstrap.abort({me, context.error().code, context.error().message});
    const auto first = bootstrap.failure();
    complaints.add(me, "no context: " + (first ? first->what : context.error().message));
    return;
  }
  const RankView rank{**context, complaints};
  const int calls = trial.fatal() ? kUntilItFails : kEnough;
  for (int i = 0; i < calls; ++i) {
    if (i == trial.at_call && me == trial.victim && strike(trial, rank)) break;
    if (!exchange(rank, trial.sizes[i % trial.sizes.size()], i, trial.algorithm)) break;
    ++stage.calls[me];
  }
  if (const Status closed = (*context)->close(); !closed)
    rank.complain("close: " + closed.error().message);
}

/// Disturbs from outside, once all ranks have begun.
void disturb(const Trial& trial, Stage& stage) {
  for (int rank = 0; rank < trial.total; ++rank)
    while (stage.pids[rank] == 0) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(trial.after);
  const pid_t victim = stage.pids[trial.victim];
  if (trial.fault == Fault::kKill) {
    for (Rank rank = trial.victim; rank <= trial.last_victim; ++rank)
      kill(stage.pids[rank], trial.signal);
  } else if (trial.fault == Fault::kStop) {
    kill(victim, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(60));
    kill(victim, SIGCONT);
  } else if (trial.fault == Fault::kStopTooLong) {
    // A deadline is for calls alone.
    while (stage.calls[trial.victim] < 2) std::this_thread::sleep_for(milliseconds(1));
    // Whoever waits may get no processor until the victim goes on: again then, until the job ends.
    while (kill(victim, SIGSTOP) == 0) {
      std::this_thread::sleep_for(milliseconds(800));
      kill(victim, SIGCONT);
      std::this_thread::sleep_for(milliseconds(100));
    }
  }
}

void begin_rank(const Trial& trial, Rank rank, Stage& stage) {
  ::signal(SIGALRM, SIG_DFL);
  limit(RLIMIT_CORE, 0);
  if (trial.fault == Fault::kNoFiles && trial.from_start && rank == trial.victim)
    limit(RLIMIT_NOFILE, 6 + static_cast<rlim_t>(trial.at_call));
  stage.pids[rank] = getpid();
}

std::string run_launched(const Trial& trial, Stage& stage) {
  Complaints complaints(trial.total);
  LaunchOptions launch;
  launch.ranks = trial.total;
  launch.grace_ns = 30'000 * kMillisecondNs;
  launch.on_failure = [](const Failure&) {};
  const auto status = launch_processes(launch, [&](Bootstrap& bootstrap) {
    begin_rank(trial, bootstrap.rank(), stage);
    run_rank_guarded(trial, bootstrap, stage, complaints);
    return 0;
  });
  return status ? complaints.all() : "launch: " + status.error().message;
}

std::string run_as_joined(const Trial& trial, Stage& stage) {
  JoinedRun run;
  for (Rank rank = 0; rank < trial.total; ++rank) {
    run.machines.push_back(rank * trial.machines / trial.total);
    if (trial.silent(rank)) run.to_die.push_back(rank);
  }
  Complaints complaints(trial.total);
  run.before = [&](Rank rank) { begin_rank(trial, rank, stage); };
  std::string all = run_joined(run, [&](Bootstrap& bootstrap) -> std::string {
    run_rank_guarded(trial, bootstrap, stage, complaints);
    return complaints.of(bootstrap.rank());
  });
  return all;
}

/// Names in a folder.
std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  if (DIR* directory = opendir(folder)) {
    while (const dirent* entry = readdir(directory)) names.emplace_back(entry->d_name);
    closedir(directory);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void check(const Trial& trial, const std::string& all) {
  const auto errors = errors_in(all);
  EXPECT_THAT(all, ::testing::Not(::testing::HasSubstr("wrong data")));
  EXPECT_THAT(all, ::testing::Not(::testing::HasSubstr("ended by signal 14"))) << "it hangs";
  if (!trial.fatal() && (!trial.may_fail() || all.empty())) {
    EXPECT_EQ(all, "");
    return;
  }
  std::optional<std::string> first;
  for (Rank rank = 0; rank < trial.total; ++rank) {
    if (trial.silent(rank)) continue;
    const auto error = errors.find(rank);
    // Whom memory is refused may end by a signal.
    if (error == errors.end() && trial.may_fail() && rank == trial.victim) continue;
    ASSERT_NE(error, errors.end()) << "rank " << rank << " has no error\n" << all;
    if (error->second.starts_with("ended by signal") && trial.may_fail()) continue;
    if (!first) first = common(error->second);
    EXPECT_EQ(common(error->second), *first) << all;
  }
}

void run_trials(uint32_t first, uint32_t count) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what outlives its parent comes here
  static volatile uint32_t current = 0;
  ::signal(SIGALRM, [](int) {
    char line[64];
    const int bytes = std::snprintf(line, sizeof line, "TEST_FAULT_SEED=%u hangs\n",
                                    static_cast<unsigned>(current));
    std::ignore = write(2, line, static_cast<size_t>(bytes));
    _exit(1);
  });
  for (uint32_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    current = seed;
    alarm(90);
    const Trial trial(seed);
    SCOPED_TRACE(fmt::format("TEST_FAULT_SEED={}: {}", seed, trial.text));
    const auto shared_before = names_in("/dev/shm"), files_before = names_in("/proc/self/fd");
    const auto begin = std::chrono::steady_clock::now();
    const SharedStage stage;
    std::fflush(nullptr);
    const pid_t disturber = fork();
    if (disturber == 0) {
      disturb(trial, *stage);
      _exit(0);
    }
    const std::string all =
        trial.joined ? run_as_joined(trial, *stage) : run_launched(trial, *stage);
    kill(disturber, SIGKILL);
    waitpid(disturber, nullptr, 0);
    check(trial, all);
    // No process, no file.
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(names_in("/proc/self/fd"), files_before);
    for (const std::string& name : names_in("/dev/shm")) {
      if (name.find("ibcoll") == std::string::npos) continue;
      EXPECT_TRUE(std::binary_search(shared_before.begin(), shared_before.end(), name)) << name;
    }
    if (getenv("TEST_FAULTS") != nullptr || getenv("TEST_FAULT_SEED") != nullptr) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      std::fprintf(stderr, "seed %u: %s: %.2f s: %s\n", seed, trial.text.c_str(), took.count(),
                   all.empty() ? "right" : all.substr(0, all.find('\n')).c_str());
    }
  }
  alarm(0);
}

TEST(RandomFaults, EndRightOrWithOneError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the memory and files that are refused here";
#endif
  const bool one = getenv("TEST_FAULT_SEED") != nullptr;
  run_trials(number_from_environment("TEST_FAULT_SEED", 1),
             number_from_environment("TEST_FAULTS", one ? 1 : 60));
}

TEST(RandomFaultsFull, EndRightOrWithOneError) { run_trials(1000, 2000); }

}  // namespace
}  // namespace ibcoll::testing
