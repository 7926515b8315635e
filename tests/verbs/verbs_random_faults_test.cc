// Random faults in jobs over real verbs: see verbs_faults_test.cc.

#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <optional>
#include <random>
#include <set>

#include "tests/verbs/verbs_faults.h"

namespace ibcoll::testing {
namespace {

/// A fault drawn by a seed, at a time drawn by it, in a job drawn by it.
struct RandomFault {
  explicit RandomFault(uint32_t seed) : random(seed) {
    const std::vector<std::vector<int>> layouts = {{1, 1}, {2, 1, 1}, {2, 2, 1}, {3, 1, 2}};
    layout = layouts[draw(layouts.size())];
    for (const int ranks : layout) total += ranks;
    const std::vector<std::string> algorithms = {"ring", "two_level_ring", "aggregate", "linear"};
    algorithm = algorithms[draw(algorithms.size())];
    const std::vector<size_t> all_sizes = {0, 8, 500, 4096, 40000, 300000};
    for (int i = 0; i < 3; ++i) sizes.push_back(all_sizes[draw(all_sizes.size())]);
    delay = milliseconds(draw(60));
    const std::string port = std::to_string(1 + draw(layout.size()));
    victim = static_cast<Rank>(1 + draw(static_cast<size_t>(total - 1)));  // rank 0 tells the tale
    survivors = total;
    switch (draw(11)) {
      case 0:
        text = fmt::format("kill rank {}", victim);
        act = [this](Stage& stage) { kill(stage.pids[victim], SIGKILL); };
        fatal = true;
        killed = true;
        survivors = total - 1;
        break;
      case 1:
        text = fmt::format("link {} down", port);
        command = fmt::format("ip -n sw link set v{} down", port);
        fatal = true;
        break;
      case 2:
        text = fmt::format("link {} down for a while", port);
        command = fmt::format("ip -n sw link set v{0} down; sleep 0.{1}; ip -n sw link set v{0} up",
                              port, 1 + draw(9));
        may_fail = true;
        break;
      case 3:
        text = "packets lost";
        command = fmt::format("tc qdisc add dev e{} root netem loss {}%", port, 1 + draw(15));
        may_fail = true;
        break;
      case 4:
        text = fmt::format("rank {} stopped for a while", victim);
        act = [this](Stage& stage) {
          kill(stage.pids[victim], SIGSTOP);
          std::this_thread::sleep_for(milliseconds(200));
          kill(stage.pids[victim], SIGCONT);
        };
        break;
      case 5:
        text = fmt::format("rank {} comes late", victim);
        act = [this, ms = 100 + static_cast<int>(draw(1500))](Stage& stage) {
          stage.late_ms[victim] = ms;
        };
        break;
      case 6:
        text = fmt::format("link {} down and up three times", port);
        command = fmt::format(
            "for i in 1 2 3; do ip -n sw link set v{0} down; sleep 0.0{1}; ip -n sw link set v{0} "
            "up; sleep 0.{2}; done",
            port, 1 + draw(9), draw(4));
        may_fail = true;
        break;
      case 7:
        text = fmt::format("rank {} may lock no more memory", victim);
        act = [this, bytes = draw(3) * 100'000](Stage& stage) {
          const rlimit limit{bytes, bytes};
          prlimit(stage.pids[victim], RLIMIT_MEMLOCK, &limit, nullptr);
        };
        unprivileged = may_fail = true;
        break;
      case 8:
        text = fmt::format("rank {} may open no more files", victim);
        act = [this](Stage& stage) {
          const rlimit limit{3, 3};
          prlimit(stage.pids[victim], RLIMIT_NOFILE, &limit, nullptr);
        };
        may_fail = true;
        break;
      case 9:
        text = fmt::format("rank {} killed while stopped", victim);
        act = [this](Stage& stage) {
          kill(stage.pids[victim], SIGSTOP);
          std::this_thread::sleep_for(milliseconds(100));
          kill(stage.pids[victim], SIGKILL);
        };
        fatal = true;
        killed = true;
        survivors = total - 1;
        break;
      default:
        text = fmt::format("ranks {} and up killed, link {} down", victim, port);
        command = fmt::format("ip -n sw link set v{} down", port);
        act = [this](Stage& stage) {
          for (Rank rank = victim; rank < total; ++rank) kill(stage.pids[rank], SIGKILL);
        };
        fatal = true;
        survivors = victim;
    }
    text += fmt::format(" after {} ms of {} with {} ranks", delay.count(), algorithm, total);
  }
  size_t draw(size_t below) { return random() % below; }
  void disturb(Stage& stage) const {
    std::this_thread::sleep_for(delay);
    if (!command.empty()) std::ignore = std::system(command.c_str());
    if (act) act(stage);
  }

  std::mt19937 random;
  std::vector<int> layout;
  int total = 0, survivors = 0;
  std::string algorithm, command, text;
  std::vector<size_t> sizes;
  milliseconds delay{};
  Rank victim = 0;
  std::function<void(Stage&)> act;
  bool fatal = false;         ///< ends the job for certain
  bool may_fail = false;      ///< may be more than retries get over
  bool killed = false;        ///< the victim, and nothing else
  bool unprivileged = false;  ///< ranks are bound by their limit of locked memory
};

/// What a job may leave behind: processes of this program, files in memory and in the temporary
/// directory, descriptors of this process.
std::set<std::string> traces() {
  namespace fs = std::filesystem;
  std::set<std::string> found;
  std::error_code gone;
  for (const char* folder : {"/dev/shm", "/var/tmp", "/proc/self/fd"})
    for (const auto& entry : fs::directory_iterator(folder, gone)) found.insert(entry.path());
  const auto program = [&gone](const fs::path& process) {
    return fs::read_symlink(process / "exe", gone).string();
  };
  for (const auto& entry : fs::directory_iterator("/proc", gone))
    if (const std::string path = program(entry.path());
        !path.empty() && path == program("/proc/self"))
      found.insert(entry.path());
  return found;
}

/// TEST_FAULTS=400 for so many, from TEST_FAULT_SEED on.
TEST_F(VerbsFaults, RandomOnesNeverHang) {
  const uint32_t first = number_from_environment("TEST_FAULT_SEED", 1);
  const uint32_t count = number_from_environment("TEST_FAULTS", 10);
  for (uint32_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    alarm(60);
    const RandomFault fault(seed);
    SCOPED_TRACE(fmt::format("TEST_FAULT_SEED={}: {}", seed, fault.text));
    setenv("IBCOLL_PORT_DOWN", "500ms", 1);  // what is down for good is to end soon
    const std::optional<WithoutLockPrivilege> unprivileged =
        fault.unprivileged ? std::make_optional<WithoutLockPrivilege>() : std::nullopt;
    const std::set<std::string> before = traces();
    const Outcome outcome =
        run_disturbed(verbs_job(fault.layout),
                      exchanges(fault.fatal ? kUntilItFails : 60, fault.sizes, fault.algorithm),
                      [&](Stage& stage) { fault.disturb(stage); });
    if (fault.fatal || (fault.may_fail && !outcome.all.empty())) {
      EXPECT_GE(outcome.errors.size(), static_cast<size_t>(fault.survivors)) << outcome.all;
      for (const auto& [rank, error] : outcome.errors) {
        EXPECT_EQ(common(error), common(outcome.errors.begin()->second)) << outcome.all;
        EXPECT_THAT(error, ::testing::Not(::testing::HasSubstr("wrong data")));
        if (fault.killed) {
          EXPECT_THAT(common(error),
                      ::testing::ContainsRegex(fmt::format(
                          "^rank {} .pid [0-9]+. was killed by signal 9 .Killed.$", fault.victim)));
        }
      }
    } else {
      EXPECT_EQ(outcome.all, "");
    }
    EXPECT_EQ(traces(), before);
    if (count > 10)
      std::fprintf(stderr, "seed %u: %s: %s\n", seed, fault.text.c_str(),
                   outcome.all.empty() ? "right" : outcome.errors.begin()->second.c_str());
    TearDown();
  }
}

}  // namespace
}  // namespace ibcoll::testing
