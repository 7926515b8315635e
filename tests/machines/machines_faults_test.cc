// Faults in jobs between namespaces that look like machines, over UCX and TCP: ranks that die or
// stop, links that are cut.

#include <algorithm>
#include <random>
#include <set>
#include <thread>

#include "tests/launched.h"
#include "tests/machines/machines_job.h"

namespace ibcoll::testing {
namespace {

/// A fault drawn by a seed, at a time drawn by it, in a job drawn by it.
struct RandomFault {
  explicit RandomFault(uint32_t seed) : random(seed) {
    const std::vector<std::vector<int>> layouts = {{1, 1}, {2, 1, 1}, {2, 2}, {3, 1, 2}};
    const std::vector<int> ranks_of = layouts[draw(layouts.size())];
    for (size_t machine = 0; machine < ranks_of.size(); ++machine) {
      layout += (machine == 0 ? "" : ",") + std::to_string(ranks_of[machine]);
      machine_of.insert(machine_of.end(), ranks_of[machine], static_cast<int>(machine));
    }
    if (machine_of.size() == 2) layout = "2x1";  // "1,1" is a list of two, too
    const std::vector<std::string> algorithms = {"ring", "two_level_ring", "aggregate", "linear"};
    algorithm = algorithms[draw(algorithms.size())];
    const std::vector<size_t> all_sizes = {0, 8, 500, 4096, 40000, 300000};
    for (int i = 0; i < 3; ++i) sizes.push_back(all_sizes[draw(all_sizes.size())]);
    delay = milliseconds(draw(60));
    cut = static_cast<int>(draw(ranks_of.size()));
    victim = static_cast<Rank>(draw(machine_of.size()));
    down = milliseconds(50 + draw(300));
    switch (draw(7)) {
      case 0:
        kind = kKill;
        text = fmt::format("rank {} killed", victim);
        break;
      case 1:
        kind = kStopAndKill;
        text = fmt::format("rank {} killed while stopped", victim);
        break;
      case 2:
        kind = kStop;
        text = fmt::format("rank {} stopped for {} ms", victim, down.count());
        break;
      case 3:
        kind = kLate;
        text = fmt::format("rank {} late by {} ms", victim, 3 * down.count());
        break;
      case 4:
        kind = kFlap;
        text = fmt::format("link {} down for {} ms", cut + 1, down.count());
        break;
      case 5:
        kind = kCut;
        text = fmt::format("link {} down", cut + 1);
        break;
      default:
        kind = kCutAndKill;
        text = fmt::format("link {} down, rank {} killed", cut + 1, victim);
    }
    text += fmt::format(" after {} ms of {} between {}", delay.count(), algorithm, layout);
  }
  size_t draw(size_t below) { return random() % below; }
  bool kills() const { return kind == kKill || kind == kStopAndKill || kind == kCutAndKill; }
  bool cuts() const { return kind == kCut || kind == kCutAndKill; }
  bool fatal() const { return kills() || cuts(); }

  /// Ranks of one side can hear of the same failure.
  int side_of(Rank rank) const {
    const int machine = machine_of[rank];
    return !cuts() || (cut != 0 && machine != cut) ? 0 : machine + 1;
  }

  void disturb(Stage& stage) const {
    std::this_thread::sleep_for(delay);
    const std::string link = fmt::format("ip link set v{} ", cut + 1);
    if (cuts() || kind == kFlap) std::ignore = std::system((link + "down").c_str());
    if (kind == kStop || kind == kStopAndKill) kill(stage.pids[victim], SIGSTOP);
    if (kind == kLate) stage.late_ms[victim] = static_cast<int>(3 * down.count());
    if (kind == kStop || kind == kStopAndKill || kind == kFlap) std::this_thread::sleep_for(down);
    if (kind == kStop) kill(stage.pids[victim], SIGCONT);
    if (kills()) kill(stage.pids[victim], SIGKILL);
    if (kind == kFlap) std::ignore = std::system((link + "up").c_str());
  }

  enum Kind { kKill, kStopAndKill, kStop, kLate, kFlap, kCut, kCutAndKill };
  std::mt19937 random;
  std::string layout, algorithm, text;
  std::vector<int> machine_of;
  std::vector<size_t> sizes;
  milliseconds delay{}, down{};
  int cut = 0;
  Rank victim = 0;
  Kind kind = kKill;
};

using Clock = std::chrono::steady_clock;

/// When things happened, as all processes of this host see it.
struct Moments {
  std::atomic<int64_t> disturbed_ns, failed_ns[kMaxRanks];

  static int64_t now_ns() { return Clock::now().time_since_epoch().count(); }
  /// From the disturbance to the last rank's error.
  double seconds() const {
    int64_t last = disturbed_ns;
    for (const auto& failed : failed_ns) last = std::max<int64_t>(last, failed);
    return static_cast<double>(last - disturbed_ns) / 1e9;
  }
};

/// Runs a job between machines that is disturbed.
Outcome run_disturbed_between_machines(size_t ranks, const Body& body, const Disturb& disturb,
                                       Moments& moments) {
  const SharedStage stage;
  Disturber disturber(*stage, static_cast<int>(ranks), [&](Stage& shared) {
    disturb(shared);
    moments.disturbed_ns = Moments::now_ns();
  });
  Outcome outcome;
  outcome.all = run_between_machines(
      [&](const RankView& rank) {
        body(rank, *stage);
        moments.failed_ns[rank.context.rank()] = Moments::now_ns();
      },
      &*stage);
  stage->ended = true;
  disturber.end();
  outcome.errors = errors_in(outcome.all);
  return outcome;
}

/// A second until a link counts as down, and four more as promised, on a host that is busy.
constexpr double kLongestSeconds = 9;

class MachinesFaults : public MachinesTest {
 protected:
  /// On the head.
  static void expect_one_error_or_none(const RandomFault& fault) {
    // What is down for good is to end soon; a link that comes back may take a while on a busy host.
    if (fault.cuts()) setenv("IBCOLL_PORT_DOWN", "1s", 1);
    InSharedMemory<Moments> moments;
    const Outcome outcome = run_disturbed_between_machines(
        fault.machine_of.size(),
        exchanges(fault.fatal() ? kUntilItFails : 60, fault.sizes, fault.algorithm),
        [&](Stage& stage) { fault.disturb(stage); }, *moments);
    std::fprintf(stderr, "%s: after %.1f s: %s\n", fault.text.c_str(), moments->seconds(),
                 outcome.all.empty() ? "right" : outcome.all.c_str());
    if (!fault.fatal()) {
      EXPECT_EQ(outcome.all, "");
      return;
    }
    // Rank 0 decides what all are told. Machines that a cut leaves without a way to it can't agree
    // with each other: the ranks of each do.
    std::map<int, std::set<std::string>> errors_of;
    for (Rank rank = 0; rank < static_cast<Rank>(fault.machine_of.size()); ++rank) {
      if (fault.kills() && rank == fault.victim) continue;
      const auto found = outcome.errors.find(rank);
      ASSERT_NE(found, outcome.errors.end()) << "rank " << rank << " has no error\n" << outcome.all;
      EXPECT_THAT(found->second, ::testing::Not(::testing::HasSubstr("wrong data")));
      errors_of[fault.side_of(rank)].insert(common(found->second));
    }
    // Much less than a report waits for the word of a rank 0 that is there, but late.
    EXPECT_LT(moments->seconds(), kLongestSeconds) << outcome.all;
    for (const auto& [side, errors] : errors_of) EXPECT_EQ(errors.size(), 1u) << outcome.all;
    if (fault.kills() && !fault.cuts()) {
      EXPECT_THAT(*errors_of.begin()->second.begin(),
                  ::testing::HasSubstr(fmt::format("rank {}", fault.victim)));
    }
  }

  /// TEST_FAULT_SEED: the first; `count`: how many, unless TEST_FAULTS says.
  static void run_random_faults(uint32_t first, uint32_t count) {
    first = number_from_environment("TEST_FAULT_SEED", first);
    if (on_head()) {
      alarm(60);
      return expect_one_error_or_none(RandomFault(first));
    }
    count = number_from_environment("TEST_FAULTS", count);
    for (uint32_t seed = first; seed < first + count && !HasFailure(); ++seed) {
      setenv("TEST_FAULT_SEED", std::to_string(seed).c_str(), 1);
      const RandomFault fault(seed);
      SCOPED_TRACE(fmt::format("TEST_FAULT_SEED={}: {}", seed, fault.text));
      run_on_head(fault.layout, 90);
    }
    unsetenv("TEST_FAULT_SEED");
  }
};

TEST_F(MachinesFaults, RandomOnesNeverHang) { run_random_faults(1, 5); }
TEST_F(MachinesFaults, RandomOnesNeverHangFull) { run_random_faults(1, 200); }

}  // namespace
}  // namespace ibcoll::testing
