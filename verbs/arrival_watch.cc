#include "verbs/arrival_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "engine/base/quiet_thread.h"

namespace ibcoll::verbs {

ArrivalWatch::~ArrivalWatch() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  while (write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

Status ArrivalWatch::arm(Bell& bell) {
  if (!thread_.joinable()) {
    stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
    if (!stop_.valid() ||
        fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) < 0)
      return fail_errno("no way to sleep until something arrives");
    try {
      thread_ = quiet_thread([this] { run(); });
    } catch (const std::system_error& error) {
      return fail(ErrorCode::kSystem, "no thread to wait for arrivals: {}", error.what());
    }
  }
  bell_.store(&bell, std::memory_order_release);
  for (ibv_cq* queue : queues_) {
    if (queue == nullptr) continue;
    if (const int error = ibv_req_notify_cq(queue, 0); error != 0) {
      errno = error;
      return fail_errno("a completion queue can't be armed");
    }
  }
  return {};
}

void ArrivalWatch::run() {
  for (;;) {
    pollfd files[3] = {{channel_->fd, POLLIN, 0}, {stop_.get(), POLLIN, 0}, {events_, POLLIN, 0}};
    if (poll(files, 3, -1) < 0 && errno != EINTR) return;
    if (files[1].revents != 0) return;
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    epoll_event event{};
    bool rung = (files[2].revents & POLLIN) != 0 && epoll_wait(events_, &event, 1, 0) > 0;
    while (ibv_get_cq_event(channel_, &queue, &context) == 0) {
      ibv_ack_cq_events(queue, 1);
      rung = true;
    }
    if (!rung && errno != EAGAIN && errno != EINTR)
      return;  // the device is gone: the rank's own polling says so
    if (Bell* bell = bell_.load(std::memory_order_acquire); bell && rung) ring(*bell);
  }
}

}  // namespace ibcoll::verbs
