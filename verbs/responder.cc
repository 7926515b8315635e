#include "verbs/responder.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "engine/base/log.h"
#include "engine/base/quiet_thread.h"

namespace ibcoll::verbs {

namespace {

/// Between looks at a queue that can't be armed.
constexpr int kUnarmedMs = 50;

}  // namespace

Result<std::unique_ptr<Responder>> Responder::create(const Device& device) {
  std::unique_ptr<Responder> result(new Responder(device));
  result->channel_.reset(ibv_create_comp_channel(device.context()));
  if (!result->channel_ ||
      fcntl(result->channel_->fd, F_SETFL, fcntl(result->channel_->fd, F_GETFL) | O_NONBLOCK) < 0)
    return fail_errno(fmt::format("{}: no completion channel", device.port().name()));
  IBCOLL_ASSIGN(result->datagrams_, Datagrams::create(device, result->channel_.get()));
  IBCOLL_ASSIGN(result->ways_, WayFinder::create([&device](const PortAddress& peer) {
                  return find_way(device, peer);
                }));
  IBCOLL_TRY(result->start_thread());
  return result;
}

Responder::~Responder() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  while (write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

Status Responder::start_thread() {
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  if (!stop_.valid()) return fail_errno("no eventfd to end a thread with");
  try {
    thread_ = quiet_thread([this] { run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kSystem, "no thread to answer peers: {}", error.what());
  }
  return {};
}

void Responder::start(Rank me, uint64_t job, int ranks) {
  const std::lock_guard lock(mutex_);
  me_ = me;
  job_ = job;
  ranks_ = ranks;
}

void Responder::run() {
  const Datagrams::Take taking = [this](std::span<const std::byte> bytes) { return take(bytes); };
  for (;;) {
    // In this order: what comes after the queue was armed wakes poll(2).
    const bool armed = ibv_req_notify_cq(datagrams_->completions(), 0) == 0;
    Status polled;
    {
      const std::lock_guard lock(mutex_);
      polled = datagrams_->poll(taking);
    }
    if (polled) polled = answer_all();
    if (!polled) {
      // The rank's own polling tells what is wrong with the device.
      log().debug("peers get no answers any more: {}", polled.error().message);
      return;
    }
    pollfd files[3] = {
        {channel_->fd, POLLIN, 0}, {stop_.get(), POLLIN, 0}, {ways_->events(), POLLIN, 0}};
    if (::poll(files, 3, armed ? -1 : kUnarmedMs) < 0 && errno != EINTR) return;
    if (files[1].revents != 0) return;
    epoll_event found{};
    epoll_wait(ways_->events(), &found, 1, 0);
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(channel_.get(), &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
    if (errno != EAGAIN && errno != EINTR) return;  // the device is gone
  }
}

Status Responder::take(std::span<const std::byte> bytes) {
  Datagram datagram;
  if (bytes.size() != sizeof datagram) return {};
  std::memcpy(&datagram, bytes.data(), sizeof datagram);
  if (datagram.job != job_ || datagram.to != me_ || datagram.from < 0 || datagram.from >= ranks_)
    return {};
  if (const auto known = heard_.find(datagram.from); known != heard_.end()) ++known->second;
  if (datagram.question != 0) questions_.insert_or_assign(datagram.from, datagram);
  return {};
}

/// What has no way back yet waits for it; what has none at all is asked again.
Status Responder::answer_all() {
  for (const auto& [peer, question] : std::exchange(questions_, {})) {
    const Result<WayFinder::Found> found = ways_->find(question.address);
    if (!found) continue;
    if (*found == nullptr) {
      questions_.emplace(peer, question);
      continue;
    }
    const std::lock_guard lock(mutex_);
    IBCOLL_TRY(send(peer, (*found)->handle.get(), question.number, false));
  }
  return {};
}

Result<bool> Responder::send(Rank peer, ibv_ah* way, uint32_t to, bool question) {
  const Datagram datagram{job_, me_, peer, number(), question, address_of(device_.port())};
  return datagrams_->send(way, to, std::as_bytes(std::span(&datagram, 1)));
}

uint32_t Responder::heard(Rank peer) {
  const std::lock_guard lock(mutex_);
  return heard_.try_emplace(peer, 0).first->second;
}

Result<bool> Responder::ask(Rank peer, ibv_ah* way, uint32_t number) {
  const std::lock_guard lock(mutex_);
  return send(peer, way, number, true);
}

}  // namespace ibcoll::verbs
