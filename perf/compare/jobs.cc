#include "perf/compare/jobs.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "engine/bootstrap/binding.h"

namespace ibcoll::compare {
namespace {

constexpr uint64_t kPatienceNs = 120'000'000'000;
constexpr uint64_t kGraceNs = 5'000'000'000;

volatile std::sig_atomic_t interrupt_signal = 0;
void note_signal(int signal) { interrupt_signal = signal; }

/// In the child: never outlive the driver, leave the terminal and its signals to it.
void become_child(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  close(nothing);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

void replace(std::string& word, const std::string& what, const std::string& with) {
  const size_t at = word.find(what);
  if (at != std::string::npos) word.replace(at, what.size(), with);
}

[[noreturn]] void execute(std::vector<std::string> words, const std::string& contest_path,
                          int seat) {
  std::vector<char*> arguments;
  for (std::string& word : words) {
    replace(word, "{contest}", contest_path);
    replace(word, "{seat}", std::to_string(seat));
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  fmt::print(stderr, "compare_mpi: can't run {}: {}\n", words[0], std::strerror(errno));
  _exit(127);
}

/// Where the machines of tests/machines share memory, in a file that goes with them.
constexpr const char* kFileOnMachines = "/dev/shm/.machines/contest";

/// The file that all contenders map, and its path.
Result<std::pair<UniqueFd, std::string>> make_file(bool machines) {
  UniqueFd file(machines ? open(kFileOnMachines, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
                         : memfd_create("compare_mpi", MFD_CLOEXEC));
  if (!file.valid() || ftruncate(file.get(), sizeof(contest)) != 0)
    return fail_errno("can't create the shared memory of the comparison");
  std::string path =
      machines ? kFileOnMachines : fmt::format("/proc/{}/fd/{}", getpid(), file.get());
  return std::pair(std::move(file), std::move(path));
}

}  // namespace

void handle_interrupts() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return interrupt_signal != 0; }

void Jobs::Unmap::operator()(contest* shared) const { munmap(shared, sizeof(contest)); }

Result<Jobs> Jobs::start(const std::vector<Contender>& contenders, int ranks, Room room,
                         bool machines) {
  if (ranks < 1 || ranks > CONTEST_MAX_RANKS || contenders.size() > CONTEST_SEATS) {
    return fail(ErrorCode::kInvalidArgument, "{} ranks; 1 to {} are possible", ranks,
                static_cast<int>(CONTEST_MAX_RANKS));
  }
  Jobs jobs;
  jobs.machines_ = machines;
  IBCOLL_ASSIGN(auto made, make_file(machines));
  jobs.file_ = std::move(made.first);
  const std::string path = made.second;
  jobs.contest_.reset(contest_map(path.c_str()));
  if (!jobs.contest_) return fail(ErrorCode::kSystem, "can't map the comparison's shared memory");
  jobs.contest_->driver = machines ? 0 : getpid();
  jobs.contest_->ranks = ranks;
  jobs.contest_->send_room = room.send;
  jobs.contest_->receive_room = room.receive;
  IBCOLL_ASSIGN(const std::vector<CpuSet> cores, usable_core_sets());
  const std::vector<CpuSet> binding = plan_binding(ranks, cores);
  for (int rank = 0; rank < ranks; ++rank)
    jobs.contest_->cpu[rank] = binding.empty() || machines ? -1 : binding[rank].front();

  std::fflush(nullptr);
  const pid_t parent = getpid();
  for (size_t seat = 0; seat < contenders.size(); ++seat) {
    const pid_t process = fork();
    if (process < 0) return fail_errno("can't fork");
    if (process == 0) {
      become_child(parent);
      if (!contenders[seat].run) execute(contenders[seat].command, path, static_cast<int>(seat));
      _exit(contenders[seat].run(*jobs.contest_, static_cast<int>(seat)));
    }
    jobs.processes_.push_back({contenders[seat].name, process});
  }
  return jobs;
}

Jobs::~Jobs() {
  if (!contest_) return;
  for (const Process& process : processes_) {
    if (process.id > 0) kill(process.id, SIGTERM);
  }
  for (Process& process : processes_) {
    // mpirun takes a moment to end its ranks; those that don't hear it end by themselves when the
    // driver is gone.
    const uint64_t begin = contest_now_ns();
    while (process.id > 0 && waitpid(process.id, nullptr, WNOHANG) == 0) {
      if (contest_now_ns() - begin > kGraceNs) kill(-process.id, SIGKILL);
      usleep(1000);
    }
  }
}

Status Jobs::reap(Process& process, bool expected) {
  int status = 0;
  if (waitpid(process.id, &status, expected ? 0 : WNOHANG) != process.id) return {};
  process.id = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && expected) return {};
  if (WIFSIGNALED(status)) {
    return fail(ErrorCode::kPeerFailed, "{} was killed by signal {}", process.name,
                WTERMSIG(status));
  }
  return fail(ErrorCode::kPeerFailed, "{} ended with status {}", process.name, WEXITSTATUS(status));
}

Result<std::vector<double>> Jobs::measure(size_t index, const Order& order) {
  Process& process = processes_[index];
  contest_seat& seat = contest_->seat[index];
  seat.collective = order.collective;
  seat.after_barrier = order.after_barrier ? 1 : 0;
  seat.block_bytes = order.block_bytes;
  seat.batch_ns = order.batch_ns;
  seat.samples = static_cast<uint32_t>(std::clamp<int>(order.samples, 1, CONTEST_MAX_SAMPLES));
  seat.check = order.check ? 1 : 0;
  __atomic_store_n(&seat.order, ++process.orders, __ATOMIC_RELEASE);
  contest_wake(&seat.order);

  const uint32_t ranks = static_cast<uint32_t>(contest_->ranks);
  const uint64_t begin = contest_now_ns();
  for (;;) {
    const uint32_t finished = __atomic_load_n(&seat.finished, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&seat.failed, __ATOMIC_ACQUIRE) == 2)
      return fail(ErrorCode::kPeerFailed, "{}: {}", process.name, seat.error);
    if (finished == ranks * process.orders) break;
    if (interrupted()) return fail(ErrorCode::kPeerFailed, "interrupted");
    IBCOLL_TRY(reap(process, false));
    if (contest_now_ns() - begin > kPatienceNs)
      return fail(ErrorCode::kDeadline, "{} did not answer within two minutes", process.name);
    contest_sleep(&seat.finished, finished);
  }
  std::vector<double> calls(seat.samples, 0);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t i = 0; i < seat.samples; ++i) {
      const double one = seat.call_ns[rank][i];
      calls[i] = order.after_barrier ? calls[i] + one / ranks : std::max(calls[i], one);
    }
  }
  return calls;
}

Status Jobs::finish() {
  for (size_t i = 0; i < processes_.size(); ++i) {
    contest_->seat[i].quit = 1;
    __atomic_store_n(&contest_->seat[i].order, ++processes_[i].orders, __ATOMIC_RELEASE);
    contest_wake(&contest_->seat[i].order);
  }
  const uint64_t begin = contest_now_ns();
  for (Process& process : processes_) {
    siginfo_t ended{};
    while (machines_ && ended.si_pid == 0 && contest_now_ns() - begin < kGraceNs) {
      waitid(P_PID, static_cast<id_t>(process.id), &ended, WEXITED | WNOWAIT | WNOHANG);
      usleep(1000);
    }
    if (!machines_ || ended.si_pid != 0) IBCOLL_TRY(reap(process, true));
  }
  return {};
}

}  // namespace ibcoll::compare
