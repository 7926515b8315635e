#include "engine/multicast/messages.h"

#include <array>
#include <cstring>

#include "engine/base/hash.h"
#include "engine/multicast/numbers.h"
#include "engine/multicast/window.h"

namespace ibcoll {
namespace {

constexpr size_t kHeads = sizeof(MailHeader) + sizeof(MulticastHead);
/// Of one mail.
IBCOLL_LIMIT(size_t, kAnnouncementBytes, NetworkTransport::kMaxMailBytes);
/// Of a whole message: sets of millions of ranks.
constexpr size_t kMaxWhole = size_t{64} << 20;

void append(std::vector<std::byte>& out, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const size_t begin = out.size();
  out.resize(begin + bytes);
  std::memcpy(out.data() + begin, from, bytes);
}

template <class Value>
Result<Value> take(std::span<const std::byte>& in, const char* what) {
  Value value;
  if (in.size() < sizeof value)
    return fail(ErrorCode::kMismatch, "a multicast's message ends inside {}", what);
  std::memcpy(&value, in.data(), sizeof value);
  in = in.subspan(sizeof value);
  return value;
}

void append_facts(std::vector<std::byte>& out, const MulticastFacts& facts) {
  append(out, &facts, sizeof facts);
}

Result<MulticastFacts> take_facts(std::span<const std::byte>& in) {
  return take<MulticastFacts>(in, "what it is about");
}

}  // namespace

uint32_t algorithm_number(std::string_view name) {
  return name.empty() ? 0 : static_cast<uint32_t>(hash_bytes(name)) | 1;
}

std::vector<std::byte> encode(const MulticastStart& message, uint64_t counter) {
  std::vector<std::byte> out;
  append_facts(out, message.facts);
  message.set.encode(out);
  encode_previous(message.previous, counter, out);
  return out;
}

std::vector<std::byte> encode(const MulticastRoleMessage& message, uint64_t counter) {
  std::vector<std::byte> out;
  append_facts(out, message.facts);
  encode(message.role, out);
  encode_previous(message.previous, counter, out);
  return out;
}

std::vector<std::byte> encode(const MulticastLocal& message) {
  std::vector<std::byte> out;
  append(out, &message, sizeof message);
  return out;
}

std::vector<std::byte> encode(const MulticastMissing& message) {
  std::vector<std::byte> out;
  out.push_back(static_cast<std::byte>(message.code));
  if (!message.ranks.empty()) message.ranks.encode(out);
  return out;
}

std::vector<std::byte> encode_previous_one(uint64_t previous) {
  std::vector<std::byte> out;
  append(out, &previous, sizeof previous);
  return out;
}

Result<MulticastStart> decode_start(std::span<const std::byte> in, uint64_t counter, int ranks) {
  MulticastStart message;
  IBCOLL_ASSIGN(message.facts, take_facts(in));
  IBCOLL_ASSIGN(message.set, RankSet::decode(in, ranks));
  if (message.set.empty()) return fail(ErrorCode::kMismatch, "a multicast without members");
  IBCOLL_ASSIGN(message.previous, decode_previous(in, counter, message.set.size()));
  return message;
}

Result<MulticastRoleMessage> decode_role_message(std::span<const std::byte> in, uint64_t counter,
                                                 int ranks) {
  MulticastRoleMessage message;
  IBCOLL_ASSIGN(message.facts, take_facts(in));
  IBCOLL_ASSIGN(message.role, decode_role(in, ranks));
  IBCOLL_ASSIGN(message.previous, decode_previous(in, counter, message.role.known.size()));
  return message;
}

Result<MulticastLocal> decode_local(std::span<const std::byte> in, int ranks) {
  IBCOLL_ASSIGN(const MulticastLocal message, take<MulticastLocal>(in, "a member's part"));
  const bool right =
      message.members > 0 && message.members <= ranks && message.id >= 0 &&
      message.id < message.members && message.servers > 0 && message.servers <= message.members &&
      message.place >= 0 && message.place < message.servers && message.locals > 1 &&
      message.locals <= message.members && message.local > 0 && message.listener >= 0 &&
      message.listener < ranks && message.local < message.locals;
  if (!right) return fail(ErrorCode::kMismatch, "a member's part in a multicast that can't be");
  return message;
}

Result<MulticastMissing> decode_missing(std::span<const std::byte> in, int ranks) {
  MulticastMissing message;
  IBCOLL_ASSIGN(const auto code, take<uint8_t>(in, "the reason for a failure"));
  message.code = static_cast<ErrorCode>(code);
  if (in.empty()) return message;
  IBCOLL_ASSIGN(message.ranks, RankSet::decode_all(in, ranks));
  return message;
}

Result<uint64_t> decode_previous_one(std::span<const std::byte> in) {
  return take<uint64_t>(in, "a counter");
}

void for_each_mail(MulticastHead head, std::span<const std::byte> body,
                   std::span<const std::byte> data,
                   const std::function<void(std::span<const std::byte>)>& visit) {
  std::array<std::byte, NetworkTransport::kMaxMailBytes> mail;
  MailHeader header{};
  header.kind = MailKind::kMulticast;
  header.from = head.from;
  std::memcpy(mail.data(), &header, sizeof header);
  head.data_bytes = static_cast<uint16_t>(data.size());
  head.in_parts = kHeads + body.size() + data.size() > kAnnouncementBytes;
  std::memcpy(mail.data() + sizeof header, &head, sizeof head);
  const auto put = [&](size_t at, std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(mail.data() + at, bytes.data(), bytes.size());
    return at + bytes.size();
  };
  if (!head.in_parts) return visit({mail.data(), put(put(kHeads, body), data)});
  std::vector<std::byte> whole(body.begin(), body.end());
  append(whole, data.data(), data.size());
  // It can't fail: a mail has room for more than the heads, and nothing is as long as 65535 mails.
  const auto parts = cut_into_mails(whole, kAnnouncementBytes - kHeads);
  for (const std::vector<std::byte>& part : *parts) visit({mail.data(), put(kHeads, part)});
}

Result<std::optional<MulticastAssembly::Whole>> MulticastAssembly::take(
    std::span<const std::byte> mail) {
  if (mail.size() < kHeads) return fail(ErrorCode::kMismatch, "a multicast's mail is too short");
  Whole whole;
  std::memcpy(&whole.head, mail.data() + sizeof(MailHeader), sizeof whole.head);
  std::span<const std::byte> rest = mail.subspan(kHeads);
  if (whole.head.in_parts) {
    const Key key{{whole.head.master, whole.head.counter}, whole.head.from, whole.head.kind};
    const auto parts = parts_.try_emplace(key, kMaxWhole).first;
    IBCOLL_ASSIGN(const bool complete, parts->second.add(rest));
    if (!complete) return std::nullopt;
    const auto all = parts->second.whole();
    whole_.assign(all.begin(), all.end());
    parts_.erase(parts);
    rest = whole_;
  }
  if (whole.head.data_bytes > rest.size())
    return fail(ErrorCode::kMismatch, "a multicast's message ends inside its data");
  whole.body = rest.first(rest.size() - whole.head.data_bytes);
  whole.data = rest.last(whole.head.data_bytes);
  return whole;
}

void MulticastAssembly::lose(Rank rank) {
  std::erase_if(parts_, [rank](const auto& entry) { return entry.first.from == rank; });
}

}  // namespace ibcoll
