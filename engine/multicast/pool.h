#pragma once
/// Memory for messages that come unasked.

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

/// Buffers for messages that come unasked: bounded, and shared fairly by those who send (the
/// dynamic threshold of A. Choudhury and E. Hahne, 1998: a sender may hold at most as much as is
/// left free). So one master has half of the limit at most, two have a third each, and some is
/// always left for one who has not sent yet.
///
/// Buffers are of few sizes, a quarter of a power of two apart, so that those that are given back
/// serve later messages. What is kept for that is half the limit at most, and never takes memory
/// of the limit that a message needs.
class MulticastPool {
 public:
  /// Gets so many bytes, a multiple of 64, aligned to 64.
  using Take = std::function<Result<std::byte*>(size_t)>;
  /// Gives back what Take has got.
  using Give = std::function<void(std::byte*, size_t)>;

  MulticastPool(size_t limit_bytes, Take take, Give give);
  MulticastPool(const MulticastPool&) = delete;
  MulticastPool& operator=(const MulticastPool&) = delete;
  /// Gives the memory back that is kept; buffers in use are their holders' to give back before.
  ~MulticastPool();

  /// A buffer of at least `bytes`, 64-byte aligned, for a message of `master`. nullopt: not now,
  /// since the limit or the master's share is used up. An error (kNoMemory): memory has run out, or
  /// the message is longer than the limit. One that is longer than half the limit gets its buffer
  /// when the pool is otherwise empty. 0 bytes: an address without any memory.
  /// `must`: the limit and the share may be passed, by somebody who sees to it that this ends.
  Result<std::optional<std::byte*>> take(Rank master, size_t bytes, bool must = false);
  /// Gives a buffer back; `master` and `bytes` as they were taken with. Needs no memory.
  void give_back(Rank master, std::byte* buffer, size_t bytes) noexcept;

  /// Bytes of buffers in use, now and at most so far.
  size_t used() const { return used_; }
  size_t most_used() const { return most_used_; }
  size_t limit() const { return limit_; }
  /// Bytes kept for later messages.
  size_t kept() const { return kept_; }

 private:
  size_t rounded(size_t bytes) const;
  bool keep(std::byte* buffer, size_t size) noexcept;
  std::byte* take_kept(size_t size);
  void release_kept(size_t most);

  const size_t limit_;
  const Take take_;
  const Give give_;
  size_t used_ = 0, most_used_ = 0, kept_ = 0;
  std::unordered_map<Rank, size_t> held_;  ///< by master: bytes; those that hold some
  std::map<size_t, std::vector<std::byte*>> kept_by_size_;  ///< no list is empty
};

}  // namespace ibcoll
