#include "tests/joined_job.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <new>
#include <thread>

namespace ibcoll::testing {

std::string Blackboard::wait_for_text() const {
  while (written.load() == 0 && !given_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return text;
}

SharedBlackboard::SharedBlackboard()
    : board_(new (mmap(nullptr, sizeof(Blackboard), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Blackboard{}) {}

SharedBlackboard::~SharedBlackboard() { munmap(board_, sizeof(Blackboard)); }

Result<std::string> TestManager::broadcast(const std::string& text) {
  if (rank_ == 0) {
    text.copy(board_.text, ProcessManager::kMaxText);
    board_.written.store(1);
    return text;
  }
  const std::string got = board_.wait_for_text();
  if (board_.written == 0)
    return fail(ErrorCode::kPeerFailed, "rank 0 has died");  // launchers end jobs then
  return rewrite_ ? rewrite_(rank_, got) : got;
}

std::string run_joined(const JoinedRun& run, const std::function<std::string(Bootstrap&)>& main) {
  const int ranks = static_cast<int>(run.machines.size());
  Complaints complaints(ranks);
  const SharedBlackboard board;
  std::vector<std::pair<Rank, pid_t>> processes;
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (run.machines[rank] < 0) continue;
    const pid_t process = fork();
    if (process == 0) {
      alarm(50);
      if (run.before) run.before(rank);
      JoinOptions options;
      options.machine = std::to_string(run.machines[rank]);
      options.limit_s = run.limit_s;
      options.silence_ms = run.silence_ms;
      options.fan_out = run.fan_out;
      options.launcher = run.launcher;
      TestManager manager(*board, rank, ranks, run.rewrite);
      auto job = join_through(manager, options);
      complaints.add(rank, job ? main(**job) : "not joined: " + job.error().message);
      if (job) job->reset();
      _exit(0);
    }
    processes.emplace_back(rank, process);
  }
  if (run.meanwhile) run.meanwhile(*board);
  for (const auto& [rank, process] : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    if (rank == 0) board->given_up = true;
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const bool meant = signal != SIGALRM && (signal == SIGKILL || !run.only_kills) &&
                       std::count(run.to_die.begin(), run.to_die.end(), rank) > 0;
    if (signal != 0 && !meant)
      complaints.add(rank, "ended by signal " + std::to_string(WTERMSIG(status)));
  }
  return complaints.all();
}

std::string run_joined(const std::vector<int>& machines,
                       const std::function<std::string(Bootstrap&)>& main) {
  JoinedRun run;
  run.machines = machines;
  return run_joined(run, main);
}

std::string gather_all_sizes(Bootstrap& job) {
  for (const size_t bytes : {0, 1, 7, 4096, 5000, 20'000}) {
    std::vector<std::byte> mine(bytes), all(bytes * static_cast<size_t>(job.size()));
    for (size_t i = 0; i < bytes; ++i) mine[i] = pattern(job.rank(), 0, i, 0);
    if (const Status done = job.allgather(mine.data(), bytes, all.data()); !done)
      return done.error().message;
    for (Rank rank = 0; rank < job.size(); ++rank) {
      for (size_t i = 0; i < bytes; ++i) {
        if (all[static_cast<size_t>(rank) * bytes + i] != pattern(rank, 0, i, 0))
          return fmt::format("byte {} of rank {} differs, {} each", i, rank, bytes);
      }
    }
    if (const Status met = job.barrier(); !met) return met.error().message;
  }
  return "";
}

std::string gather_of_some(Bootstrap& job, const std::vector<Rank>& givers) {
  const bool gives = std::count(givers.begin(), givers.end(), job.rank()) > 0;
  for (const size_t bytes : {0, 1, 5000}) {
    std::vector<std::byte> mine(gives ? bytes : 0), all(bytes * givers.size());
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = pattern(job.rank(), 1, i, 0);
    if (const Status done = job.allgather_of(givers, mine.data(), bytes, all.data()); !done)
      return done.error().message;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] != pattern(givers[i / bytes], 1, i % bytes, 0))
        return fmt::format("byte {} of rank {} differs, {} each", i % bytes, givers[i / bytes],
                           bytes);
    }
  }
  return "";
}

}  // namespace ibcoll::testing
