#include "engine/bootstrap/peer_watch.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/bootstrap/descriptors.h"

namespace ibcoll {
UniqueFd open_process(pid_t pid) {
  // The C library's pidfd_open has no C++ linkage in glibc 2.36.
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

Result<UniqueFd> watch_process(const WatchedProcess& process) {
  UniqueFd opened = open_process(process.pid);
  if (!opened.valid() && errno != ESRCH)
    return fail_opening(fmt::format("cannot watch rank {} (pid {})", process.rank, process.pid));
  // After it has been opened: the id may have passed on to another process before.
  const uint64_t start = process_start(process.pid);
  const bool another = start != 0 && process.start != 0 && start != process.start;
  return another ? UniqueFd() : std::move(opened);
}

Result<PeerWatch> PeerWatch::create(std::span<const WatchedProcess> processes) {
  PeerWatch watch;
  make_room_for_files(processes.size() + kOwnFiles);
  watch.ended_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!watch.ended_.valid()) return fail_opening("cannot create an epoll descriptor");
  for (const WatchedProcess& peer : processes) {
    IBCOLL_ASSIGN(UniqueFd process, watch_process(peer));
    if (!process.valid()) {
      watch.before_.push_back(peer.rank);
      continue;
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = static_cast<uint64_t>(peer.rank);
    if (epoll_ctl(watch.ended_.get(), EPOLL_CTL_ADD, process.get(), &event) != 0)
      return fail_opening(fmt::format("cannot watch rank {} (pid {})", peer.rank, peer.pid));
    watch.processes_.push_back({peer.rank, std::move(process)});
  }
  return watch;
}

void PeerWatch::forget(Rank rank) {
  std::erase(before_, rank);
  for (const Watched& watched : processes_)
    if (watched.rank == rank)
      epoll_ctl(ended_.get(), EPOLL_CTL_DEL, watched.process.get(), nullptr);
}

std::optional<Rank> PeerWatch::find_dead() {
  const size_t asked = asked_++;
  if (!before_.empty() && asked % 2 == 0) return before_[asked / 2 % before_.size()];
  epoll_event event{};
  if (epoll_wait(ended_.get(), &event, 1, 0) != 1) return std::nullopt;
  return static_cast<Rank>(event.data.u64);
}

bool PeerWatch::has_ended(Rank rank) const {
  if (std::find(before_.begin(), before_.end(), rank) != before_.end()) return true;
  for (const Watched& watched : processes_) {
    pollfd end{watched.process.get(), POLLIN, 0};
    if (watched.rank == rank) return ::poll(&end, 1, 0) == 1;
  }
  return false;
}

}  // namespace ibcoll
