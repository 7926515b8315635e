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
  if (place.port == 0 || place.addresses[0][0] == '\0') return State::kUnknown;
  if (line.unanswered_since_ns == 0) line.unanswered_since_ns = now_ns;
  if (!line.socket.valid() && now_ns >= line.retry_at_ns) connect(line, place, now_ns);
  if (!line.socket.valid() || !line.up) return wait_for_answer(line, now_ns);
  if (!ready(line.socket.get(), POLLIN | POLLRDHUP)) return State::kThere;
  char nothing = 0;
  const ssize_t got = recv(line.socket.get(), &nothing, 1, MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return State::kThere;
  if (got < 0 && errno != ECONNRESET && errno != EPIPE) return State::kSilent;
  return State::kGone;
}

void Lifelines::connect(Line& line, const LifelinePlace& place, int64_t now_ns) {
  line.up = false;
  line.retry_at_ns = now_ns + kRetryNs;
  for (size_t i = 0; i < place.addresses.size(); ++i) {
    const auto& address = place.addresses[line.attempts++ % place.addresses.size()];
    if (address[0] == '\0') continue;
    const int silence_ms = static_cast<int>(std::min<int64_t>(silence_ns_ / 1'000'000, INT_MAX));
    bool shortage = false;
    if (auto socket = connect_network(address.data(), place.port, silence_ms, &shortage))
      line.socket = std::move(*socket);
    if (shortage) ask_anew(line, now_ns);
    return;
  }
}

/// This host lacked what it takes to ask: a peer that nobody asks is not silent.
void Lifelines::ask_anew(Line& line, int64_t now_ns) {
  line.unanswered_since_ns = line.retry_at_ns = now_ns;
}

/// Of a peer that a connection is being made to.
Lifelines::State Lifelines::wait_for_answer(Line& line, int64_t now_ns) {
  if (line.socket.valid() && ready(line.socket.get(), POLLOUT)) {
    const int error = connect_error(line.socket.get());
    if (error == 0) {
      line.up = true;
      return State::kThere;
    }
    line.socket.reset();
    if (is_shortage(error)) ask_anew(line, now_ns);
    if (error == ECONNREFUSED) return State::kGone;
  }
  return now_ns - line.unanswered_since_ns >= silence_ns_ ? State::kSilent : State::kUnknown;
}

}  // namespace ibcoll::ucx
