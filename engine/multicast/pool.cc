#include "engine/multicast/pool.h"

#include <algorithm>
#include <bit>
#include <new>

#include "engine/base/pages.h"

namespace ibcoll {
namespace {

constexpr size_t kAlign = 64;
alignas(kAlign) std::byte no_memory[kAlign];  ///< where messages without data lie

}  // namespace

MulticastPool::MulticastPool(size_t limit_bytes, Take take, Give give)
    : limit_(round_up(limit_bytes, kAlign)), take_(std::move(take)), give_(std::move(give)) {}

MulticastPool::~MulticastPool() { release_kept(0); }

/// The size of the buffer for a message: a quarter of a power of two at most wasted, unless the
/// message needs nearly all there is.
size_t MulticastPool::rounded(size_t bytes) const {
  const size_t size = round_up(bytes, std::max(kAlign, std::bit_floor(bytes) / 4));
  return size <= limit_ / 2 ? size : round_up(bytes, kAlign);
}

Result<std::optional<std::byte*>> MulticastPool::take(Rank master, size_t bytes, bool must) {
  if (bytes == 0) return no_memory;
  if (bytes > limit_) {
    return fail(ErrorCode::kNoMemory,
                "a message of {} bytes from rank {}: over the limit of {} bytes for all messages "
                "that have come (IBCOLL_MULTICAST_MEMORY)",
                bytes, master, limit_);
  }
  const size_t size = rounded(bytes);
  const auto held = held_.find(master);
  const size_t with_it = (held == held_.end() ? 0 : held->second) + size;
  if (!must && used_ != 0 && (used_ + size > limit_ || with_it > limit_ - used_ - size)) {
    return std::optional<std::byte*>();
  }
  // Before the buffer, which would be lost if there were no memory for this.
  size_t& of_master = held_[master];
  std::byte* buffer = take_kept(size);
  if (buffer == nullptr) {
    release_kept(limit_ - std::min(limit_, used_ + size));
    auto taken = take_(size);
    if (!taken && kept_ != 0) {  // of other sizes: the memory may be there, in pieces
      release_kept(0);
      taken = take_(size);
    }
    if (!taken) {
      if (of_master == 0) held_.erase(master);
      return tl::unexpected<Error>(std::move(taken).error());
    }
    buffer = *taken;
  }
  of_master = with_it;
  used_ += size;
  most_used_ = std::max(most_used_, used_);
  return buffer;
}

void MulticastPool::give_back(Rank master, std::byte* buffer, size_t bytes) noexcept {
  if (bytes == 0) return;
  const size_t size = rounded(bytes);
  used_ -= size;
  const auto held = held_.find(master);
  held->second -= size;
  if (held->second == 0) held_.erase(held);
  if (size > limit_ / 2 || !keep(buffer, size)) give_(buffer, size);
}

/// false: there is no memory to note it in.
bool MulticastPool::keep(std::byte* buffer, size_t size) noexcept {
  release_kept(limit_ / 2 - size);
  auto place = kept_by_size_.end();
  try {
    place = kept_by_size_.try_emplace(size).first;
    place->second.push_back(buffer);
  } catch (const std::bad_alloc&) {
    if (place != kept_by_size_.end() && place->second.empty()) kept_by_size_.erase(place);
    return false;
  }
  kept_ += size;
  return true;
}

std::byte* MulticastPool::take_kept(size_t size) {
  const auto found = kept_by_size_.find(size);
  if (found == kept_by_size_.end()) return nullptr;
  std::byte* const buffer = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) kept_by_size_.erase(found);
  kept_ -= size;
  return buffer;
}

/// Gives memory back until at most so much is kept, the largest buffers first.
void MulticastPool::release_kept(size_t most) {
  while (kept_ > most) {
    const size_t size = kept_by_size_.rbegin()->first;
    give_(take_kept(size), size);
  }
}

}  // namespace ibcoll
