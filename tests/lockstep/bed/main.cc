// lockstep: random programs on all ranks of a job in one thread, every step in a seeded order. See
// docs/lockstep.md.

#include <fmt/format.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/base/input.h"
#include "engine/base/json.h"
#include "tests/lockstep/algorithms.h"
#include "tests/lockstep/bed/runs.h"
#include "tools/frame/frame.h"

namespace ibcoll::lockstep {
namespace {

struct Options {
  uint64_t seed = 1, seeds = 0;
  double seconds = 0;
  int jobs = 2;
  bool control = false, trace = false, no_shrink = false, keep_going = false, table = false;
  std::string json, totals;
  Overrides overrides;
};

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

class Campaign {
 public:
  explicit Campaign(const Options& options)
      : options_(options),
        reports_(shared_reports(static_cast<size_t>(options.jobs) + 1)),
        begun_(wall_s()) {}

  int run() {
    if (options_.seeds == 1 && options_.seconds == 0) return replay();
    const uint64_t first = options_.totals.empty() ? options_.seed : resumed();
    uint64_t next = first;
    std::map<pid_t, Running> running;
    while (true) {
      const bool more = (tally_.failures == 0 || options_.keep_going) &&
                        (options_.seeds == 0 || next < first + options_.seeds) &&
                        (options_.seconds == 0 || wall_s() - begun_ < options_.seconds);
      if (more && running.size() < static_cast<size_t>(options_.jobs)) {
        size_t slot = 0;
        while (std::any_of(running.begin(), running.end(),
                           [slot](const auto& one) { return one.second.slot == slot; }))
          ++slot;
        Report& report = reports_[slot];
        const pid_t pid = options_.control
                              ? start_control(next, report, false)
                              : start(plan_of(next, options_.overrides), report, false);
        running[pid] = {next, slot};
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
      if (wall_s() - added_at_ > kBetweenTotalsS) add_to_totals(next);
    }
    add_to_totals(next);
    tell();
    return tally_.failures == 0 ? 0 : 1;
  }

 private:
  static constexpr double kBetweenTotalsS = 30;

  struct Running {
    uint64_t seed = 0;
    size_t slot = 0;
  };

  int replay() {
    Report& report = reports_[0];
    const std::string wrong =
        options_.control
            ? wait_for(start_control(options_.seed, report, options_.trace), report)
            : run_alone(plan_of(options_.seed, options_.overrides), options_.trace, report);
    tally_ = report.tally;
    if (!wrong.empty()) {
      fmt::print(stderr, "lockstep: seed {}: {}\n", options_.seed, wrong);
      tally_.failures = 1;
      if (!options_.no_shrink && !options_.trace && !options_.control) explain(options_.seed);
    }
    tell();
    return wrong.empty() ? 0 : 1;
  }

  void failed(uint64_t seed, const std::string& wrong) {
    ++tally_.failures;
    fmt::print(stderr, "lockstep: seed {}: {}\n", seed, wrong);
    if (options_.no_shrink || options_.control || !kinds_.emplace(kind_of(wrong), seed).second)
      return;
    explain(seed);
  }

  void explain(uint64_t seed) {
    Report& report = reports_[static_cast<size_t>(options_.jobs)];
    if (run_alone(plan_of(seed, options_.overrides), false, report).empty()) {
      fmt::print(stderr, "lockstep: run again it ends well: something is left to chance\n");
      return;
    }
    const Overrides shorter = shrink(seed, options_.overrides, report);
    const RunPlan plan = plan_of(seed, shorter);
    run_alone(plan, false, report);
    fmt::print(stderr, "lockstep: {}\n{}lockstep: the same: lockstep {} --trace\n", report.wrong,
               to_string(plan), to_options(seed, shorter));
  }

  /// Where the last campaign with the same totals ended.
  uint64_t resumed() {
    const Result<std::string> text = read_input(options_.totals);
    if (!text && access(options_.totals.c_str(), F_OK) != 0) return options_.seed;
    const auto json = text ? parse_json(*text) : tl::unexpected(text.error());
    if (!json || !json->contains("next_seed")) {
      fmt::print(stderr, "lockstep: {} has no totals\n", options_.totals);
      std::exit(1);
    }
    before_ = tally_of(*json);
    return (*json)["next_seed"].get<uint64_t>();
  }

  /// Totals are whole at any time: a campaign of days may be killed.
  void add_to_totals(uint64_t next) {
    added_at_ = wall_s();
    if (options_.totals.empty()) return;
    Tally all = before_;
    all.add(tally_);
    nlohmann::ordered_json json = to_json(all);
    json["next_seed"] = next;
    const std::string fresh = options_.totals + ".new";
    write(fresh, json);
    if (std::rename(fresh.c_str(), options_.totals.c_str()) != 0) cannot_write(options_.totals);
  }

  [[noreturn]] static void cannot_write(const std::string& path) {
    fmt::print(stderr, "lockstep: can't write {}: {}\n", path, std::strerror(errno));
    std::exit(1);
  }

  static void write(const std::string& path, const nlohmann::ordered_json& json) {
    std::FILE* const file = std::fopen(path.c_str(), "w");
    if (file == nullptr) cannot_write(path);
    const bool written = std::fputs((json_text(json) + "\n").c_str(), file) >= 0;
    if (std::fclose(file) != 0 || !written) cannot_write(path);
  }

  void tell() const {
    const double took = wall_s() - begun_;
    nlohmann::ordered_json json = to_json(tally_);
    json["seconds"] = took;
    if (options_.json == "-") {
      fmt::print("{}\n", json_text(json));
      return;
    }
    if (!options_.json.empty()) write(options_.json, json);
    if (options_.table) {
      Tally all = before_;
      all.add(tally_);
      fmt::print("{}", to_table(all));
    }
    fmt::print(
        "{} runs, {} failed: {} calls checked, {} steps, {} faults ({} deaths, {} stops), "
        "{:.1f} s\n",
        tally_.runs, tally_.failures, tally_.calls, tally_.steps, tally_.large_faults(),
        tally_.faults[static_cast<size_t>(Fault::kDeath)],
        tally_.faults[static_cast<size_t>(Fault::kStop)], took);
  }

  const Options options_;
  Report* const reports_;
  const double begun_;
  Tally tally_, before_;  ///< of this campaign, and of earlier ones of the same totals
  double added_at_ = begun_;
  std::map<std::string, uint64_t> kinds_;
};

constexpr const char* kExamples =
    "Examples:\n"
    "  lockstep --seconds 60                  as many seeds as a minute has time for\n"
    "  lockstep --seed 4711 --seeds 1000      these thousand\n"
    "  lockstep --seed 4711                   one; where it fails, a shorter one that fails, too\n"
    "  lockstep --seed 4711 --trace           what happens in it, to standard error\n"
    "  lockstep --seconds 86400 --keep-going --totals all.json --table\n"
    "                                         goes on for a day where the last one ended\n"
    "  lockstep --seconds 600 --faults none --layout 2,2 --json -\n";

int main_of(int argc, char** argv) {
  tools::CommandLine app(
      "Runs random programs on all ranks of a job in one thread: one seed says which rank makes "
      "the next access to shared memory, how time passes, who dies, stops or lacks memory.");
  app.footer(kExamples);
  Options options;
  app.option("--seed", options.seed, "the first one").with_default();
  app.option("--seeds", options.seeds, "how many (with neither this nor --seconds: one)")
      .between(1, 1'000'000'000);
  app.option("--seconds", options.seconds, "go on with more of them for so long")
      .between_reals(1e-3, 1e9);
  app.option("--jobs", options.jobs, "processes that run seeds").between(1, 256);
  app.flag("--control", options.control,
           "the control tree between machines alone, without the engine above it");
  app.flag("--trace", options.trace, "say what happens (one seed only)");
  app.flag("--no-shrink", options.no_shrink, "do not look for a shorter one that fails");
  app.flag("--keep-going", options.keep_going, "go on after a failure");
  app.option("--json", options.json, "counts as a JSON object to a file, - for standard output");
  app.flag("--table", options.table, "print all counts");
  app.option("--totals", options.totals,
             "go on where the campaign ended whose counts are in this file, and add to them");
  app.option("--layout", options.overrides.layout, "ranks of each server, as 2,1,3");
  app.option("--faults", options.overrides.faults,
             "none, kill, stop, memory, clock, call, flip or all")
      .one_of({"none", "kill", "stop", "memory", "clock", "call", "flip", "all"});
  app.option("--calls", options.overrides.calls, "calls of a program").between(1, 1'000'000);
  const auto list = [&app](const char* name, std::vector<uint32_t>& numbers, const char* help) {
    app.option(name, numbers, help).delimiter(',').group("Of a run that was made shorter");
  };
  list("--without", options.overrides.without, "these actions");
  list("--simpler", options.overrides.simpler, "these simplifications, one after the other");
  list("--undisturbed", options.overrides.undisturbed, "without these disturbances");
  app.flag("--wide", options.overrides.wide, "with the limits of the product")
      .group("Of a run that was made shorter");
  app.option("--schedule", options.overrides.schedule, "another order of steps")
      .group("Of a run that was made shorter");
  return tools::run_tool_to_status(app, argc, argv, [&]() -> Result<int> {
    if (options.seeds == 0 && options.seconds == 0) options.seeds = 1;
    if (!options.totals.empty() && options.seeds == 1 && options.seconds == 0) {
      return fail(ErrorCode::kInvalidArgument, "--totals is for many seeds: --seeds or --seconds");
    }
    if (options.trace && options.seeds != 1)
      return fail(ErrorCode::kInvalidArgument, "--trace is for one seed");
    if (const std::string wrong = check(options.overrides); !wrong.empty())
      return fail(ErrorCode::kInvalidArgument, "{}", wrong);
    return Campaign(options).run();
  });
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
