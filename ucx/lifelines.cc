#include "ucx/lifelines.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace ibcoll::ucx {
namespace {

constexpr int64_t kRetryNs = 100'000'000;

bool ready(int socket, short events) {
  pollfd file{socket, events, 0};
  return poll(&file, 1, 0) > 0;
}

}  // namespace

size_t LifelinePlace::count() const {
  const auto none = [](const auto& address) { return address[0] == '\0'; };
  return static_cast<size_t>(std::find_if(addresses.begin(), addresses.end(), none) -
                             addresses.begin());
}

Result<std::unique_ptr<Lifelines>> Lifelines::open(int64_t silence_ns,
                                                   const std::vector<std::string>& devices) {
  auto lifelines = std::make_unique<Lifelines>();
  lifelines->silence_ns_ = silence_ns;
  lifelines->own_ = own_addresses(devices);
  if (lifelines->own_.empty()) lifelines->own_ = own_addresses();
  const int silence_ms = static_cast<int>(std::min<int64_t>(silence_ns / 1'000'000, INT_MAX));
  IBCOLL_ASSIGN(lifelines->listener_, ControlListener::network(silence_ms));
  return lifelines;
}

LifelinePlace Lifelines::place() const {
  LifelinePlace place;
  place.port = listener_.port();
  for (size_t i = 0; i < std::min(own_.size(), place.addresses.size()); ++i)
    own_[i].copy(place.addresses[i].data(), place.addresses[i].size() - 1);
  return place;
}

void Lifelines::start(std::vector<LifelinePlace> places, const std::vector<int>& machines,
                      Rank me) {
  places_ = std::move(places);
  // An address that several machines have (of a bridge for containers) leads to this one.
  const std::vector<std::string> here = own_addresses();
  for (size_t rank = 0; rank < places_.size(); ++rank) {
    if (machines[rank] == machines[static_cast<size_t>(me)]) continue;
    auto& addresses = places_[rank].addresses;
    const auto end = std::remove_if(addresses.begin(), addresses.end(), [&](const auto& address) {
      return std::find(here.begin(), here.end(), address.data()) != here.end();
    });
    std::fill(end, addresses.end(), std::array<char, 46>{});
  }
  lines_.resize(places_.size());
}

void Lifelines::accept() {
  for (;;) {
    Result<UniqueFd> next = listener_.accept();
    if (!next || !next->valid()) return;
    taken_.push_back(std::move(*next));
  }
}

Lifelines::State Lifelines::look(Rank peer, int64_t now_ns) {
  Line& line = lines_[static_cast<size_t>(peer)];
  const LifelinePlace& place = places_[static_cast<size_t>(peer)];
  const size_t addresses = place.count();
  if (place.port == 0 || addresses == 0) return State::kUnknown;
  if (line.unanswered_since_ns == 0) line.unanswered_since_ns = now_ns;
  if (!line.socket.valid() && now_ns >= line.retry_at_ns) connect(line, place, now_ns);
  if (!line.socket.valid() || !line.up) return wait_for_answer(line, addresses, now_ns);
  if (!ready(line.socket.get(), POLLIN | POLLRDHUP)) return State::kThere;
  char nothing = 0;
  const ssize_t got = recv(line.socket.get(), &nothing, 1, MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return State::kThere;
  if (got < 0 && errno != ECONNRESET && errno != EPIPE) return State::kSilent;
  return State::kGone;
}

void Lifelines::heard(Rank peer) {
  Line& line = lines_[static_cast<size_t>(peer)];
  if (line.up || line.unanswered_since_ns == 0) return;
  line.socket.reset();  // of an address that may lead nowhere: the next one comes first then
  line.ask_anew(0);
}

void Lifelines::connect(Line& line, const LifelinePlace& place, int64_t now_ns) {
  const size_t addresses = place.count();
  const auto& address = place.addresses[line.attempts++ % addresses];
  const int silence_ms = static_cast<int>(std::min<int64_t>(silence_ns_ / 1'000'000, INT_MAX));
  bool shortage = false;
  line.up = false;
  line.give_up_at_ns = now_ns + silence_ns_ / static_cast<int64_t>(addresses);
  if (auto socket = connect_network(address.data(), place.port, silence_ms, &shortage, own_port_))
    line.socket = std::move(*socket);
  else if (shortage)
    line.ask_anew(now_ns);
  else
    line.fail(addresses, false, now_ns);
}

/// This machine lacked what it takes to ask, or the peer was heard: one that nobody asks is not
/// silent.
void Lifelines::Line::ask_anew(int64_t now_ns) {
  unanswered_since_ns = retry_at_ns = now_ns;
  failed = 0;
  refused = false;
}

/// The address that was asked is of no use.
void Lifelines::Line::fail(size_t addresses, bool refuses, int64_t now_ns) {
  socket.reset();
  refused |= refuses;
  retry_at_ns = ++failed % addresses == 0 ? now_ns + kRetryNs : now_ns;
}

/// Of a peer that a connection is being made to.
Lifelines::State Lifelines::wait_for_answer(Line& line, size_t addresses, int64_t now_ns) {
  if (line.socket.valid() && ready(line.socket.get(), POLLOUT)) {
    const int error = connect_error(line.socket.get());
    if (error == 0) {
      line.up = true;
      return State::kThere;
    }
    if (is_shortage(error)) {
      line.socket.reset();
      line.ask_anew(now_ns);
    } else {
      line.fail(addresses, error == ECONNREFUSED, now_ns);
    }
  } else if (line.socket.valid() && addresses > 1 && now_ns >= line.give_up_at_ns) {
    line.fail(addresses, false, now_ns);
  }
  const bool for_long = now_ns - line.unanswered_since_ns >= silence_ns_;
  if (line.refused && (for_long || line.failed >= addresses)) return State::kGone;
  return for_long ? State::kSilent : State::kUnknown;
}

}  // namespace ibcoll::ucx
