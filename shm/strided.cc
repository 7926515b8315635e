/// Messages whose data is not contiguous, at either end.

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "shm/transport.h"

namespace ibcoll::shm {
namespace {

/// Runs of private memory from this length on are read straight to their places, others through a
/// buffer: each piece costs the kernel some 400 ns, as long as it takes to copy 4 KB.
IBCOLL_LIMIT(size_t, kLongRun, 4096);
/// Pieces of memory that the kernel is given at once.
constexpr size_t kVectors = 256;
IBCOLL_LIMIT(size_t, kListedPieces, kVectors);

/// Adds memory to a list of pieces; false if that is full.
class Pieces {
 public:
  bool add(std::byte* place, size_t bytes) {
    if (count_ > 0 && end_ == place) {
      pieces_[count_ - 1].iov_len += bytes;
    } else if (count_ < kListedPieces) {
      pieces_[count_++] = {place, bytes};
    } else {
      return false;
    }
    end_ = place + bytes;
    return true;
  }
  const iovec* data() const { return pieces_.data(); }
  size_t count() const { return count_; }

 private:
  std::array<iovec, kVectors> pieces_;
  size_t count_ = 0;
  const std::byte* end_ = nullptr;
};

}  // namespace

Offer Transport::offer_strided(Rank rank, const MessageKey& key, const StridedMemory& memory,
                               const StridedView& source, size_t bytes, uint32_t& ticket) {
  Peer& peer = peers_[local(rank)];
  if (!peer.outgoing.is_open()) [[unlikely]] {
    if (const std::optional<Offer> refused = refuse_message(peer)) return *refused;
  }
  const bool shared = in_region(memory.reach, memory.reach_bytes);
  if (peer.outgoing.is_open() && bytes <= longest_eager(key, shared)) {
    std::byte* const payload = room_for(peer, bytes);
    if (payload != nullptr) {
      copy_strided({payload}, source, bytes);
      publish(peer, key, MessageKind::kEager, bytes);
      return Offer::kDone;
    }
    if (!may_go_otherwise(peer, bytes)) return Offer::kNoRoom;
  }
  const bool readable = shared || (peer.reads_me && (!memory.short_runs || shares_address_space_));
  const size_t head = sizeof(DirectSource) + sizeof(StridedSource);
  if (!readable || bytes == 0 || head + source.count * sizeof(StridedBlock) > chunk_bytes_)
    return offer_chunks(peer, key, source, bytes, ticket);
  const auto offset_of = [this](const void* place) {
    return reinterpret_cast<uintptr_t>(place) - reinterpret_cast<uintptr_t>(region_.data());
  };
  const uint64_t address =
      shared ? offset_of(source.base) : reinterpret_cast<uintptr_t>(source.base);
  return offer_direct(peer, key, {address, bytes, shared, &source}, ticket);
}

Pull Transport::pull_strided(Rank rank, const MessageKey& key, const StridedView& target,
                             size_t bytes, size_t& progress) {
  return pull(rank, {key, nullptr, bytes, false, nullptr, &target}, progress);
}

/// What a message is to be read from. Of private memory nothing but the addresses is of use here.
StridedView Transport::view_of(const DirectSource& source, const std::byte* payload) const {
  StridedSource strided;
  std::memcpy(&strided, payload + sizeof(source), sizeof(strided));
  const uintptr_t base = source.in_region
                             ? reinterpret_cast<uintptr_t>(region_.data()) + source.address
                             : source.address;
  return {reinterpret_cast<std::byte*>(base),
          reinterpret_cast<const StridedBlock*>(payload + sizeof(source) + sizeof(strided)),
          static_cast<uint32_t>(strided.count), strided.begin};
}

/// Reads on in a peer's private memory where either side is not contiguous.
ssize_t Transport::read_private(const Peer& peer, const Wanted& wanted, const StridedView& source,
                                size_t progress) {
  const StridedView target = wanted.view().from(progress);
  const size_t left = wanted.bytes - progress;
  const ssize_t read = read_runs(peer, target, source.from(progress), left);
  return read != 0 ? read : read_buffered(peer, target, source.from(progress), left);
}

/// Reads run by run as long as they are long; 0: the first is not.
ssize_t Transport::read_runs(const Peer& peer, const StridedView& target, const StridedView& source,
                             size_t bytes) {
  StridedCursor in(source), out(target);
  Pieces from, to;
  const size_t most = std::min(bytes, kReadBytes);
  size_t listed = 0;
  while (listed < most) {
    if (std::min<uint64_t>({in.left(), out.left(), bytes - listed}) < kLongRun) break;
    const size_t run = std::min<uint64_t>({in.left(), out.left(), most - listed});
    if (!from.add(in.place(), run)) break;
    if (!to.add(out.place(), run)) break;  // what `from` has more is not read
    listed += run;
    in.skip(run);
    out.skip(run);
  }
  if (listed == 0) return 0;
  return process_vm_readv(peer.pid, to.data(), to.count(), from.data(), from.count(), 0);
}

/// Reads what lies side by side at its sender, and copies it on.
ssize_t Transport::read_buffered(const Peer& peer, const StridedView& target,
                                 const StridedView& source, size_t bytes) {
  const StridedCursor in(source);
  const size_t piece = std::min<uint64_t>({bytes, in.left(), kPieceBytes});
  if (private_piece_.size() < piece) private_piece_.resize(piece);
  const iovec to{private_piece_.data(), piece}, from{in.place(), piece};
  const ssize_t copied = process_vm_readv(peer.pid, &to, 1, &from, 1, 0);
  if (copied > 0) copy_strided(target, {private_piece_.data()}, static_cast<size_t>(copied));
  return copied;
}

}  // namespace ibcoll::shm
