// lockstep: random programs on all ranks of a job in one thread, every step in a seeded order. See
// docs/lockstep.md.

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "tests/lockstep/algorithms.h"
#include "tests/lockstep/bed/job.h"
#include "tests/lockstep/bed/plan.h"

namespace ibcoll::lockstep {
namespace {

/// A process that runs one seed leaves this behind.
struct Report {
  Tally tally;
  uint64_t accesses_of_a_rank;
  bool done;
  char wrong[8192];
};

struct Options {
  uint64_t seed = 1, seeds = 0;
  double seconds = 0;
  int jobs = 2;
  bool trace = false, no_shrink = false, keep_going = false;
  std::string json;
  Overrides overrides;
};

constexpr int kLongestRunS = 120;

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

/// What the environment says to ranks must be the same whoever starts this.
void set_environment(const RunPlan& plan) {
  clearenv();
  for (const auto& [name, value] : plan.environment) setenv(name.c_str(), value.c_str(), 1);
}

[[noreturn]] void run_here(const RunPlan& plan, Report& report, bool trace) {
  set_environment(plan);
  if (!trace) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDERR_FILENO);
  }
  alarm(kLongestRunS);
  if (trace) fmt::print(stderr, "{}", to_string(plan));
  const RunResult result = run_in_bed(plan.program, plan.conditions, trace);
  report.tally = result.tally;
  report.accesses_of_a_rank = result.accesses_of_a_rank;
  std::strncpy(report.wrong, result.wrong.c_str(), sizeof report.wrong - 1);
  report.done = true;
  _exit(0);
}

pid_t start(const RunPlan& plan, Report& report, bool trace) {
  std::memset(static_cast<void*>(&report), 0, sizeof report);
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) run_here(plan, report, trace);
  if (pid < 0) std::abort();
  return pid;
}

/// What came of it once the process has ended with that status.
void finish(Report& report, int status) {
  if (report.done) return;
  const std::string why =
      WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
          ? fmt::format("somebody computes for {} s without a step", kLongestRunS)
      : WIFSIGNALED(status) ? fmt::format("a rank crashes: signal {} ({})", WTERMSIG(status),
                                          strsignal(WTERMSIG(status)))
                            : fmt::format("a rank leaves with status {}", WEXITSTATUS(status));
  std::strncpy(report.wrong, why.c_str(), sizeof report.wrong - 1);
}

std::string run_alone(const RunPlan& plan, bool trace, Report& report) {
  const pid_t pid = start(plan, report, trace);
  int status = 0;
  waitpid(pid, &status, 0);
  finish(report, status);
  return report.wrong;
}

/// What a failure is, without what differs from run to run: numbers.
std::string kind_of(const std::string& wrong) {
  std::string kind;
  for (const char c : wrong) {
    if (c >= '0' && c <= '9') continue;
    kind += c;
    if (kind.size() >= 120) break;
  }
  return kind;
}

/// Looks for a shorter run that fails, too.
class Shrinking {
 public:
  Shrinking(uint64_t seed, Overrides overrides, Report& report)
      : seed_(seed), best_(std::move(overrides)), report_(report), until_(wall_s() + kLongestS) {}

  Overrides run() {
    // Disturbances first: without them a program says more.
    for (auto i = static_cast<uint32_t>(plan_of(seed_, best_).conditions.disturbances.size());
         i-- > 0;) {
      Overrides less = best_;
      less.undisturbed.insert(less.undisturbed.begin(), i);
      take_if_fails(std::move(less));
    }
    for (size_t piece = std::max<size_t>(actions().size() / 2, 1);;) {
      bool shorter = false;
      // From the end: what comes first others stand on.
      for (size_t end = actions().size(); end > 0 && !is_late();) {
        const std::vector<uint32_t> all = actions();
        end = std::min(end, all.size());
        const size_t begin = end - std::min(piece, end);
        Overrides less = best_;
        less.without.insert(less.without.end(), all.begin() + static_cast<ptrdiff_t>(begin),
                            all.begin() + static_cast<ptrdiff_t>(end));
        std::sort(less.without.begin(), less.without.end());
        shorter |= take_if_fails(std::move(less));
        end = begin;
      }
      if (is_late() || (piece == 1 && !shorter)) break;
      piece = std::max<size_t>(piece / 2, 1);
    }
    for (bool simplified = true; simplified && !is_late();) {
      simplified = false;
      const size_t variants = simpler(plan_of(seed_, best_).program).size();
      for (uint32_t i = 0; i < variants && !simplified; ++i) {
        Overrides less = best_;
        less.simpler.push_back(i);
        simplified = take_if_fails(std::move(less));
      }
    }
    return best_;
  }

 private:
  static constexpr double kLongestS = 120;
  /// A shorter program goes another way under the same seed: it is tried under so many.
  static constexpr uint64_t kSchedules = 24;

  bool is_late() const { return wall_s() > until_; }
  std::vector<uint32_t> actions() const {
    std::vector<uint32_t> numbers;
    for (const Action& action : plan_of(seed_, best_).program.actions)
      numbers.push_back(action.number);
    return numbers;
  }
  bool take_if_fails(Overrides less) {
    const uint64_t first = best_.schedule.value_or(seed_);
    for (uint64_t i = 0; i < kSchedules && !is_late(); ++i) {
      less.schedule = first + i * 1'000'003;
      if (run_alone(plan_of(seed_, less), false, report_).empty()) continue;
      best_ = std::move(less);
      return true;
    }
    return false;
  }

  const uint64_t seed_;
  Overrides best_;
  Report& report_;
  const double until_;
};

nlohmann::ordered_json in_json(const Tally& tally, double took_s, uint64_t failures) {
  nlohmann::ordered_json json;
  json["runs"] = tally.runs;
  json["failures"] = failures;
  json["calls"] = tally.calls;
  json["steps"] = tally.steps;
  json["accesses"] = tally.accesses;
  json["switches"] = tally.switches;
  json["faults"] = tally.faults;
  json["kills"] = tally.kills;
  json["stops"] = tally.stops;
  json["memory_refusals"] = tally.refusals;
  json["clock_steps"] = tally.clock_steps;
  json["jobs_over"] = tally.jobs_over;
  json["seconds"] = took_s;
  for (int i = 0; i < kOperations; ++i) {
    const auto& ended = tally.ended[static_cast<size_t>(i)];
    for (size_t status = 0; status < ended.size(); ++status) {
      if (ended[status] != 0)
        json["ended"][to_string(static_cast<Operation>(i))][std::to_string(status)] = ended[status];
    }
  }
  return json;
}

class Campaign {
 public:
  explicit Campaign(const Options& options)
      : options_(options),
        reports_(shared_reports(static_cast<size_t>(options.jobs) + 1)),
        begun_(wall_s()) {}

  int run() {
    if (options_.seeds == 1 && options_.seconds == 0) return replay();
    uint64_t next = options_.seed;
    std::map<pid_t, Running> running;
    while (true) {
      const bool more = (failures_ == 0 || options_.keep_going) &&
                        (options_.seeds == 0 || next < options_.seed + options_.seeds) &&
                        (options_.seconds == 0 || wall_s() - begun_ < options_.seconds);
      if (more && running.size() < static_cast<size_t>(options_.jobs)) {
        size_t slot = 0;
        while (std::any_of(running.begin(), running.end(),
                           [slot](const auto& one) { return one.second.slot == slot; }))
          ++slot;
        const RunPlan plan = plan_of(next, options_.overrides);
        running[start(plan, reports_[slot], false)] = {next, slot};
        ++next;
        continue;
      }
      if (running.empty()) break;
      int status = 0;
      const pid_t pid = waitpid(-1, &status, 0);
      const auto found = running.find(pid);
      if (found == running.end()) continue;
      Report& report = reports_[found->second.slot];
      finish(report, status);
      tally_.add(report.tally);
      if (report.wrong[0] != '\0') failed(found->second.seed, report.wrong);
      running.erase(found);
    }
    tell();
    return failures_ == 0 ? 0 : 1;
  }

 private:
  struct Running {
    uint64_t seed = 0;
    size_t slot = 0;
  };

  int replay() {
    RunPlan plan = plan_of(options_.seed, options_.overrides);
    Report& report = reports_[0];
    const std::string wrong = run_alone(plan, options_.trace, report);
    tally_ = report.tally;
    if (!wrong.empty()) {
      fmt::print(stderr, "lockstep: seed {}: {}\n", options_.seed, wrong);
      failures_ = 1;
      if (!options_.no_shrink && !options_.trace) explain(options_.seed);
    }
    tell();
    return wrong.empty() ? 0 : 1;
  }

  void failed(uint64_t seed, const std::string& wrong) {
    ++failures_;
    fmt::print(stderr, "lockstep: seed {}: {}\n", seed, wrong);
    if (options_.no_shrink || !kinds_.emplace(kind_of(wrong), seed).second) return;
    explain(seed);
  }

  void explain(uint64_t seed) {
    Report& report = reports_[static_cast<size_t>(options_.jobs)];
    if (run_alone(plan_of(seed, options_.overrides), false, report).empty()) {
      fmt::print(stderr, "lockstep: run again it ends well: something is left to chance\n");
      return;
    }
    const Overrides shorter = Shrinking(seed, options_.overrides, report).run();
    const RunPlan plan = plan_of(seed, shorter);
    run_alone(plan, false, report);
    fmt::print(stderr, "lockstep: {}\n{}lockstep: the same: lockstep {} --trace\n", report.wrong,
               to_string(plan), to_options(seed, shorter));
  }

  void tell() const {
    const double took = wall_s() - begun_;
    if (!options_.json.empty()) {
      const std::string line = json_text(in_json(tally_, took, failures_)) + "\n";
      if (options_.json == "-") {
        fmt::print("{}", line);
      } else if (std::FILE* const file = std::fopen(options_.json.c_str(), "w"); file != nullptr) {
        std::fputs(line.c_str(), file);
        std::fclose(file);
      } else {
        fmt::print(stderr, "lockstep: can't write {}: {}\n", options_.json, std::strerror(errno));
        std::exit(1);
      }
    }
    if (options_.json != "-") {
      fmt::print(
          "{} runs, {} failed: {} calls checked, {} steps, {} faults ({} kills, {} stops, {} "
          "refusals of memory, {} clock steps), {:.1f} s\n",
          tally_.runs, failures_, tally_.calls, tally_.steps, tally_.faults, tally_.kills,
          tally_.stops, tally_.refusals, tally_.clock_steps, took);
    }
  }

  const Options options_;
  Report* const reports_;
  const double begun_;
  Tally tally_;
  uint64_t failures_ = 0;
  std::map<std::string, uint64_t> kinds_;
};

constexpr const char* kExamples =
    "Examples:\n"
    "  lockstep --seconds 60                  as many seeds as a minute has time for\n"
    "  lockstep --seed 4711 --seeds 1000      these thousand\n"
    "  lockstep --seed 4711                   one; where it fails, a shorter one that fails, too\n"
    "  lockstep --seed 4711 --trace           what happens in it, to standard error\n"
    "  lockstep --seconds 600 --faults none --layout 2,2 --json -\n";

int main_of(int argc, char** argv) {
  CLI::App app{
      "Runs random programs on all ranks of a job in one thread: one seed says which rank makes "
      "the next access to shared memory, how time passes, who dies, stops or lacks memory."};
  app.footer(kExamples);
  Options options;
  app.add_option("--seed", options.seed, "the first one")->default_val(1);
  app.add_option("--seeds", options.seeds, "how many (with neither this nor --seconds: one)")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "go on with more of them for so long")
      ->check(CLI::PositiveNumber);
  app.add_option("--jobs", options.jobs, "processes that run seeds")->check(CLI::Range(1, 256));
  app.add_flag("--trace", options.trace, "say what happens (one seed only)");
  app.add_flag("--no-shrink", options.no_shrink, "do not look for a shorter one that fails");
  app.add_flag("--keep-going", options.keep_going, "go on after a failure");
  app.add_option("--json", options.json,
                 "counts as a JSON object to a file, - for standard output");
  app.add_option("--layout", options.overrides.layout, "ranks of each server, as 2,1,3");
  app.add_option("--faults", options.overrides.faults, "none, kill, stop, memory, clock or all")
      ->check(CLI::IsMember({"none", "kill", "stop", "memory", "clock", "all"}));
  app.add_option("--calls", options.overrides.calls, "calls of a program")
      ->check(CLI::PositiveNumber);
  const auto list = [&app](const char* name, std::vector<uint32_t>& numbers, const char* help) {
    app.add_option(name, numbers, help)->delimiter(',')->group("Of a run that was made shorter");
  };
  list("--without", options.overrides.without, "these actions");
  list("--simpler", options.overrides.simpler, "these simplifications, one after the other");
  list("--undisturbed", options.overrides.undisturbed, "without these disturbances");
  app.add_option("--schedule", options.overrides.schedule, "another order of steps")
      ->group("Of a run that was made shorter");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  }
  if (options.seeds == 0 && options.seconds == 0) options.seeds = 1;
  if (options.trace && options.seeds != 1) {
    fmt::print(stderr, "lockstep: --trace is for one seed\n");
    return 2;
  }
  if (const std::string wrong = check(options.overrides); !wrong.empty()) {
    fmt::print(stderr, "lockstep: {}\n", wrong);
    return 2;
  }
  return Campaign(options).run();
}

}  // namespace
}  // namespace ibcoll::lockstep

int main(int argc, char** argv) {
  // Addresses are the same in each run: what depends on them can be run again.
  const int before = personality(0xffffffff);
  if (before != -1 && (before & ADDR_NO_RANDOMIZE) == 0 &&
      personality(static_cast<unsigned>(before) | ADDR_NO_RANDOMIZE) != -1)
    execv("/proc/self/exe", argv);
  return ibcoll::lockstep::main_of(argc, argv);
}
