#include "ucx/arrival_watch.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "engine/base/quiet_thread.h"

namespace ibcoll::ucx {
namespace {

epoll_event event_of(int file, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = file;
  return event;
}

}  // namespace

ArrivalWatch::~ArrivalWatch() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  while (write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

Status ArrivalWatch::start() {
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  waiting_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  epoll_event stop = event_of(stop_.get(), EPOLLIN), none = event_of(events_, 0);
  if (!stop_.valid() || !waiting_.valid() ||
      epoll_ctl(waiting_.get(), EPOLL_CTL_ADD, stop_.get(), &stop) != 0 ||
      epoll_ctl(waiting_.get(), EPOLL_CTL_ADD, events_, &none) != 0)
    return fail_errno("no way to sleep until something arrives");
  try {
    thread_ = quiet_thread([this] { run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kSystem, "no thread to wait for arrivals: {}", error.what());
  }
  return {};
}

Status ArrivalWatch::arm(Bell& bell) {
  if (!thread_.joinable()) IBCOLL_TRY(start());
  bell_.store(&bell, std::memory_order_release);
  epoll_event once = event_of(events_, EPOLLIN | EPOLLONESHOT);
  if (epoll_ctl(waiting_.get(), EPOLL_CTL_MOD, events_, &once) != 0)
    return fail_errno("UCX's descriptor can't be watched");
  return {};
}

void ArrivalWatch::run() {
  for (;;) {
    std::array<epoll_event, 2> ready;
    const int count = epoll_wait(waiting_.get(), ready.data(), ready.size(), -1);
    if (count < 0 && errno != EINTR) return;
    for (int i = 0; i < count; ++i) {
      if (ready[static_cast<size_t>(i)].data.fd == stop_.get()) return;
      if (Bell* const bell = bell_.load(std::memory_order_acquire)) ring(*bell);
    }
  }
}

}  // namespace ibcoll::ucx
