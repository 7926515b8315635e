#pragma once
/// How two processes of a job make sure of each other before they talk: both prove that they know
/// the job's token, by a keyed hash over fresh random numbers of both, and never say it.

#include <array>
#include <cstdint>
#include <string>

#include "engine/bootstrap/control_connection.h"

namespace ibcoll {

/// 256 random bits that only processes of the job know.
using JobToken = std::array<unsigned char, 32>;
using Nonce = std::array<unsigned char, 16>;
using Proof = std::array<unsigned char, 32>;

Result<JobToken> random_token();
/// As text of hexadecimal digits, and back; an error for what is none.
std::string to_text(const JobToken& token);
Result<JobToken> parse_token(std::string_view text);
/// The name of the socket that the ranks of a machine meet at. Everybody can read it in
/// /proc/net/unix, so it tells nothing of the token.
std::string socket_name(const JobToken& token, std::string_view machine);

/// Who connects: a rank, for the first time or because its connection broke, or because it seeks
/// the next root.
struct Caller {
  Rank rank = -1;
  bool resumes = false, seeks = false;

  uint32_t purpose() const { return (resumes ? 1U : 0U) + (seeks ? 2U : 0U); }
};

enum class Side : unsigned char { kCaller = 1, kCalled = 2 };
/// What one side proves with.
Proof prove(const JobToken& token, Side side, const Caller& caller, const Nonce& callers,
            const Nonce& calleds);

enum class HandshakeState { kWaiting, kDone, kRefused };

/// The side that took a connection. Call advance() whenever that is readable.
class CalledHandshake {
 public:
  CalledHandshake(UniqueFd socket, const JobToken& token, Rank me, Deadline deadline);
  /// kRefused for strangers, and for those who do not prove themselves in time.
  HandshakeState advance();
  const Caller& caller() const { return caller_; }
  /// Done: of the other side's connection, if it resumes.
  uint64_t peer_received() const { return peer_received_; }
  /// Done: lets the caller in; `received`: of the connection that is resumed.
  ControlConnection welcome(uint64_t received);
  /// Or sends it away.
  void refuse(const Error& error);
  int fd() const { return connection_.fd(); }

 private:
  HandshakeState step(const Frame& frame);

  ControlConnection connection_;
  const JobToken* token_;
  Rank me_;
  Deadline deadline_;
  Caller caller_;
  Nonce callers_{}, own_{};
  uint64_t peer_received_ = 0;
  bool asked_ = false;
};

/// The side that connects. `received`: of the connection that is to be resumed.
class CallerHandshake {
 public:
  CallerHandshake(UniqueFd socket, const JobToken& token, const Caller& me, uint64_t received,
                  Deadline deadline);
  /// Says hello; the socket must be connected by now.
  void begin();
  /// kRefused where the other side does not know the token or is silent for too long.
  HandshakeState advance();
  /// The same as long as it has not begun.
  HandshakeState late() const;
  /// Refused by the right side: why.
  const std::optional<Error>& refusal() const { return refusal_; }
  ControlConnection& connection() { return connection_; }
  uint64_t peer_received() const { return peer_received_; }
  /// The rank at the other side, once it has proved itself.
  Rank peer() const { return peer_; }

 private:
  ControlConnection connection_;
  std::optional<Error> refusal_;
  Rank peer_ = -1;
  const JobToken* token_;
  Caller me_;
  uint64_t received_;
  Deadline deadline_;
  Nonce own_{};
  uint64_t peer_received_ = 0;
  bool proved_ = false;
};

}  // namespace ibcoll
