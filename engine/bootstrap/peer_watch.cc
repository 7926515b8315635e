#include "engine/bootstrap/peer_watch.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "engine/bootstrap/descriptors.h"

namespace ibcoll {
UniqueFd open_process(pid_t pid) {
  // The C library's pidfd_open has no C++ linkage in glibc 2.36.
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

Result<PeerWatch> PeerWatch::create(Bootstrap& bootstrap, const std::vector<ProcessPlace>& places) {
  PeerWatch watch;
  const ProcessPlace& mine = places[static_cast<size_t>(bootstrap.rank())];
  const auto here = std::count_if(places.begin(), places.end(), [&](const ProcessPlace& place) {
    return place.machine == mine.machine;
  });
  make_room_for_files(static_cast<size_t>(here) + kOwnFiles);
  watch.ended_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!watch.ended_.valid()) return fail_opening("cannot create an epoll descriptor");
  watch.processes_.resize(places.size());
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const ProcessPlace& peer = places[rank];
    if (!(peer.machine == mine.machine) || peer.pid == mine.pid) continue;
    UniqueFd process = open_process(static_cast<pid_t>(peer.pid));
    if (!process.valid())
      return fail_opening(fmt::format("cannot watch rank {} (pid {})", rank, peer.pid));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = rank;
    if (epoll_ctl(watch.ended_.get(), EPOLL_CTL_ADD, process.get(), &event) != 0)
      return fail_opening(fmt::format("cannot watch rank {} (pid {})", rank, peer.pid));
    watch.processes_[rank] = std::move(process);
    ++watch.watched_;
  }
  // Whoever comes through this was alive after its process id had been opened everywhere, so no id
  // had passed on to another process by then.
  IBCOLL_TRY(bootstrap.barrier());
  return watch;
}

void PeerWatch::forget(Rank rank) {
  const UniqueFd& process = processes_[static_cast<size_t>(rank)];
  if (process.valid()) epoll_ctl(ended_.get(), EPOLL_CTL_DEL, process.get(), nullptr);
}

std::optional<Rank> PeerWatch::find_dead() const {
  if (watched_ == 0) return std::nullopt;
  epoll_event event{};
  if (epoll_wait(ended_.get(), &event, 1, 0) != 1) return std::nullopt;
  return static_cast<Rank>(event.data.u64);
}

bool PeerWatch::has_ended(Rank rank, int wait_ms) const {
  const UniqueFd& process = processes_[static_cast<size_t>(rank)];
  if (!process.valid()) return false;
  pollfd end{process.get(), POLLIN, 0};
  return ::poll(&end, 1, wait_ms) == 1;
}

}  // namespace ibcoll
