#include "engine/multicast/mail_parts.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace ibcoll {
namespace {

/// Of this machine's byte order, as all that travels between ranks (engine/execute/mail.h).
struct Head {
  uint32_t bytes;
  uint16_t part, parts;
};
static_assert(sizeof(Head) == kMailPartHead);

constexpr size_t kMostParts = std::numeric_limits<uint16_t>::max();

size_t part_begin(uint64_t bytes, uint64_t part, uint64_t parts) { return bytes * part / parts; }

}  // namespace

Result<std::vector<std::vector<std::byte>>> cut_into_mails(std::span<const std::byte> whole,
                                                           size_t mail_bytes) {
  if (mail_bytes <= kMailPartHead) {
    return fail(ErrorCode::kInvalidArgument, "mails of {} bytes: their head alone takes {}",
                mail_bytes, kMailPartHead);
  }
  const size_t room = mail_bytes - kMailPartHead;
  const size_t parts = std::max<size_t>(1, (whole.size() + room - 1) / room);
  if (parts > kMostParts || whole.size() > std::numeric_limits<uint32_t>::max()) {
    return fail(ErrorCode::kInvalidArgument, "{} bytes in mails of {}: at most {} mails",
                whole.size(), mail_bytes, kMostParts);
  }
  std::vector<std::vector<std::byte>> mails(parts);
  for (size_t part = 0; part < parts; ++part) {
    const Head head{static_cast<uint32_t>(whole.size()), static_cast<uint16_t>(part),
                    static_cast<uint16_t>(parts)};
    const size_t begin = part_begin(whole.size(), part, parts);
    const size_t end = part_begin(whole.size(), part + 1, parts);
    mails[part].resize(kMailPartHead + end - begin);
    std::memcpy(mails[part].data(), &head, sizeof head);
    std::copy(whole.begin() + begin, whole.begin() + end, mails[part].begin() + kMailPartHead);
  }
  return mails;
}

Result<bool> MailParts::add(std::span<const std::byte> mail) {
  Head head;
  if (mail.size() < sizeof head) {
    return fail(ErrorCode::kMismatch, "a part of {} bytes, shorter than its head of {}",
                mail.size(), sizeof head);
  }
  std::memcpy(&head, mail.data(), sizeof head);
  if (head.bytes > limit_) {
    return fail(ErrorCode::kMismatch, "parts of {} bytes in all, over the limit of {}", head.bytes,
                limit_);
  }
  if (head.part >= head.parts || head.parts > std::max<uint32_t>(1, head.bytes)) {
    return fail(ErrorCode::kMismatch, "part {} of {} of {} bytes", head.part, head.parts,
                head.bytes);
  }
  if (parts_ != 0 && (head.parts != parts_ || head.bytes != whole_.size())) {
    return fail(ErrorCode::kMismatch, "a part of {} that come to {} bytes, among {} of {}",
                head.parts, head.bytes, parts_, whole_.size());
  }
  const size_t begin = part_begin(head.bytes, head.part, head.parts);
  const size_t end = part_begin(head.bytes, head.part + 1, head.parts);
  if (mail.size() - sizeof head != end - begin) {
    return fail(ErrorCode::kMismatch, "part {} of {} has {} bytes, not {}", head.part, head.parts,
                mail.size() - sizeof head, end - begin);
  }
  if (parts_ == 0) {
    parts_ = head.parts;
    has_come_.resize(parts_);
    whole_.resize(head.bytes);
  }
  if (has_come_[head.part]) {
    return fail(ErrorCode::kMismatch, "part {} of {} has come twice", head.part, head.parts);
  }
  has_come_[head.part] = true;
  ++come_;
  std::copy(mail.begin() + sizeof head, mail.end(), whole_.begin() + begin);
  return complete();
}

}  // namespace ibcoll
