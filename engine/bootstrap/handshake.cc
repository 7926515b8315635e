#include "engine/bootstrap/handshake.h"

#include <sodium.h>

#include <cstring>

namespace ibcoll {
namespace {

static_assert(sizeof(Proof) == crypto_auth_hmacsha256_BYTES);
static_assert(sizeof(JobToken) == crypto_auth_hmacsha256_KEYBYTES);

struct Hello {
  Nonce nonce;
  uint32_t purpose;
};
struct Challenge {
  Nonce nonce;
  Proof proof;
};
struct Answer {
  Proof proof;
  uint64_t received;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}

template <class T>
bool read_frame(const Frame& frame, FrameKind kind, T& value) {
  if (frame.kind != kind || frame.payload.size() != sizeof value) return false;
  std::memcpy(&value, frame.payload.data(), sizeof value);
  return true;
}

Nonce fresh_nonce() {
  Nonce nonce{};
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

constexpr uint64_t kMostPayload = 1024;

}  // namespace

Result<JobToken> random_token() {
  JobToken token{};
  if (sodium_init() < 0) return fail(ErrorCode::kSystem, "libsodium can't start");
  randombytes_buf(token.data(), token.size());
  return token;
}

std::string to_text(const JobToken& token) {
  std::string text(2 * token.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), token.data(), token.size());
  text.pop_back();
  return text;
}

Result<JobToken> parse_token(std::string_view text) {
  JobToken token{};
  size_t bytes = 0;
  if (sodium_init() < 0) return fail(ErrorCode::kSystem, "libsodium can't start");
  if (text.size() != 2 * token.size() ||
      sodium_hex2bin(token.data(), token.size(), text.data(), text.size(), nullptr, &bytes,
                     nullptr) != 0 ||
      bytes != token.size())
    return fail(ErrorCode::kSystem, "the launcher gives {} characters that are no job token",
                text.size());
  return token;
}

std::string socket_name(const JobToken& token, std::string_view machine) {
  std::array<unsigned char, 16> hash{};
  const std::string label = fmt::format("ibcoll machine {}", machine);
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(label.data()),
                     label.size(), token.data(), token.size());
  std::string name = "ibcoll-";
  for (const unsigned char byte : hash) name += fmt::format("{:02x}", byte);
  return name;
}

Proof prove(const JobToken& token, Side side, const Caller& caller, const Nonce& callers,
            const Nonce& calleds) {
  Proof proof{};
  const auto rank = static_cast<uint32_t>(caller.rank);
  const std::array<unsigned char, 6> who = {
      static_cast<unsigned char>(side),       static_cast<unsigned char>(caller.purpose()),
      static_cast<unsigned char>(rank),       static_cast<unsigned char>(rank >> 8),
      static_cast<unsigned char>(rank >> 16), static_cast<unsigned char>(rank >> 24)};
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, token.data(), token.size());
  crypto_auth_hmacsha256_update(&state, who.data(), who.size());
  crypto_auth_hmacsha256_update(&state, callers.data(), callers.size());
  crypto_auth_hmacsha256_update(&state, calleds.data(), calleds.size());
  crypto_auth_hmacsha256_final(&state, proof.data());
  return proof;
}

CalledHandshake::CalledHandshake(UniqueFd socket, const JobToken& token, Rank me, Deadline deadline)
    : connection_(std::move(socket)),
      token_(&token),
      me_(me),
      deadline_(deadline),
      own_(fresh_nonce()) {}

HandshakeState CalledHandshake::advance() {
  while (true) {
    const Result<std::optional<Frame>> frame = connection_.take(kMostPayload);
    if (!frame) return HandshakeState::kRefused;
    if (!*frame) return past(deadline_) ? HandshakeState::kRefused : HandshakeState::kWaiting;
    if (const HandshakeState state = step(**frame); state != HandshakeState::kWaiting) return state;
  }
}

HandshakeState CalledHandshake::step(const Frame& frame) {
  Hello hello{};
  if (!asked_ && read_frame(frame, FrameKind::kHello, hello)) {
    asked_ = true;
    callers_ = hello.nonce;
    caller_ = {frame.rank, hello.purpose == 1, hello.purpose == 2};
    const Challenge challenge{own_, prove(*token_, Side::kCalled, caller_, callers_, own_)};
    connection_.send(FrameKind::kChallenge, me_, bytes_of(challenge));
    return HandshakeState::kWaiting;
  }
  Answer answer{};
  if (!asked_ || !read_frame(frame, FrameKind::kProof, answer)) return HandshakeState::kRefused;
  const Proof wanted = prove(*token_, Side::kCaller, caller_, callers_, own_);
  if (sodium_memcmp(wanted.data(), answer.proof.data(), wanted.size()) != 0)
    return HandshakeState::kRefused;
  peer_received_ = answer.received;
  return HandshakeState::kDone;
}

ControlConnection CalledHandshake::welcome(uint64_t received) {
  connection_.send(FrameKind::kWelcome, me_, bytes_of(received));
  return std::move(connection_);
}

void CalledHandshake::refuse(const Error& error) {
  const std::string_view text = std::string_view(error.message).substr(0, kMostPayload);
  connection_.send(FrameKind::kFailure, me_, std::as_bytes(std::span(text)),
                   static_cast<int32_t>(error.code));
}

CallerHandshake::CallerHandshake(UniqueFd socket, const JobToken& token, const Caller& me,
                                 uint64_t received, Deadline deadline)
    : connection_(std::move(socket)),
      token_(&token),
      me_(me),
      received_(received),
      deadline_(deadline),
      own_(fresh_nonce()) {}

HandshakeState CallerHandshake::late() const {
  return past(deadline_) ? HandshakeState::kRefused : HandshakeState::kWaiting;
}

void CallerHandshake::begin() {
  connection_.send(FrameKind::kHello, me_.rank, bytes_of(Hello{own_, me_.purpose()}));
}

HandshakeState CallerHandshake::advance() {
  while (true) {
    const Result<std::optional<Frame>> frame = connection_.take(kMostPayload);
    if (!frame) return HandshakeState::kRefused;
    if (!*frame) return late();
    Challenge challenge{};
    if (!proved_ && read_frame(**frame, FrameKind::kChallenge, challenge)) {
      const Proof wanted = prove(*token_, Side::kCalled, me_, own_, challenge.nonce);
      if (sodium_memcmp(wanted.data(), challenge.proof.data(), wanted.size()) != 0)
        return HandshakeState::kRefused;
      proved_ = true;
      peer_ = (*frame)->rank;
      const Answer answer{prove(*token_, Side::kCaller, me_, own_, challenge.nonce), received_};
      connection_.send(FrameKind::kProof, me_.rank, bytes_of(answer));
      continue;
    }
    if (proved_ && (*frame)->kind == FrameKind::kFailure)
      refusal_ = Error{static_cast<ErrorCode>((*frame)->code), (*frame)->text()};
    uint64_t received = 0;
    if (!proved_ || !read_frame(**frame, FrameKind::kWelcome, received))
      return HandshakeState::kRefused;
    peer_received_ = received;
    return HandshakeState::kDone;
  }
}

}  // namespace ibcoll
