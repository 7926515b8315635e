#include "engine/bootstrap/entrance.h"

namespace ibcoll {
namespace {

constexpr double kConnectedSeconds = 5;  // of a process that has connected

}  // namespace

Status Entrance::open(ControlListener& listener, bool network) {
  while (true) {
    IBCOLL_ASSIGN(UniqueFd socket, listener.accept());
    if (!socket.valid()) return {};
    if (waiting_.size() >= most_) waiting_.pop_front();
    waiting_.push_back(
        {CalledHandshake(std::move(socket), *token_, me_, deadline_in(kConnectedSeconds)),
         network});
  }
}

void Entrance::watch(std::vector<pollfd>& watched) const {
  for (const Arrival& arrival : waiting_) watched.push_back({arrival.handshake.fd(), POLLIN, 0});
}

std::list<Entrance::Arrival> Entrance::arrived() {
  std::list<Arrival> done;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto next = std::next(at);
    const HandshakeState state = at->handshake.advance();
    if (state == HandshakeState::kDone) done.splice(done.end(), waiting_, at);
    if (state == HandshakeState::kRefused) waiting_.erase(at);
    at = next;
  }
  return done;
}

Result<Attempt> Attempt::begin(const std::string& address, int port, int silence_ms,
                               const JobToken& token, const Caller& me, uint64_t received,
                               Deadline deadline) {
  IBCOLL_ASSIGN(UniqueFd socket, connect_network(address, port, silence_ms));
  return Attempt(address, CallerHandshake(std::move(socket), token, me, received, deadline));
}

HandshakeState Attempt::advance() {
  if (connected_) return handshake_.advance();
  pollfd ready{handshake_.connection().fd(), POLLOUT, 0};
  if (::poll(&ready, 1, 0) == 0) return handshake_.late();
  error_ = connect_error(handshake_.connection().fd());
  if (error_ != 0) return HandshakeState::kRefused;
  connected_ = true;
  handshake_.begin();
  return HandshakeState::kWaiting;
}

}  // namespace ibcoll
