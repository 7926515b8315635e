#include "engine/bootstrap/root_place.h"

#include <poll.h>

#include <cstdlib>
#include <list>

#include "engine/base/units.h"
#include "engine/bootstrap/entrance.h"
#include "engine/bootstrap/process_manager.h"

namespace ibcoll {
namespace {

constexpr double kNextAddressSeconds = 0.5;

}  // namespace

std::string RootPlace::text() const {
  std::string text = fmt::format("{}/{}", to_text(token), port);
  for (const std::string& address : addresses) {
    if (text.size() + address.size() + 1 > ProcessManager::kMaxText) break;
    text += "/" + address;
  }
  return text;
}

Result<RootPlace> RootPlace::parse(const std::string& text) {
  RootPlace place;
  const std::vector<std::string_view> parts = split(text, '/');
  if (parts.size() < 2)
    return fail(ErrorCode::kSystem, "the launcher gives {} characters that are not rank 0's place",
                text.size());
  IBCOLL_ASSIGN(place.token, parse_token(parts[0]));
  place.port = static_cast<int>(std::strtol(std::string(parts[1]).c_str(), nullptr, 10));
  place.addresses.assign(parts.begin() + 2, parts.end());
  return place;
}

Result<ControlConnection> call_root(const RootPlace& place, Rank me, int silence_ms, Deadline until,
                                    RootAnswer& answer) {
  std::list<Attempt> attempts;
  std::string tried;
  const auto note = [&](const std::string& where, std::string_view why) {
    tried += fmt::format("{}{} port {}{}", tried.empty() ? "" : "; ", where, place.port, why);
  };
  Deadline next_start = deadline_in(0);
  size_t next = 0;
  while (!past(until) && (next < place.addresses.size() || !attempts.empty())) {
    if (next < place.addresses.size() && (attempts.empty() || past(next_start))) {
      const std::string& candidate = place.addresses[next++];
      next_start = deadline_in(kNextAddressSeconds);
      Result<Attempt> attempt =
          Attempt::begin(candidate, place.port, silence_ms, place.token, {me, false}, 0, until);
      if (attempt)
        attempts.push_back(std::move(*attempt));
      else
        note(candidate, ": " + attempt.error().message);
    }
    std::vector<pollfd> watched;
    for (auto at = attempts.begin(); at != attempts.end();) {
      const auto after = std::next(at);
      const HandshakeState state = at->advance();
      if (state == HandshakeState::kDone) {
        answer.address = at->address();
        return std::move(at->handshake().connection());
      }
      if (state == HandshakeState::kRefused) {
        answer.refused = at->handshake().refusal().has_value();
        if (answer.refused) return tl::unexpected<Error>(*at->handshake().refusal());
        note(at->address(), at->connected() ? " is not rank 0" : " does not answer");
        attempts.erase(at);
      } else {
        watched.push_back(at->watch());
      }
      at = after;
    }
    ::poll(watched.data(), watched.size(), watched.empty() ? 0 : 50);
  }
  const bool silent = !attempts.empty() || next < place.addresses.size();
  for (const Attempt& attempt : attempts) note(attempt.address(), " is silent");
  if (silent)
    return fail(ErrorCode::kPeerFailed, "rank 0 can't be reached by TCP; rank {} tried {}", me,
                tried);
  return fail(ErrorCode::kPeerFailed, "rank 0 has died; or rank {} can't reach it by TCP: {}", me,
              tried);
}

}  // namespace ibcoll
