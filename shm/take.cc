/// What a rank does with a message that has come: it is copied to its place, or combined with what
/// lies there.

#include <sys/uio.h>

#include <algorithm>
#include <cstring>

#include "engine/base/clock.h"
#include "engine/base/copy.h"
#include "shm/transport.h"

namespace ibcoll::shm {
namespace {

/// At most so many bytes, but whole elements where they are combined.
size_t whole_elements(const Combining* how, size_t limit, size_t left) {
  if (how == nullptr || left <= limit) return std::min(limit, left);
  return std::max<size_t>(limit / how->element_bytes, 1) * how->element_bytes;
}

}  // namespace

Pull Transport::refuse(const Peer& peer, const std::string& why) {
  trouble_ = fmt::format("rank {} {}", peer.rank, why);
  return Pull::kMismatch;
}

Pull Transport::refuse_program(const Peer& peer) {
  return refuse(peer, "runs another algorithm, collective or option in this call");
}

Pull Transport::refuse_length(const Peer& peer, uint64_t sent, uint64_t expected) {
  return refuse(peer, fmt::format("sends {} bytes where {} are expected", sent, expected));
}

/// Copies data that has come to the target, or combines it with what is there; false: it failed.
bool Transport::lay_down(const Wanted& wanted, size_t at, const std::byte* source, size_t bytes) {
  if (wanted.strided != nullptr) [[unlikely]] {
    copy_strided(wanted.strided->from(at), {const_cast<std::byte*>(source)}, bytes);
    return true;
  }
  std::byte* target = wanted.target + at;
  if (wanted.how != nullptr) {
    Combining& how = *wanted.how;
    how.failure = how.combine(target, source, bytes, how.context);
    return how.failure == nullptr;
  }
  if (wanted.streaming) {
    copy_streaming(target, source, bytes);
  } else {
    copy_plain(target, source, bytes);
  }
  return true;
}

/// The same of data that lies where this rank can read it, from its byte `at` on.
bool Transport::lay_down(const Wanted& wanted, size_t at, const DirectSource& source,
                         const StridedView* strided, size_t bytes) {
  if (strided != nullptr) [[unlikely]] {
    copy_strided(wanted.view().from(at), strided->from(at), bytes);
    return true;
  }
  const std::byte* from = source.in_region ? region_.data() + source.address
                                           : reinterpret_cast<const std::byte*>(source.address);
  return lay_down(wanted, at, from + at, bytes);
}

/// Chunks may end inside an element: what is to be combined is put together first. Only where the
/// kernel forbids ranks to read each other's memory.
bool Transport::add_chunk(const Peer& peer, const Wanted& wanted, const std::byte* chunk,
                          size_t bytes, size_t progress) {
  const auto is_this = [&](const Assembly& one) {
    return one.rank == peer.rank && one.key.group == wanted.key.group &&
           one.key.sequence == wanted.key.sequence;
  };
  auto found = std::find_if(assemblies_.begin(), assemblies_.end(), is_this);
  if (found == assemblies_.end()) {
    found = assemblies_.insert(found, {peer.rank, wanted.key, {}});
  }
  if (progress == 0) found->bytes.clear();
  found->bytes.insert(found->bytes.end(), chunk, chunk + bytes);
  if (progress + bytes < wanted.bytes) return true;
  const bool combined = lay_down(wanted, 0, found->bytes.data(), wanted.bytes);
  assemblies_.erase(found);
  return combined;
}

/// Reads on in a peer's private memory: how many bytes, or that it failed.
ssize_t Transport::read_private(const Peer& peer, const Wanted& wanted, uint64_t address,
                                size_t progress) {
  const size_t left = wanted.bytes - progress;
  const bool combines = wanted.how != nullptr;
  // What is combined shall still be in a cache by then.
  const size_t piece = whole_elements(wanted.how, combines ? kPieceBytes : kReadBytes, left);
  if (combines && private_piece_.size() < piece) private_piece_.resize(piece);
  const iovec to{combines ? private_piece_.data() : wanted.target + progress, piece};
  const iovec from{reinterpret_cast<void*>(address + progress), piece};
  const ssize_t copied = process_vm_readv(peer.pid, &to, 1, &from, 1, 0);
  if (!combines || copied <= 0) return copied;
  // The kernel stops inside an element where a page can't be read.
  const auto element = static_cast<ssize_t>(wanted.how->element_bytes);
  const ssize_t whole = copied / element * element;
  if (whole > 0) {
    lay_down(wanted, progress, private_piece_.data(), static_cast<size_t>(whole));
  }
  return whole;
}

/// Takes from one message, which is in the ring or in the stash. `finished`: the message (chunk)
/// is used up.
Pull Transport::take(Peer& peer, const RingMessage& message, const Wanted& wanted, size_t& progress,
                     bool& finished) {
  finished = false;
  const size_t bytes = wanted.bytes;
  Combining* const how = wanted.how;
  const MessageHeader& header = *message.header;
  if (header.program != wanted.key.program) [[unlikely]]
    return refuse_program(peer);
  const std::byte* payload = message.payload;
  const auto kind = static_cast<MessageKind>(header.kind);
  if (kind == MessageKind::kEager) {
    if (header.length != bytes) [[unlikely]]
      return refuse_length(peer, header.length, bytes);
    if (how != nullptr) {
      if (bytes != 0 && !lay_down(wanted, 0, payload, bytes)) [[unlikely]]
        return Pull::kNotYet;
    } else if (wanted.strided != nullptr) [[unlikely]] {
      lay_down(wanted, 0, payload, bytes);
    } else if (bytes != 0) {
      std::memcpy(wanted.target, payload, bytes);
    }
    finished = true;
    took(bytes <= kInlineBytes ? Way::kLine : Way::kRing, wanted.in_one_piece(), bytes);
    return Pull::kDone;
  }
  if (is_held(message)) [[unlikely]]
    return Pull::kNotYet;
  DirectSource source{};
  const bool in_chunks = kind == MessageKind::kChunk || kind == MessageKind::kAnswer;
  const bool direct = !in_chunks;
  const bool is_strided = kind == MessageKind::kStrided;
  if (direct) std::memcpy(&source, payload, sizeof(source));
  uint64_t total = source.bytes;
  if (in_chunks) std::memcpy(&total, payload, sizeof(total));
  if (total != bytes) [[unlikely]]
    return refuse_length(peer, total, bytes);
  if (direct && (progress == 0 || how != nullptr) && is_retracted(source)) [[unlikely]] {
    progress = 0;
    return Pull::kNotYet;
  }
  size_t piece = whole_elements(how, kPieceBytes, bytes - progress);
  if (in_chunks) {
    piece = header.length - sizeof(uint64_t);
    if (piece == 0) {
      // Nothing is copied, or combined, from nowhere.
    } else if (how == nullptr) {
      lay_down(wanted, progress, payload + sizeof(uint64_t), piece);
    } else if (!add_chunk(peer, wanted, payload + sizeof(uint64_t), piece, progress)) {
      return Pull::kNotYet;
    }
    finished = true;
    took(Way::kChunk);
  } else if (source.in_region || shares_address_space_) {
    const StridedView strided = is_strided ? view_of(source, payload) : StridedView{};
    if (!lay_down(wanted, progress, source, is_strided ? &strided : nullptr, piece)) [[unlikely]]
      return Pull::kNotYet;
  } else {
    const ssize_t copied =
        !is_strided && wanted.strided == nullptr
            ? read_private(peer, wanted, source.address, progress)
            : read_private(peer, wanted,
                           is_strided ? view_of(source, payload)
                                      : StridedView{reinterpret_cast<std::byte*>(source.address)},
                           progress);
    if (how != nullptr && how->failure != nullptr) [[unlikely]]
      return Pull::kNotYet;
    if (copied <= 0 && is_retracted(source)) [[unlikely]] {
      progress = 0;
      return Pull::kNotYet;
    }
    if (copied <= 0) [[unlikely]] {
      trouble_ = fmt::format("can't read {} bytes of rank {} (pid {}): {}", piece, peer.rank,
                             peer.pid, copied < 0 ? std::strerror(errno) : "nothing was copied");
      return Pull::kFailed;
    }
    piece = static_cast<size_t>(copied);
  }
  progress += piece;
  if (progress < bytes) return Pull::kPartial;
  progress = 0;
  // What was read after its sender took it back may be anything; the end of the group is on its
  // way.
  shared_fence(std::memory_order_acquire);
  if (direct && is_retracted(source)) [[unlikely]]
    return Pull::kNotYet;
  finished = true;
  if (direct) {
    took(Way::kPull, wanted.in_one_piece(), bytes);
    receipt(source.receipt).store(source.ticket, std::memory_order_release);
    touched(peer);
  }
  return Pull::kDone;
}

/// The same of a message in the ring whose sender wants to know what it takes. Of what is not just
/// copied, and in one go, there is nothing to tell.
Pull Transport::take_timed(Peer& peer, const RingMessage& message, const Wanted& wanted,
                           size_t& progress, bool& finished) {
  const uint32_t number = message.header->stamp.load(std::memory_order_relaxed);
  const bool is_copy = progress == 0 && wanted.how == nullptr && wanted.strided == nullptr;
  const int64_t begin = now_ns();
  const Pull result = take(peer, message, wanted, progress, finished);
  const int64_t ns = result == Pull::kDone && is_copy ? copy_took(now_ns() - begin) : 0;
  const uint64_t told = std::min<int64_t>(ns, UINT32_MAX);
  peer.incoming.told().store(uint64_t{number} << 32 | told, std::memory_order_relaxed);
  return result;
}

}  // namespace ibcoll::shm
