#include "tests/lockstep/bed/control_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "engine/base/log.h"
#include "engine/bootstrap/joined_job.h"
#include "engine/bootstrap/process_manager.h"
#include "tests/lockstep/bed/machine.h"
#include "tests/lockstep/random.h"

namespace ibcoll::lockstep {
namespace {

constexpr int kSilenceMs = 4000, kJoinSeconds = 20;
/// How long all may take besides what the plan lets them wait for.
constexpr int64_t kSlackNs = 60'000'000'000;
constexpr int64_t kSecondNs = 1'000'000'000;

struct Control {
  const ControlPlan& plan;
  const bool trace;
  Bed* bed = nullptr;
  ControlResult result = {};
  bool told = false;
  int joined = 0;
  int64_t all_joined_ns = 0;                          ///< when; outages count from here
  std::optional<int64_t> root_left_ns = {};           ///< when rank 0 was gone
  std::string word = {};                              ///< what rank 0 has the launcher tell
  std::vector<std::optional<std::string>> ends = {};  ///< by rank: the failure that it knows
  int surviving = 0;                                  ///< ranks whose job survives deaths
  bool survives_alone = false;  ///< what has gone wrong since is that ranks have died
  std::vector<std::vector<int64_t>> verdicts = {};  ///< by rank and question
  uint64_t answered = 0;                            ///< ranks that have all of them

  int ranks() const { return static_cast<int>(plan.network.machine_of.size()); }
  void complain(const std::string& text) {
    if (trace) fmt::print(stderr, "{}\n", text);
    if (result.wrong.empty()) result.wrong = text;
  }
};

/// What the launcher does for a process: it passes rank 0's text on.
class Launcher final : public ProcessManager {
 public:
  Launcher(Control& control, Rank rank) : control_(control), rank_(rank) {}
  std::string name() const override { return "lockstep"; }
  Rank rank() const override { return rank_; }
  int size() const override { return control_.ranks(); }
  Result<std::string> broadcast(const std::string& text) override {
    if (rank_ == 0) {
      control_.word = text;
      control_.told = true;
      machine::note_change();
    }
    while (!control_.told) {
      if (machine::is_dead(0))
        return fail(ErrorCode::kPeerFailed, "the launcher has ended, and the job ends with it");
      control_.bed->sleep(20'000);
    }
    return control_.word;
  }

 private:
  Control& control_;
  const Rank rank_;
};

std::byte given_byte(Rank rank, size_t step, size_t at) {
  return static_cast<std::byte>(drawn({static_cast<uint64_t>(rank), step, at / 8}) >> at % 8 * 8);
}

bool leaves(const ControlPlan& plan, Rank rank) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [rank](const ControlStep& step) {
    return step.kind == ControlStep::Kind::kLeave && step.rank == rank;
  });
}

/// A rank's steps; what keeps it from going on.
Status go_through(Control& control, Bootstrap& job, Rank me) {
  Random random(drawn({control.plan.conditions.seed, 7, static_cast<uint64_t>(me)}));
  for (size_t number = 0; number < control.plan.steps.size(); ++number) {
    const ControlStep& step = control.plan.steps[number];
    switch (step.kind) {
      case ControlStep::Kind::kCompute:
        if (step.rank == me) control.bed->sleep(step.ns);
        continue;
      case ControlStep::Kind::kAbort:
        if (step.rank == me)
          job.abort({me, ErrorCode::kSystem, fmt::format("rank {} gives up", me)});
        continue;
      case ControlStep::Kind::kLeave:
        if (step.rank == me) return {};
        continue;
      case ControlStep::Kind::kBarrier:
        IBCOLL_TRY(job.barrier());
        ++control.result.tally.calls;
        continue;
      case ControlStep::Kind::kGather:
        break;
    }
    const bool by_all = step.givers.empty();
    const size_t givers = by_all ? static_cast<size_t>(control.ranks()) : step.givers.size();
    std::vector<std::byte> mine(step.bytes), all(givers * step.bytes);
    for (size_t at = 0; at < mine.size(); ++at) mine[at] = given_byte(me, number, at);
    if (by_all)
      IBCOLL_TRY(job.allgather(mine.data(), mine.size(), all.data()));
    else
      IBCOLL_TRY(job.allgather_of(step.givers, mine.data(), mine.size(), all.data()));
    ++control.result.tally.calls;
    for (size_t at = 0; at < all.size(); ++at) {
      const size_t giver = at / step.bytes;
      const Rank rank = by_all ? static_cast<Rank>(giver) : step.givers[giver];
      if (all[at] == given_byte(rank, number, at % step.bytes)) continue;
      control.complain(fmt::format("rank {}, step {}: byte {} of rank {} is wrong", me, number,
                                   at % step.bytes, rank));
      break;
    }
  }
  return {};
}

/// What ranks do that are left after deaths: each question has one answer, whoever dies, and all
/// get it. Nobody leaves before.
Status ask_questions(Control& control, Bootstrap& job, Rank me) {
  job.set_survival(true);
  IBCOLL_TRY(job.barrier());
  const std::vector<int>& machines = control.plan.network.machine_of;
  const bool alone = std::count(machines.begin(), machines.end(), machines[0]) == control.ranks();
  const auto failure_of = [&job, alone] {
    const auto failure = job.failure();  // of one machine a death, which is survived
    return alone && failure && failure->code == ErrorCode::kRankDied ? std::nullopt : failure;
  };
  if (++control.surviving == control.ranks()) control.survives_alone = control.bed->dead() == 0;
  Random random(drawn({control.plan.conditions.seed, 9, static_cast<uint64_t>(me)}));
  for (int number = 0; number < control.plan.questions; ++number) {
    if (random.one_in(4)) control.bed->sleep(static_cast<int64_t>(random.below(20'000'000)));
    IBCOLL_ASSIGN(std::optional<int64_t> verdict,
                  job.settle(static_cast<uint64_t>(number) + 1, me));
    while (!verdict) {
      if (const auto failure = failure_of()) return tl::unexpected<Error>(failure->error());
      control.bed->sleep(1'000'000);
      verdict = job.verdict(static_cast<uint64_t>(number) + 1);
    }
    control.verdicts[static_cast<size_t>(me)].push_back(*verdict);
    ++control.result.tally.calls;
  }
  control.answered |= uint64_t{1} << me;
  const uint64_t all = (uint64_t{1} << control.ranks()) - 1;
  // Where rank 0 dies as the job begins to survive deaths, machines that have not heard so leave.
  const auto over = [&control] {
    uint64_t ranks = 0;
    for (Rank rank = 0; rank < control.ranks(); ++rank)
      if (control.ends[static_cast<size_t>(rank)]) ranks |= uint64_t{1} << rank;
    return ranks;
  };
  while ((control.answered | control.bed->dead() | over()) != all) {
    if (const auto failure = failure_of()) return tl::unexpected<Error>(failure->error());
    control.bed->sleep(1'000'000);
  }
  return {};
}

int run_rank_of_control(Control& control, Rank me) {
  const uint64_t latest = static_cast<uint64_t>(control.plan.latest_start_ns);
  control.bed->sleep(static_cast<int64_t>(
      drawn({control.plan.conditions.seed, 8, static_cast<uint64_t>(me)}) % (latest + 1)));
  Launcher launcher(control, me);
  JoinOptions options;
  options.machine =
      fmt::format("machine {}", control.plan.network.machine_of[static_cast<size_t>(me)]);
  options.limit_s = kJoinSeconds;
  options.silence_ms = kSilenceMs;
  options.fan_out = control.plan.fan_out;
  options.hosted = true;  // what all processes of one address space would share is left out
  auto job = join_through(launcher, options);
  auto& end = control.ends[static_cast<size_t>(me)];
  const auto note = [&](ErrorCode code, const std::string& text) {
    end = fmt::format("{}: {}", static_cast<int>(code), text);
    if (control.trace)
      fmt::print(stderr, "{:>12} rank {} knows {}\n", machine::true_ns(), me, *end);
  };
  if (!job) {
    note(job.error().code, job.error().message);
    return 0;
  }
  if (control.trace) fmt::print(stderr, "{:>12} rank {} has joined\n", machine::true_ns(), me);
  if (++control.joined == control.ranks()) {
    control.all_joined_ns = machine::true_ns();
    network::begin_outages();
  }
  Status went = go_through(control, **job, me);
  const bool all_steps = went && !leaves(control.plan, me);
  if (all_steps && control.plan.questions > 0) went = ask_questions(control, **job, me);
  if (const auto failure = (*job)->failure();
      failure && (control.plan.questions == 0 || failure->code != ErrorCode::kRankDied || !went)) {
    note(failure->error_code(), failure->what);
  } else if (!went) {
    note(went.error().code, went.error().message);
    control.complain(
        fmt::format("rank {} has an error, and the job has none: {}", me, went.error().message));
  }
  (*job)->set_gone();
  job->reset();
  if (me == 0) control.root_left_ns = machine::true_ns();
  if (control.trace) fmt::print(stderr, "{:>12} rank {} has left\n", machine::true_ns(), me);
  return 0;
}

bool is_long(const Outage& outage) {
  return !outage.resets && outage.until_ns - outage.from_ns > kSecondNs / 2;
}

/// All survivors that know a failure know the same, and there was a reason for it.
void check_ends(Control& control) {
  const ControlPlan& plan = control.plan;
  const uint64_t dead = control.bed->dead();
  const bool disturbed =
      dead != 0 || control.bed->memory_failed() || !plan.network.outages.empty() ||
      std::any_of(plan.steps.begin(), plan.steps.end(), [](const auto& step) {
        return step.kind == ControlStep::Kind::kAbort || step.kind == ControlStep::Kind::kLeave;
      });
  // Who can't reach rank 0, or has none left, decides for itself.
  const bool root_leaves =
      std::any_of(plan.steps.begin(), plan.steps.end(), [](const ControlStep& step) {
        return step.kind == ControlStep::Kind::kLeave && step.rank == 0;
      });
  // What rank 0 said last is lost with its connections, and it says nothing again.
  const auto after_root = [&](const Outage& outage) {
    return control.root_left_ns && control.all_joined_ns + outage.until_ns >= *control.root_left_ns;
  };
  const bool divided =
      (dead & 1) != 0 || root_leaves ||
      std::any_of(plan.network.outages.begin(), plan.network.outages.end(),
                  [&](const Outage& one) { return is_long(one) || after_root(one); });
  const bool outlives =
      control.survives_alone && !control.bed->memory_failed() && plan.network.outages.empty() &&
      std::none_of(plan.conditions.disturbances.begin(), plan.conditions.disturbances.end(),
                   [](const auto& one) { return one.kind == Disturbance::Kind::kStop; });
  const std::string* first = nullptr;
  Rank first_rank = -1;
  for (Rank rank = 0; rank < control.ranks(); ++rank) {
    const auto& end = control.ends[static_cast<size_t>(rank)];
    if (!end || (dead >> rank & 1) != 0) continue;
    if (!disturbed)
      control.complain(fmt::format("rank {} knows a failure of no cause: {}", rank, *end));
    if (outlives)
      control.complain(fmt::format("rank {} knows a failure, not only deaths: {}", rank, *end));
    if (first == nullptr) {
      first = &*end;
      first_rank = rank;
      ++control.result.tally.jobs_over;
    } else if (*first != *end && !divided) {
      control.complain(
          fmt::format("rank {} knows \"{}\", rank {} \"{}\"", first_rank, *first, rank, *end));
    }
  }
}

/// What the dead have heard alone binds nobody.
void check_verdicts(Control& control) {
  for (int number = 0; number < control.plan.questions; ++number) {
    std::optional<int64_t> first;
    for (Rank rank = 0; rank < control.ranks(); ++rank) {
      const auto& heard = control.verdicts[static_cast<size_t>(rank)];
      const bool has_heard = static_cast<size_t>(number) < heard.size();
      if (!has_heard || (control.bed->dead() >> rank & 1) != 0) continue;
      const int64_t verdict = heard[static_cast<size_t>(number)];
      if (!first) first = verdict;
      if (first != verdict) {
        control.complain(
            fmt::format("question {}: rank {} hears {}, others {}", number, rank, verdict, *first));
      }
    }
  }
}

}  // namespace

std::string to_string(const ControlStep& step) {
  switch (step.kind) {
    case ControlStep::Kind::kGather:
      if (step.givers.empty()) return fmt::format("all give {} B", step.bytes);
      return fmt::format("ranks {} give {} B each", fmt::join(step.givers, ","), step.bytes);
    case ControlStep::Kind::kBarrier:
      return "barrier";
    case ControlStep::Kind::kCompute:
      return fmt::format("rank {} computes for {} ns", step.rank, step.ns);
    case ControlStep::Kind::kAbort:
      return fmt::format("rank {} gives up", step.rank);
    default:
      return fmt::format("rank {} leaves", step.rank);
  }
}

ControlPlan control_plan_of(uint64_t seed) {
  Random random(drawn({seed, 2002}));
  ControlPlan plan;
  const uint64_t machines = 1 + random.below(6);
  for (uint64_t machine = 0; machine < machines; ++machine) {
    const uint64_t here = 1 + random.below(3);
    for (uint64_t i = 0; i < here; ++i)
      plan.network.machine_of.push_back(static_cast<int>(machine));
  }
  if (random.one_in(3)) random.shuffle(plan.network.machine_of);
  const auto ranks = plan.network.machine_of.size();
  const auto rank = [&] { return static_cast<int>(random.below(ranks)); };
  const auto length = [&](uint64_t bits) {
    return static_cast<int64_t>(1 + random.below(uint64_t{1000} << random.below(bits)));
  };
  // Drawn by itself, so that plans without are what they were.
  Random of_survivors(drawn({seed, 2003}));
  if (of_survivors.one_in(2)) plan.questions = static_cast<int>(1 + of_survivors.below(12));
  const uint64_t steps = plan.questions > 0 ? random.below(3) : 1 + random.below(12);
  for (uint64_t i = 0; i < steps; ++i) {
    const uint64_t choice = random.below(10);
    ControlStep step;
    if (choice < 4) {
      step.kind = ControlStep::Kind::kGather;
      static constexpr uint32_t kBytes[] = {0, 1, 8, 100, 4088, 4089, 9000};
      step.bytes = random.of(kBytes);
      if (random.one_in(2)) {
        for (int giver = 0; giver < static_cast<int>(ranks); ++giver)
          if (random.one_in(3)) step.givers.push_back(giver);
      }
    } else if (choice < 6) {
      step.kind = ControlStep::Kind::kCompute;
      step.rank = rank();
      step.ns = length(22);
    } else if (choice == 6 && random.one_in(3)) {
      step.kind = ControlStep::Kind::kAbort;
      step.rank = rank();
    } else if (choice == 7 && random.one_in(3)) {
      step.kind = ControlStep::Kind::kLeave;
      step.rank = rank();
    }
    plan.steps.push_back(step);
  }
  plan.steps.push_back({});
  plan.latest_start_ns = length(22);
  plan.fan_out = static_cast<int>(1 + random.below(3));

  Conditions& conditions = plan.conditions;
  conditions.seed = seed;
  static constexpr uint32_t kRuns[] = {1, 2, 8, 64};
  conditions.accesses_in_a_row = random.of(kRuns);
  conditions.slow_ranks = random.one_in(3) ? 3 : 0;
  conditions.delays_stores = random.one_in(2);
  conditions.weak_order = random.one_in(2);
  static constexpr uint32_t kLateWakes[] = {0, 0, 2, 16};
  conditions.late_wakes = random.of(kLateWakes);
  const auto moment = [&] { return 1 + random.below(random.one_in(2) ? 300 : 2000); };
  if (random.one_in(2)) {
    const uint64_t kills = 1 + random.below(2);
    for (uint64_t i = 0; i < kills; ++i)
      conditions.disturbances.push_back({Disturbance::Kind::kKill, rank(), moment()});
  }
  for (uint64_t stops = random.below(3); stops > 0; --stops)
    conditions.disturbances.push_back({Disturbance::Kind::kStop, rank(), moment(), length(20)});
  if (random.one_in(12))
    conditions.disturbances.push_back({Disturbance::Kind::kNoMemory, rank(), 1 + random.below(2)});

  NetworkConditions& network = plan.network;
  network.seed = seed;
  network.longest_latency_ns = length(16);
  network.patience_ns = int64_t{kSilenceMs} * 1'000'000 / 2;
  static constexpr size_t kRooms[] = {4096, 20000, 65536};
  network.room = random.of(kRooms);
  if (machines > 1 && random.one_in(3)) {
    Outage outage;
    outage.machine = static_cast<int>(random.below(machines));
    outage.from_ns = length(18);
    outage.resets = random.one_in(2);
    outage.until_ns = outage.from_ns + length(23);
    network.outages.push_back(outage);
  }
  return plan;
}

std::string to_string(const ControlPlan& plan) {
  std::string text = fmt::format(
      "control tree, machines of the ranks: {}, fan-out {}, latency up to {} ns, room {} B\n",
      fmt::join(plan.network.machine_of, " "), plan.fan_out, plan.network.longest_latency_ns,
      plan.network.room);
  for (const Outage& outage : plan.network.outages)
    text += fmt::format("machine {} {} at {} ns until {} ns\n", outage.machine,
                        outage.resets ? "loses its connections" : "is cut off", outage.from_ns,
                        outage.until_ns);
  for (const Disturbance& one : plan.conditions.disturbances) text += to_string(one) + " ";
  if (!plan.conditions.disturbances.empty()) text += "\n";
  for (const ControlStep& step : plan.steps) text += "  " + to_string(step) + "\n";
  if (plan.questions > 0)
    text += fmt::format("  survives deaths, and asks {} questions\n", plan.questions);
  return text;
}

ControlResult run_control(const ControlPlan& plan, bool trace) {
  log().debug("");  // see run_in_bed()
  Control control{.plan = plan, .trace = trace};
  if (sodium_init() < 0) control.complain("libsodium can't start");
  control.ends.resize(static_cast<size_t>(control.ranks()));
  control.verdicts.resize(static_cast<size_t>(control.ranks()));
  if (trace) fmt::print(stderr, "{}", to_string(plan));
  network::begin(plan.network);
  Bed bed(plan.conditions, control.ranks());
  control.bed = &bed;
  bed.trace(trace);
  bed.ended = [](int, int) {};
  for (Rank rank = 0; rank < control.ranks(); ++rank)
    bed.start(rank, [&control, rank] { return run_rank_of_control(control, rank); });
  bed.run();
  int64_t longest = kSlackNs + plan.latest_start_ns;
  for (const ControlStep& step : plan.steps) longest += step.ns;
  for (const Disturbance& one : plan.conditions.disturbances) longest += one.ns;
  for (const Outage& outage : plan.network.outages) longest += outage.until_ns - outage.from_ns;
  if (!bed.stuck().empty() || bed.now_ns() - kSecondNs > longest) {
    std::string left;
    for (Rank rank = 0; rank < control.ranks(); ++rank) {
      if (machine::is_dead(rank)) continue;
      left += fmt::format(" {}", rank);
      bed.kill(rank);
    }
    control.complain(bed.stuck().empty() ? "it takes longer than all that may be waited for"
                                         : fmt::format("{}: ranks{} are left", bed.stuck(), left));
  }
  check_ends(control);
  check_verdicts(control);
  const Counts& counts = bed.counts();
  Tally& tally = control.result.tally;
  tally.runs = 1;
  tally.steps = counts.changes;
  tally.accesses = counts.accesses;
  tally.switches = counts.switches;
  tally.virtual_ns = static_cast<uint64_t>(counts.virtual_ns);
  tally.fault(Fault::kDeath) = counts.kills;
  tally.fault(Fault::kStop) = counts.stops;
  tally.fault(Fault::kMemory) = counts.refusals;
  tally.fault(Fault::kLateWake) = counts.late_wakes;
  tally.fault(Fault::kEarlyWake) = counts.early_wakes;
  tally.fault(Fault::kReordered) = counts.stores_reordered;
  tally.fault(Fault::kOutage) = plan.network.outages.size();
  network::end();
  return control.result;
}

}  // namespace ibcoll::lockstep
