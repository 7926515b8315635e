#include "tests/lockstep/bed/job.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/base/log.h"
#include "engine/bootstrap/control.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/process_end.h"
#include "ibcoll/ibcoll.h"
#include "tests/lockstep/bed/hooks.h"
#include "tests/lockstep/bed/machine.h"
#include "tests/lockstep/run.h"

namespace ibcoll {
namespace lockstep {
namespace {

/// A stop or a step of the clock that is longer may let a deadline pass that was meant never to.
constexpr int64_t kLongDelayNs = 100'000'000;
/// How long ranks may go on after the job is over, beside stops: those stand still for up to 17 s
/// each.
constexpr int64_t kGraceNs = int64_t{180} * 1'000'000'000;

struct Job {
  const Program& program;
  const Conditions& conditions;
  const bool trace;
  Bed* bed = nullptr;
  RunResult result;
  Expectations expectations;
  std::vector<std::optional<std::string>> over;  ///< by rank: the job's end as it saw it
  uint64_t through = 0;                          ///< bit r: rank r has gone through its program
  bool unnoticed = false;                        ///< see Runner

  void complain(const std::string& text) {
    if (trace) fmt::print(stderr, "{}\n", text);
    if (result.wrong.empty()) result.wrong = text;
  }
};

Job* g_job = nullptr;

/// A rank that is a process of the bed.
class BedRunner final : public Runner {
 public:
  BedRunner(Job& job, Rank me) : job_(job), me_(me) {}

  void* memory(size_t bytes) override {
    return std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  }
  void pause(int64_t ns) override {
    ++job_.result.tally.fault(Fault::kLate);
    job_.bed->sleep(ns);
  }
  /// Looks come less often the longer nothing ends: where all ranks look for one that has been
  /// stopped, each look takes a step, and time hardly passes.
  void look_again() override {
    if (++looks_ % kLooksAtOnce != 0) return machine::yield();
    job_.bed->sleep(std::min(looks_ * kNapNs, kLongestNapNs));
  }
  Faults faults() override {
    Faults faults;
    faults.dead = job_.bed->dead();
    faults.died_amid = faults.dead & ~job_.through;
    faults.memory_failed = job_.bed->memory_failed();
    faults.call_failed = job_.bed->call_failed();
    faults.flipped = job_.bed->flipped();
    faults.late = job_.bed->longest_delay_ns() > kLongDelayNs;
    return faults;
  }
  Expectations& expectations() override { return job_.expectations; }
  void finished(Operation operation, ibcoll_status status) override {
    looks_ = 0;
    Tally& tally = job_.result.tally;
    ++tally.ended[static_cast<size_t>(operation)][std::min<size_t>(status, Tally::kStatuses - 1)];
    if (operation == Operation::kCancel) {
      ++tally.fault(Fault::kCancel);
    } else if (status == IBCOLL_OK && operation < Operation::kMakeGroup) {
      ++tally.calls;
    } else if (status == IBCOLL_ERR_DEADLINE && ibcoll_last_error_scope() != IBCOLL_SCOPE_JOB) {
      ++tally.fault(Fault::kDeadline);
    }
    if (job_.trace)
      fmt::print(stderr, "{:>12} rank {}: {} ends, status {}\n", job_.bed->now_ns(), me_,
                 to_string(operation), static_cast<int>(status));
  }
  void over(ibcoll_status status, const std::string& text) override {
    if (job_.trace)
      fmt::print(stderr, "{:>12} rank {}: the job is over, status {}: {}\n", job_.bed->now_ns(),
                 me_, static_cast<int>(status), text);
    job_.bed->let_go(me_);
    job_.over[static_cast<size_t>(me_)] =
        fmt::format("status {}: {}", static_cast<int>(status), text);
  }
  void unnoticed() override { job_.unnoticed = true; }
  void violation(const std::string& text) override { job_.complain(text); }

 private:
  static constexpr int64_t kLooksAtOnce = 16, kNapNs = 100, kLongestNapNs = 1'000'000;

  Job& job_;
  const Rank me_;
  int64_t looks_ = 0;  ///< since an operation has ended
};

int run_rank_of_job(ibcoll_context* context, void*) {
  Job& job = *g_job;
  const Rank me = ibcoll_rank(context);
  BedRunner runner(job, me);
  run_rank(context, job.program, me, runner);
  job.through |= uint64_t{1} << me;
  return 0;
}

/// All survivors that have an error have the same.
void compare_ends(Job& job) {
  const std::string* first = nullptr;
  for (size_t rank = 0; rank < job.over.size(); ++rank) {
    if (!job.over[rank] || (job.bed->dead() >> rank & 1) != 0) continue;
    if (first == nullptr) {
      first = &*job.over[rank];
      ++job.result.tally.jobs_over;
    } else if (*first != *job.over[rank]) {
      job.complain(fmt::format("the job ends with {} on one rank and with {} on rank {}", *first,
                               *job.over[rank], rank));
    }
  }
}

std::string layout_of(const std::vector<int>& servers) {
  return fmt::format("{}", fmt::join(servers, ","));
}

}  // namespace

RunResult run_in_bed(const Program& program, const Conditions& conditions, bool trace) {
  log().debug("");  // made now: ranks, which are one thread, can't wait for each other to make it
  const auto ranks = static_cast<size_t>(program.ranks());
  Job job{program, conditions, trace, nullptr, {}, {}, {}, 0};
  job.over.resize(ranks);
  g_job = &job;
  const std::string layout = layout_of(program.options.layout);
  ibcoll_launch_options options = IBCOLL_LAUNCH_OPTIONS_INIT;
  options.ranks = static_cast<int>(ranks);
  options.layout = layout.c_str();
  int status = 0;
  if (ibcoll_launch(&options, run_rank_of_job, nullptr, &status) != IBCOLL_OK)
    job.complain(fmt::format("the job does not start: {}", ibcoll_last_error()));
  g_job = nullptr;
  return job.result;
}

}  // namespace lockstep

/// Stands in for that of engine/bootstrap: ranks are processes of the bed.
Result<int> launch_processes(const LaunchOptions& options, const RankMain& main) {
  using lockstep::Bed;
  lockstep::Job& job = *lockstep::g_job;
  IBCOLL_ASSIGN(const auto control,
                ControlBlock::create(options.ranks, ControlBlock::Sharing::kProcesses));
  Bed bed(job.conditions, options.ranks);
  bed.trace(job.trace);
  job.bed = &bed;
  int result = 0;
  int64_t deadline_ns = 0;
  bed.ended = [&](int rank, int status) {
    const int code = (status & 0x7f) != 0 ? 128 + (status & 0x7f) : status >> 8;
    const Failure failure = end_of_rank(rank, lockstep::machine::kFirstPid + rank, status);
    if (code != 0) {
      if (result == 0) result = code;
      control->note_end(failure);
      control->report(failure, options.ranks);
    }
    control->departed(rank);
  };
  bed.between = [&] {
    if (deadline_ns == 0) {
      if (control->failure())
        deadline_ns = bed.now_ns() + lockstep::kGraceNs * job.conditions.patience();
    } else if (bed.now_ns() > deadline_ns) {
      for (int rank = 0; rank < options.ranks; ++rank) {
        if ((bed.dead() >> rank & 1) == 0 && !lockstep::machine::is_dead(rank)) {
          job.complain(fmt::format("rank {} goes on after the job is over: {}", rank,
                                   control->failure()->what));
          bed.kill(rank);
        }
      }
    }
  };
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    bed.start(rank, [&, rank] {
      set_log_rank(rank);
      return main(*control->bootstrap(rank));
    });
  }
  bed.run();
  if (!bed.stuck().empty()) {
    std::string waiting;
    for (int rank = 0; rank < options.ranks; ++rank) {
      if (lockstep::machine::is_dead(rank)) continue;
      waiting += fmt::format(" {}", rank);
      bed.kill(rank);
    }
    job.complain(fmt::format("{}: ranks{} are left", bed.stuck(), waiting));
  }
  if (job.unnoticed && result == 0) job.complain("ranks disagreed, and the job ended well");
  compare_ends(job);
  const lockstep::Counts& counts = bed.counts();
  lockstep::Tally& tally = job.result.tally;
  tally.runs = 1;
  tally.steps = counts.changes;
  tally.accesses = counts.accesses;
  tally.switches = counts.switches;
  tally.virtual_ns = static_cast<uint64_t>(counts.virtual_ns);
  tally.ways = lockstep::hook_counts().ways;
  tally.fault(lockstep::Fault::kDeath) = counts.kills;
  tally.fault(lockstep::Fault::kStop) = counts.stops;
  tally.fault(lockstep::Fault::kClock) = counts.clock_steps;
  tally.fault(lockstep::Fault::kMemory) = counts.refusals;
  tally.fault(lockstep::Fault::kHeap) = counts.heap_refusals;
  tally.fault(lockstep::Fault::kCall) = counts.failed_calls;
  tally.fault(lockstep::Fault::kFlip) = counts.flips;
  tally.fault(lockstep::Fault::kRoom) = counts.rooms_refused;
  tally.fault(lockstep::Fault::kLateWake) = counts.late_wakes;
  tally.fault(lockstep::Fault::kEarlyWake) = counts.early_wakes;
  tally.fault(lockstep::Fault::kReordered) = counts.stores_reordered;
  tally.fault(lockstep::Fault::kExchange) = counts.exchanges_failed;
  job.bed = nullptr;
  return result;
}

}  // namespace ibcoll
