#include "tests/machines/run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "engine/base/units.h"
#include "tests/machines/pmi_server.h"

namespace ibcoll::machines {
namespace {

using Clock = std::chrono::steady_clock;

/// "m1:4711:2 m2:4712:2 ...": keepers and ranks, for `machines enter` and `machines start`.
constexpr const char* kMachinesVariable = "MACHINES";
/// How long ranks may go on after one has failed: they report it themselves.
constexpr auto kGrace = std::chrono::seconds(5);

[[noreturn]] void execute(const std::vector<std::string>& command) {
  unblock_signals();
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  fmt::print(stderr, "machines: can't run {}: {}\n", command[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

/// Waits for the one child, which gets the signals that end this process.
int follow(pid_t child, const UniqueFd& signals) {
  for (int status = 0;;) {
    if (waitpid(child, &status, WNOHANG) == child) return shell_status(status);
    pollfd watched{signals.get(), POLLIN, 0};
    poll(&watched, 1, -1);
    signalfd_siginfo info{};
    while (read(signals.get(), &info, sizeof info) == sizeof info)
      if (info.ssi_signo != SIGCHLD) kill(child, static_cast<int>(info.ssi_signo));
  }
}

Result<int> run_on(pid_t keeper, const std::vector<std::string>& command) {
  IBCOLL_ASSIGN(const UniqueFd signals, watch_signals());
  IBCOLL_ASSIGN(const pid_t child, fork_into(keeper));
  if (child == 0) execute(command);
  return follow(child, signals);
}

/// The settings with which libraries use the machines' network, and launchers find the machines.
/// What the user has set stays.
void set_environment(const Shape& shape, const Machines& machines) {
  const auto put = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 0);
  };
  const std::string own = std::filesystem::read_symlink("/proc/self/exe");
  const std::string folder = kSharedFolder;
  std::string keepers;
  std::ofstream openmpi(folder + "/openmpi_hosts"), mpich(folder + "/mpich_hosts");
  for (int i = 0; i < machines.count(); ++i) {
    keepers += fmt::format("{}{}:{}:{}", i == 0 ? "" : " ", machine_name(i), machines[i].keeper,
                           shape.server_size(i));
    openmpi << fmt::format("{} slots={}\n", machine_name(i), shape.server_size(i));
    mpich << fmt::format("{}:{}\n", machine_name(i), shape.server_size(i));
  }
  setenv(kMachinesVariable, keepers.c_str(), 1);
  // As ssh: the launchers give it options, a host and words for its shell.
  const std::string agent = folder + "/agent";
  std::ofstream(agent) << "#!/bin/sh\nexec " << own << " ssh \"$@\"\n";
  std::filesystem::permissions(agent, std::filesystem::perms(0755));
  put("PATH", "/usr/bin:/bin");
  setenv("PATH", (std::filesystem::path(own).parent_path().string() + ":" + getenv("PATH")).c_str(),
         1);
  put("UCX_NET_DEVICES", kInterface);
  put("FI_TCP_IFACE", kInterface);
  put("FI_SOCKETS_IFACE", kInterface);
  put("OMPI_MCA_plm_rsh_agent", agent);
  put("OMPI_MCA_plm_rsh_no_tree_spawn", "1");
  put("OMPI_MCA_plm", "rsh");
  put("OMPI_MCA_orte_default_hostfile", folder + "/openmpi_hosts");
  put("OMPI_MCA_orte_tmpdir_base", "/dev/shm");
  put("OMPI_MCA_oob_tcp_if_include", kSubnet);
  put("OMPI_MCA_btl_tcp_if_include", kSubnet);
  put("OMPI_MCA_hwloc_base_binding_policy", "none");
  put("OMPI_ALLOW_RUN_AS_ROOT", "1");
  put("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  put("HYDRA_LAUNCHER", "ssh");
  put("HYDRA_LAUNCHER_EXEC", agent);
  put("HYDRA_HOST_FILE", folder + "/mpich_hosts");
}

Status limit_links(const Options& options, const Machines& machines) {
  for (int i = 0; i < machines.count(); ++i) {
    const std::string inside = fmt::format("nsenter -t {} -n ", machines[i].keeper);
    std::string root = "root";
    if (!options.rate.empty()) {
      const std::string bucket =
          fmt::format("root handle 1: tbf rate {} burst 128kb latency 50ms", options.rate);
      IBCOLL_TRY(run_checked(fmt::format("tc qdisc add dev v{} {}", i + 1, bucket)));
      IBCOLL_TRY(run_checked(fmt::format("{}tc qdisc add dev {} {}", inside, kInterface, bucket)));
      root = "parent 1:1";
    }
    if (options.delay.empty() && options.loss.empty()) continue;
    const auto set = run_checked(fmt::format("{}tc qdisc add dev {} {} netem limit 100000{}{}",
                                             inside, kInterface, root,
                                             options.delay.empty() ? "" : " delay " + options.delay,
                                             options.loss.empty() ? "" : " loss " + options.loss));
    if (!set)
      return fail(set.error().code, "--delay and --loss need a kernel with sch_netem: {}",
                  set.error().message);
  }
  return {};
}

void report_bytes(const Machines& machines) {
  for (int i = 0; i < machines.count(); ++i) {
    const auto count = [&](const char* direction) {
      uint64_t bytes = 0;
      std::ifstream(fmt::format("/sys/class/net/v{}/statistics/{}_bytes", i + 1, direction)) >>
          bytes;
      return bytes;
    };
    // What the bridge's port has received the machine has sent.
    fmt::print(stderr, "machines: {} sent {} bytes, received {} bytes\n", machine_name(i),
               count("rx"), count("tx"));
  }
}

/// Starts the command's processes and sees to links and ranks until all have ended.
class Run {
 public:
  Run(const Options& options, const Machines& machines, UniqueFd signals)
      : options_(options), machines_(machines), signals_(std::move(signals)), pmi_(options.shape) {
    for (const Cut& cut : options.cuts) {
      const auto at = Clock::now() + std::chrono::nanoseconds(cut.after_ns);
      const std::string link = fmt::format("ip link set v{} ", cut.machine + 1);
      changes_.push_back({at, link + "down"});
      if (cut.for_ns) changes_.push_back({at + std::chrono::nanoseconds(*cut.for_ns), link + "up"});
    }
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const Change& a, const Change& b) { return a.at < b.at; });
  }

  Status start() {
    if (options_.launcher == Launcher::kOwn) {
      for (Rank rank = 0; rank < options_.shape.ranks(); ++rank) IBCOLL_TRY(start_rank(rank));
      return {};
    }
    std::vector<std::string> command;
    const std::string count = std::to_string(options_.shape.ranks());
    if (options_.launcher == Launcher::kMpirun) command = {"mpirun.openmpi", "-n", count};
    if (options_.launcher == Launcher::kMpiexec) command = {"mpiexec.mpich", "-n", count};
    command.insert(command.end(), options_.command.begin(), options_.command.end());
    const pid_t child = fork();
    if (child < 0) return fail_errno("can't fork");
    if (child == 0) execute(command);
    children_.push_back(child);
    return {};
  }

  int wait() {
    while (!children_.empty()) {
      std::vector<pollfd> watched = {{signals_.get(), POLLIN, 0}};
      for (Rank rank = 0; rank < options_.shape.ranks(); ++rank)
        watched.push_back({pmi_.descriptor(rank), POLLIN, 0});
      poll(watched.data(), watched.size(), milliseconds_left());
      for (size_t i = 1; i < watched.size(); ++i)
        if (watched[i].revents != 0) pmi_.serve(static_cast<Rank>(i - 1));
      signalfd_siginfo info{};
      while (read(signals_.get(), &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGCHLD)
          end_soon(128 + static_cast<int>(info.ssi_signo), Clock::now());
      }
      reap();
      change_links();
      if (pmi_.aborted() >= 0) end_soon(pmi_.aborted(), Clock::now());
      if (deadline_ && Clock::now() >= *deadline_)
        for (const pid_t child : children_) kill(child, SIGKILL);
    }
    return result_;
  }

 private:
  struct Change {
    Clock::time_point at;
    std::string command;
  };

  Status start_rank(Rank rank) {
    IBCOLL_ASSIGN(const UniqueFd connection, pmi_.connect(rank));
    const pid_t child = fork();
    if (child < 0) return fail_errno("can't fork");
    children_.push_back(child);
    if (child != 0) return {};
    // Ends with the world's first process, of which it is a child.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::string number = std::to_string(fcntl(connection.get(), F_DUPFD, 3));
    setenv("PMI_FD", number.c_str(), 1);
    setenv("PMI_RANK", std::to_string(rank).c_str(), 1);
    setenv("PMI_SIZE", std::to_string(options_.shape.ranks()).c_str(), 1);
    if (rank != 0) {
      const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
      dup2(nothing.get(), STDIN_FILENO);
    }
    const pid_t keeper = machines_[options_.shape.server_of(rank)].keeper;
    const auto ran = run_on(keeper, options_.command);
    if (!ran) fmt::print(stderr, "machines: {}\n", ran.error().message);
    _exit(ran.value_or(1));
  }

  int milliseconds_left() const {
    std::optional<Clock::time_point> next = deadline_;
    if (!changes_.empty() && (!next || changes_.front().at < *next)) next = changes_.front().at;
    if (!next) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
  }

  /// Orphans come to this process, too.
  void reap() {
    int status = 0;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = std::find(children_.begin(), children_.end(), ended);
      if (found == children_.end()) continue;
      children_.erase(found);
      if (shell_status(status) != 0) end_soon(shell_status(status), Clock::now() + kGrace);
    }
  }

  void end_soon(int status, Clock::time_point deadline) {
    if (result_ == 0) result_ = status;
    deadline_ = deadline_ ? std::min(*deadline_, deadline) : deadline;
  }

  void change_links() {
    while (!changes_.empty() && changes_.front().at <= Clock::now()) {
      const Status done = run_checked(changes_.front().command);
      if (!done) fmt::print(stderr, "machines: {}\n", done.error().message);
      changes_.erase(changes_.begin());
    }
  }

  const Options& options_;
  const Machines& machines_;
  UniqueFd signals_;
  PmiServer pmi_;
  std::vector<Change> changes_;
  std::vector<pid_t> children_;
  std::optional<Clock::time_point> deadline_;
  int result_ = 0;
};

Result<int> run(const Options& options, const Machines& machines) {
  IBCOLL_ASSIGN(UniqueFd signals, watch_signals());
  Run run(options, machines, std::move(signals));
  IBCOLL_TRY(run.start());
  return run.wait();
}

}  // namespace

Result<std::vector<Known>> known_machines() {
  const char* list = std::getenv(kMachinesVariable);
  std::vector<Known> found;
  for (const std::string_view text : split(list != nullptr ? list : "", ' ')) {
    const std::vector<std::string_view> parts = split(text, ':');
    if (parts.size() != 3)
      return fail(ErrorCode::kInvalidArgument, "{} has \"{}\"", kMachinesVariable, text);
    Known one{std::string(parts[0]), -1, 0};
    IBCOLL_ASSIGN(const int64_t keeper, parse_integer(parts[1], 1, INT32_MAX, kMachinesVariable));
    IBCOLL_ASSIGN(const int64_t ranks, parse_integer(parts[2], 1, INT32_MAX, kMachinesVariable));
    one.keeper = static_cast<pid_t>(keeper);
    one.ranks = static_cast<int>(ranks);
    found.push_back(one);
  }
  if (found.empty())
    return fail(ErrorCode::kInvalidArgument,
                "there are no machines: this is for commands of machines --launcher none");
  return found;
}

Result<int> run_command_on(const Options& options) {
  IBCOLL_ASSIGN(const Machines machines, Machines::create(options.shape, options.share_cores));
  IBCOLL_TRY(limit_links(options, machines));
  set_environment(options.shape, machines);
  IBCOLL_ASSIGN(const int status, run(options, machines));
  if (options.bytes) report_bytes(machines);
  return status;
}

Result<int> start_on_all(const std::vector<std::string>& command) {
  if (command.empty()) return fail(ErrorCode::kInvalidArgument, "start: which command?");
  IBCOLL_ASSIGN(const std::vector<Known> all, known_machines());
  std::vector<int> ranks;
  std::vector<pid_t> keepers;
  for (const Known& one : all) {
    ranks.push_back(one.ranks);
    keepers.push_back(one.keeper);
  }
  Options options;
  options.command = command;
  IBCOLL_ASSIGN(options.shape, Shape::from_layout(ranks, Placement::kBlock));
  return run(options, Machines::of(keepers));
}

Result<int> enter(const std::vector<std::string>& words, bool whole) {
  size_t host = 0;
  while (!whole && host < words.size() && words[host].starts_with("-")) ++host;
  if (host + 1 >= words.size())
    return fail(ErrorCode::kInvalidArgument, "enter: which machine, and which command?");
  IBCOLL_ASSIGN(const std::vector<Known> all, known_machines());
  for (const Known& one : all) {
    if (one.name != words[host]) continue;
    std::vector<std::string> command(words.begin() + static_cast<ptrdiff_t>(host) + 1, words.end());
    if (!whole) {
      std::string line;
      for (const std::string& word : command) line += word + " ";
      command = {"/bin/sh", "-c", line};
    }
    return run_on(one.keeper, command);
  }
  return fail(ErrorCode::kInvalidArgument, "enter: there is no machine {}", words[host]);
}

}  // namespace ibcoll::machines
