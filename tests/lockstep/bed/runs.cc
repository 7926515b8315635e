#include "tests/lockstep/bed/runs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tests/lockstep/bed/control_run.h"
#include "tests/lockstep/bed/hooks.h"
#include "tests/lockstep/bed/job.h"

#ifdef IBCOLL_COVERAGE
extern "C" void __gcov_dump();
#endif

namespace ibcoll::lockstep {
namespace {

/// Of CPU time, and by the clock.
constexpr int kLongestRunS = 120, kLongestWallS = 1800;

uint64_t in_ns(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(time.tv_usec) * 1000;
}

/// What the environment says to ranks must be the same whoever starts this.
void set_environment(const RunPlan& plan) {
  clearenv();
  for (const auto& [name, value] : plan.environment) setenv(name.c_str(), value.c_str(), 1);
}

/// Before a run in a process of its own.
void begin_alone(bool trace) {
  if (!trace) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDERR_FILENO);
  }
  const rlimit longest{kLongestRunS, kLongestRunS + 1};
  setrlimit(RLIMIT_CPU, &longest);
  alarm(kLongestWallS);
}

[[noreturn]] void end_alone(Report& report, const Tally& tally, const std::string& wrong) {
  report.tally = tally;
  rusage used{};
  if (getrusage(RUSAGE_SELF, &used) == 0)
    report.tally.cpu_ns = in_ns(used.ru_utime) + in_ns(used.ru_stime);
  std::strncpy(report.wrong, wrong.c_str(), sizeof report.wrong - 1);
  report.done = true;
#ifdef IBCOLL_COVERAGE
  __gcov_dump();  // _exit() does not
#endif
  _exit(0);
}

[[noreturn]] void run_here(const RunPlan& plan, Report& report, bool trace) {
  set_environment(plan);
  begin_alone(trace);
  for (const auto& [name, value] : plan.limits) set_limit(name, value);
  if (trace) fmt::print(stderr, "{}", to_string(plan));
  const RunResult result = run_in_bed(plan.program, plan.conditions, trace);
  end_alone(report, result.tally, result.wrong);
}

pid_t fork_for(Report& report) {
  std::memset(static_cast<void*>(&report), 0, sizeof report);
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) std::abort();
  return pid;
}

}  // namespace

double wall_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

Report* shared_reports(size_t count) {
  void* const memory = mmap(nullptr, count * sizeof(Report), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<Report*>(memory);
}

pid_t start(const RunPlan& plan, Report& report, bool trace) {
  const pid_t pid = fork_for(report);
  if (pid == 0) run_here(plan, report, trace);
  return pid;
}

pid_t start_control(uint64_t seed, Report& report, bool trace) {
  const pid_t pid = fork_for(report);
  if (pid != 0) return pid;
  clearenv();
  begin_alone(trace);
  const ControlResult result = run_control(control_plan_of(seed), trace);
  end_alone(report, result.tally, result.wrong);
}

void finish(Report& report, int status) {
  if (report.done) return;
  const std::string why =
      WIFSIGNALED(status) && (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGXCPU)
          ? fmt::format("somebody computes for {} s without a step", kLongestRunS)
      : WIFSIGNALED(status) ? fmt::format("a rank crashes: signal {} ({})", WTERMSIG(status),
                                          strsignal(WTERMSIG(status)))
                            : fmt::format("a rank leaves with status {}", WEXITSTATUS(status));
  std::strncpy(report.wrong, why.c_str(), sizeof report.wrong - 1);
}

std::string wait_for(pid_t pid, Report& report) {
  int status = 0;
  waitpid(pid, &status, 0);
  finish(report, status);
  return report.wrong;
}

std::string run_alone(const RunPlan& plan, bool trace, Report& report) {
  return wait_for(start(plan, report, trace), report);
}

}  // namespace ibcoll::lockstep
