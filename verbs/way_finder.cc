#include "verbs/way_finder.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "engine/base/clock.h"
#include "engine/base/quiet_thread.h"

namespace ibcoll::verbs {

namespace {

/// Until a way is looked for again that was not there: many ranks may ask for one.
constexpr int64_t kAgainNs = 10'000'000;

}  // namespace

Result<std::unique_ptr<WayFinder>> WayFinder::create(Lookup lookup) {
  std::unique_ptr<WayFinder> result(new WayFinder(std::move(lookup)));
  result->ended_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  result->events_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLET;  // readable once, though nobody takes the count
  if (!result->ended_.valid() || !result->events_.valid() ||
      epoll_ctl(result->events_.get(), EPOLL_CTL_ADD, result->ended_.get(), &wanted) != 0)
    return fail_errno("the end of lookups can't be waited for");
  return result;
}

WayFinder::~WayFinder() {
  std::list<Worker> workers;
  {
    const std::lock_guard lock(mutex_);
    queue_.clear();
    workers.swap(workers_);  // list nodes stay where they are
  }
  for (Worker& worker : workers) worker.thread.join();
}

Result<WayFinder::Found> WayFinder::find(const PortAddress& peer, int64_t not_before_ns) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_[std::string(reinterpret_cast<const char*>(&peer), sizeof peer)];
  entry.peer = peer;
  const std::optional<Error> error = entry.error;
  const bool due =
      entry.way ? entry.since_ns < not_before_ns : now_ns() - entry.since_ns >= kAgainNs;
  if (!entry.looking && due) look(entry, lock);
  if (error) return tl::unexpected<Error>(*error);
  return entry.way;
}

/// Has a thread look for a way; where there can be no more threads, this one does.
void WayFinder::look(Entry& entry, std::unique_lock<std::mutex>& lock) {
  join_ended();
  entry.looking = true;
  queue_.push_back(&entry);
  if (workers_.size() >= kMost) return;
  Worker& worker = workers_.emplace_back();
  try {
    worker.thread = quiet_thread([this, &worker] { run(worker); });
  } catch (const std::system_error&) {
    workers_.pop_back();
    if (workers_.empty()) look_for_next(lock);
  }
}

void WayFinder::run(Worker& worker) {
  std::unique_lock lock(mutex_);
  while (!queue_.empty()) look_for_next(lock);
  worker.done = true;
}

void WayFinder::look_for_next(std::unique_lock<std::mutex>& lock) {
  Entry& entry = *queue_.front();
  queue_.pop_front();
  const PortAddress peer = entry.peer;
  lock.unlock();
  Result<Way> found = lookup_(peer);
  lock.lock();
  entry.looking = false;
  entry.since_ns = now_ns();
  entry.way = found ? std::make_shared<const Way>(std::move(*found)) : nullptr;
  entry.error = found ? std::nullopt : std::optional(found.error());
  const uint64_t one = 1;
  while (write(ended_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

/// Their threads hold the mutex no more, and end.
void WayFinder::join_ended() {
  for (auto worker = workers_.begin(); worker != workers_.end();) {
    if (!worker->done) {
      ++worker;
      continue;
    }
    worker->thread.join();
    worker = workers_.erase(worker);
  }
}

}  // namespace ibcoll::verbs
