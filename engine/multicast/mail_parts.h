#pragma once
/// What is longer than a mail travels in several: cut where it leaves, put together where it comes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll {

/// Bytes of the head that stands before each part: the length of the whole, the part's number and
/// how many there are.
inline constexpr size_t kMailPartHead = 8;

/// Cuts `whole` into mails of at most `mail_bytes` each, heads included; at least one. Part p of n
/// begins at byte p * length / n, so parts are nearly alike. Fails where a mail has no room for its
/// head and a byte, or more than 65535 parts would be needed.
Result<std::vector<std::vector<std::byte>>> cut_into_mails(std::span<const std::byte> whole,
                                                           size_t mail_bytes);

/// Puts the mails of one whole together, in whatever order they come.
class MailParts {
 public:
  /// `limit`: bytes that the whole may have, and so what this takes of memory at most, beside a bit
  /// a part.
  explicit MailParts(size_t limit) : limit_(limit) {}

  /// Takes a mail. True once all parts are there. Fails where the mail is too short, says something
  /// else of the whole than the first one did, has the wrong length, or has come before; what was
  /// there stays.
  Result<bool> add(std::span<const std::byte> mail);
  bool complete() const { return parts_ != 0 && come_ == parts_; }
  /// What has been put together; all of it once complete().
  std::span<const std::byte> whole() const { return whole_; }

 private:
  size_t limit_;
  uint32_t parts_ = 0, come_ = 0;
  std::vector<bool> has_come_;
  std::vector<std::byte> whole_;
};

}  // namespace ibcoll
