#include "tests/machines/namespaces.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/command.h"

namespace ibcoll::machines {
namespace {

constexpr int kOfOne = CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS | CLONE_NEWPID;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  return set;
}

/// fork() into new namespaces.
pid_t fork_with(int flags) {
  return static_cast<pid_t>(syscall(SYS_clone, static_cast<unsigned long>(flags) | SIGCHLD, nullptr,
                                    nullptr, nullptr, 0));
}

bool write_file(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  return file.valid() &&
         write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

Status mount_on(const char* kind, const char* path, const char* options) {
  if (mount(kind, path, kind, MS_NOSUID | MS_NODEV, options) != 0)
    return fail_errno(fmt::format("can't mount {} on {}", kind, path));
  return {};
}

Status bind_mount(const std::string& from, const std::string& to) {
  if (mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) != 0)
    return fail_errno(fmt::format("can't mount {} on {}", from, to));
  return {};
}

/// What the first process of new namespaces does: /proc, /sys and /dev/shm show them from then on.
/// The shared folder is that of the head, which makes it.
Status settle(const std::string& name, bool head) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return fail_errno("can't make mounts private");
  IBCOLL_TRY(mount_on("proc", "/proc", nullptr));
  IBCOLL_TRY(mount_on("sysfs", "/sys", nullptr));
  // What is hidden from now on can still be bound elsewhere.
  const UniqueFd shared(open(kSharedFolder, O_PATH | O_DIRECTORY | O_CLOEXEC));
  IBCOLL_TRY(mount_on("tmpfs", "/dev/shm", "mode=1777"));
  if (mkdir(kSharedFolder, 0755) != 0) return fail_errno(kSharedFolder);
  if (!head) IBCOLL_TRY(bind_mount(fmt::format("/proc/self/fd/{}", shared.get()), kSharedFolder));
  if (sethostname(name.data(), name.size()) != 0) return fail_errno("can't set the host name");
  // There may be none; and it would talk by itself.
  write_file("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
  return {};
}

/// Root of a new user namespace, who is this process's user outside.
Status become_root(uid_t user, gid_t group) {
  write_file("/proc/self/setgroups", "deny");
  if (!write_file("/proc/self/uid_map", fmt::format("0 {} 1", user)) ||
      !write_file("/proc/self/gid_map", fmt::format("0 {} 1", group)))
    return fail_errno("can't map the user into a user namespace");
  return {};
}

/// The cores of this process that machine `machine` gets: those of its ranks, if all ranks are
/// dealt over all cores in order.
cpu_set_t cores_of(const cpu_set_t& all, const Shape& shape, int machine, bool share) {
  if (share) return all;
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  cpu_set_t own;
  CPU_ZERO(&own);
  const auto count = static_cast<int>(cores.size());
  const auto place = [&](int rank) { return rank * count / shape.ranks(); };
  for (const Rank rank : shape.members(machine)) {
    CPU_SET(cores[static_cast<size_t>(place(rank))], &own);
    for (int more = place(rank) + 1; more < place(rank + 1); ++more)
      CPU_SET(cores[static_cast<size_t>(more)], &own);
  }
  return own;
}

/// The first process of a machine: when it ends all others do. Says by `ready` that others may
/// enter, or why not.
[[noreturn]] void keep(int machine, const cpu_set_t& cores, int joined, int ready) {
  prctl(PR_SET_NAME, machine_name(machine).c_str());
  const Status settled = [&]() -> Status {
    IBCOLL_TRY(settle(machine_name(machine), false));
    IBCOLL_TRY(bind_mount(fmt::format("{}/boot_id.{}", kSharedFolder, machine),
                          "/proc/sys/kernel/random/boot_id"));
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) return fail_errno("can't bind to cores");
    char byte = 0;
    if (read(joined, &byte, 1) != 1) _exit(1);  // the world has ended
    return run_checked(
        fmt::format("ip link set lo up && ip addr add {}/24 dev {} && ip link set {} up",
                    machine_address(machine), kInterface, kInterface));
  }();
  const std::string text = settled ? "ready" : settled.error().message;
  if (write(ready, text.data(), text.size()) < 0) _exit(1);
  close(ready);
  for (const sigset_t ended = watched_signals();;) {
    int number = 0;
    sigwait(&ended, &number);
    while (waitpid(-1, nullptr, WNOHANG) > 0) continue;  // orphans, which come to the first process
  }
}

}  // namespace

std::string machine_name(int machine) { return fmt::format("m{}", machine + 1); }
std::string machine_address(int machine) { return fmt::format("10.88.0.{}", machine + 1); }

int shell_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Status run_checked(const std::string& command) {
  const auto ran = testing_tools::run_command("{ " + command + "; } 2>&1");
  if (ran.status == 0) return {};
  const std::string line = ran.out.substr(0, ran.out.find('\n'));
  return fail(ErrorCode::kSystem, "\"{}\" failed: {}", command,
              line.empty() ? fmt::format("status {}", ran.status) : line);
}

Result<UniqueFd> watch_signals() {
  const sigset_t watched = watched_signals();
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  UniqueFd fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return fail_errno("cannot create a signalfd");
  return fd;
}

void unblock_signals() {
  const sigset_t watched = watched_signals();
  sigprocmask(SIG_UNBLOCK, &watched, nullptr);
}

Result<int> run_in_world(const std::function<int()>& body) {
  IBCOLL_ASSIGN(const UniqueFd signals, watch_signals());
  const uid_t user = getuid();
  const gid_t group = getgid();
  int user_namespace = 0;
  pid_t world = fork_with(kOfOne);
  if (world < 0 && errno == EPERM) {
    user_namespace = CLONE_NEWUSER;
    world = fork_with(kOfOne | CLONE_NEWUSER);
  }
  if (world < 0)
    return fail_errno(
        "no namespaces can be made here, neither as this user nor as root of a user namespace "
        "(see user.max_*_namespaces and kernel.unprivileged_userns_clone of sysctl; in a "
        "container, "
        "its security profile)");
  if (world == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const Status settled = [&]() -> Status {
      if (user_namespace != 0) IBCOLL_TRY(become_root(user, group));
      return settle("head", true);
    }();
    if (!settled) {
      fmt::print(stderr, "machines: {}\n", settled.error().message);
      _exit(2);
    }
    const int status = body();
    std::fflush(nullptr);
    _exit(status);
  }
  for (int status = 0;;) {
    pollfd watched{signals.get(), POLLIN, 0};
    poll(&watched, 1, -1);
    signalfd_siginfo info{};
    while (read(signals.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGCHLD) continue;
      kill(world, SIGKILL);
      waitpid(world, nullptr, 0);
      return 128 + static_cast<int>(info.ssi_signo);
    }
    if (waitpid(world, &status, WNOHANG) == world) return shell_status(status);
  }
}

Result<Machines> Machines::create(const Shape& shape, bool share_cores) {
  const int count = shape.servers();
  if (count > kMostMachines)
    return fail(ErrorCode::kInvalidArgument, "{} machines: at most {} can be made", count,
                kMostMachines);
  const std::string folder = kSharedFolder;
  std::string hosts = "127.0.0.1 localhost\n10.88.0.254 head\n";
  for (int i = 0; i < count; ++i) {
    hosts += fmt::format("{} {}\n", machine_address(i), machine_name(i));
    std::string id;
    std::ifstream("/proc/sys/kernel/random/uuid") >> id;
    if (!write_file(fmt::format("{}/boot_id.{}", folder, i), id + "\n"))
      return fail_errno("can't write boot ids");
  }
  if (!write_file(folder + "/hosts", hosts)) return fail_errno("can't write the hosts' addresses");
  IBCOLL_TRY(bind_mount(folder + "/hosts", "/etc/hosts"));
  IBCOLL_TRY(run_checked(fmt::format(
      "ip link set lo up && ip link add {} type bridge && ip addr add 10.88.0.254/24 dev {} && "
      "ip link set {} up",
      kInterface, kInterface, kInterface)));

  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return fail_errno("no affinity mask");
  Machines machines;
  for (int i = 0; i < count; ++i) {
    int go[2], ready[2];
    if (pipe2(go, O_CLOEXEC) != 0 || pipe2(ready, O_CLOEXEC) != 0) return fail_errno("no pipe");
    Machine machine;
    machine.keeper = fork_with(kOfOne);
    if (machine.keeper < 0) return fail_errno("can't make the namespaces of a machine");
    if (machine.keeper == 0) {
      close(go[1]);
      close(ready[0]);
      keep(i, cores_of(all, shape, i, share_cores), go[0], ready[1]);
    }
    const UniqueFd go_on(go[1]), told(ready[0]);
    close(go[0]);
    close(ready[1]);
    IBCOLL_TRY(
        run_checked(fmt::format("ip link add v{0} type veth peer name {1} netns {2} && "
                                "ip link set v{0} master {1} up",
                                i + 1, kInterface, machine.keeper)));
    char text[512];
    if (write(go_on.get(), "", 1) != 1) return fail_errno("can't tell a machine");
    const ssize_t got = read(told.get(), text, sizeof text);
    const std::string_view said(text, got > 0 ? static_cast<size_t>(got) : 0);
    if (said != "ready") return fail(ErrorCode::kSystem, "{}: {}", machine_name(i), said);
    machines.machines_.push_back(machine);
  }
  return machines;
}

Machines Machines::of(const std::vector<pid_t>& keepers) {
  Machines machines;
  for (const pid_t keeper : keepers) machines.machines_.push_back({keeper});
  return machines;
}

Result<pid_t> fork_into(pid_t keeper) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, keeper, 0)));
  if (!process.valid()) return fail_errno("no such machine");
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::current_path(none);
  cpu_set_t cores;
  if (sched_getaffinity(keeper, sizeof cores, &cores) == 0)
    sched_setaffinity(0, sizeof cores, &cores);
  if (setns(process.get(), kOfOne) != 0) return fail_errno("can't enter a machine");
  if (chdir(folder.c_str()) != 0) return fail_errno(folder.string());
  const pid_t child = fork();
  if (child < 0) return fail_errno("can't fork");
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child;
}

}  // namespace ibcoll::machines
