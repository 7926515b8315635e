#pragma once
/// Connections on their way into a job, on both sides; nothing here waits.

#include <poll.h>

#include <list>
#include <string>
#include <vector>

#include "engine/bootstrap/control_socket.h"
#include "engine/bootstrap/handshake.h"

namespace ibcoll {

/// Connections that are being made sure of, all at once: who is silent keeps nobody waiting.
class Entrance {
 public:
  /// With more than `most` under way the oldest is dropped.
  Entrance(const JobToken& token, Rank me, size_t most) : token_(&token), me_(me), most_(most) {}
  /// Takes what waits at a listener.
  Status open(ControlListener& listener, bool network);
  struct Arrival {
    CalledHandshake handshake;
    bool network;
  };
  /// Appends what to poll for.
  void watch(std::vector<pollfd>& watched) const;
  /// Those who have proved themselves since the last time.
  std::list<Arrival> arrived();
  bool empty() const { return waiting_.empty(); }

 private:
  const JobToken* token_;
  Rank me_;
  size_t most_;
  std::list<Arrival> waiting_;
};

/// A rank on its way to another: from connecting by TCP to being let in.
class Attempt {
 public:
  static Result<Attempt> begin(const std::string& address, int port, int silence_ms,
                               const JobToken& token, const Caller& me, uint64_t received,
                               Deadline deadline);
  HandshakeState advance();
  pollfd watch() {
    return {handshake_.connection().fd(), static_cast<short>(connected_ ? POLLIN : POLLOUT), 0};
  }
  CallerHandshake& handshake() { return handshake_; }
  const std::string& address() const { return address_; }
  bool connected() const { return connected_; }
  /// Refused: errno's number of connecting.
  int error() const { return error_; }

 private:
  Attempt(std::string address, CallerHandshake handshake)
      : address_(std::move(address)), handshake_(std::move(handshake)) {}

  std::string address_;
  CallerHandshake handshake_;
  bool connected_ = false;
  int error_ = 0;
};

}  // namespace ibcoll
