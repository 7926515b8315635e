#pragma once
/// Processes that call rank 0 as the engine does, step by step.

#include <poll.h>

#include <cstring>
#include <optional>
#include <span>

#include "engine/bootstrap/control_socket.h"
#include "engine/bootstrap/handshake.h"
#include "engine/bootstrap/root_place.h"

namespace ibcoll::testing {

inline constexpr int kSilenceMs = 30'000;

/// A connection to rank 0, as a stranger makes it.
inline ControlConnection connect_to(const RootPlace& place) {
  Result<UniqueFd> socket = connect_network("127.0.0.1", place.port, kSilenceMs);
  if (!socket) return {};
  pollfd ready{socket->get(), POLLOUT, 0};
  poll(&ready, 1, 5000);
  return ControlConnection(std::move(*socket));
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}

struct Hello {
  Nonce nonce{};
  uint32_t resumes = 0;
};
struct Answer {
  Proof proof{};
  uint64_t received = 0;
};

/// Says hello as that rank; the challenge's nonce.
inline Nonce challenged(ControlConnection& link, Rank rank, const Hello& hello) {
  link.send(FrameKind::kHello, rank, bytes_of(hello));
  const Result<Frame> challenge = link.receive(deadline_in(5));
  Nonce nonce{};
  if (challenge && challenge->kind == FrameKind::kChallenge)
    std::memcpy(nonce.data(), challenge->payload.data(), nonce.size());
  return nonce;
}

/// What comes back; nothing where the other side hangs up.
inline std::optional<Frame> answer(ControlConnection& link, Rank rank, const Proof& proof) {
  link.send(FrameKind::kProof, rank, bytes_of(Answer{proof, 0}));
  Result<Frame> frame = link.receive(deadline_in(5));
  if (!frame) return std::nullopt;
  return std::move(*frame);
}

}  // namespace ibcoll::testing
