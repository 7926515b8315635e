#include "engine/transport/loopback_placer.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "engine/base/clock.h"

namespace ibcoll::loopback {
namespace {

/// Bytes a system call writes at most; between two the peer is looked after.
constexpr size_t kMaxPiece = size_t{64} << 20;
/// How long a peer that was alive is trusted to still have its process id.
constexpr auto kTrust = std::chrono::milliseconds(5);
/// How long whoever watches a peer may take to say that it executes another program.
constexpr auto kLongestWord = std::chrono::milliseconds(200);

}  // namespace

void Failures::set(Failure failure) {
  const std::lock_guard lock(mutex_);
  if (present_.load(std::memory_order_relaxed)) return;
  failure_ = std::move(failure);
  present_.store(true, std::memory_order_release);
}

std::optional<Failure> Failures::get() const {
  if (!present()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Failures::note_of_peer(Failure failure) {
  if (failure.code != ErrorCode::kPeerFailed) return set(std::move(failure));
  const std::lock_guard lock(mutex_);
  suspects_.push_back({std::move(failure), now_ns()});
  has_suspects_.store(true, std::memory_order_release);
}

bool Failures::suspects(Rank rank) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(suspects_,
                             [rank](const Suspect& one) { return one.failure.culprit == rank; });
}

void Failures::forget(Rank rank) {
  const std::lock_guard lock(mutex_);
  std::erase_if(suspects_, [rank](const Suspect& one) { return one.failure.culprit == rank; });
  has_suspects_.store(!suspects_.empty(), std::memory_order_release);
}

std::optional<Failure> Failures::due(const Bootstrap& bootstrap) const {
  const int64_t now = now_ns();
  const std::lock_guard lock(mutex_);
  for (const Suspect& one : suspects_) {
    const Rank rank = one.failure.culprit;
    if (now - one.since_ns >= kVerdictNs || bootstrap.has_left(rank) || bootstrap.end_of(rank))
      return one.failure;
  }
  return std::nullopt;
}

Result<Placer> Placer::create(Bootstrap& bootstrap, std::span<const WatchedProcess> processes) {
  Placer placer;
  placer.me_ = bootstrap.rank();
  placer.threads_ = bootstrap.shares_address_space();
  placer.works_ = true;
  if (placer.threads_) return placer;
  const auto size = static_cast<size_t>(bootstrap.size());
  if (processes.size() != size) {
    return fail(ErrorCode::kInvalidArgument, "{} processes for {} ranks", processes.size(), size);
  }
  placer.watch_ = MachineWatch(bootstrap, processes);
  placer.processes_.reserve(size);
  for (const WatchedProcess& process : processes) placer.processes_.push_back(process.pid);
  placer.seen_alive_.resize(size);
  placer.bootstrap_ = &bootstrap;

  // Write to the next rank, which is allowed or forbidden as for all of them.
  const auto next = (static_cast<size_t>(placer.me_) + 1) % size;
  static std::byte probed{0};  // its writer may be late
  const auto mine = reinterpret_cast<uint64_t>(&probed);
  std::vector<uint64_t> addresses(size);
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, addresses.data()));
  const std::byte one{1};
  const PutSegment probe{&one, 1};
  if (auto error = placer.place(static_cast<Rank>(next), addresses[next], {&probe, 1}, 0, 1)) {
    placer.works_ = false;
    placer.why_not_ = std::move(error->message);
  }
  return placer;
}

bool Placer::may_have_ended(Rank peer) {
  auto& seen = seen_alive_[static_cast<size_t>(peer)];
  const auto now = std::chrono::steady_clock::now();
  if (now - seen < kTrust) return false;
  seen = now;
  return watch_.has_ended(peer);
}

/// What is said of a peer that has no such memory any more: it executes another program.
std::optional<Failure> Placer::word_of(Rank peer) const {
  const auto until = std::chrono::steady_clock::now() + kLongestWord;
  while (true) {
    if (auto end = bootstrap_->end_of(peer)) return end;
    if (auto failure = bootstrap_->failure(); failure && failure->culprit == peer) return failure;
    if (std::chrono::steady_clock::now() > until) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::optional<Error> Placer::place(Rank peer, uint64_t address, Segments segments, size_t begin,
                                   size_t bytes) {
  if (threads_ || peer == me_) {
    for_each_piece(segments, begin, bytes, [&address](const std::byte* source, size_t piece) {
      std::memcpy(reinterpret_cast<void*>(address), source, piece);
      address += piece;
    });
    return std::nullopt;
  }
  const pid_t pid = processes_[static_cast<size_t>(peer)];
  for (size_t done = 0; done < bytes;) {
    const auto failed = bootstrap_->failure();
    if ((failed && failed->culprit == peer) || may_have_ended(peer)) {
      return Error{ErrorCode::kPeerFailed, fmt::format("rank {} (pid {}) has ended", peer, pid)};
    }
    const size_t piece = std::min(bytes - done, kMaxPiece);
    std::array<iovec, kMaxSegments> from;
    size_t count = 0;
    for_each_piece(segments, begin + done, piece, [&](const std::byte* source, size_t length) {
      from[count++] = {const_cast<std::byte*>(source), length};
    });
    const iovec to{reinterpret_cast<void*>(address + done), piece};
    const ssize_t written = process_vm_writev(pid, from.data(), count, &to, 1, 0);
    if (written < 0) {
      const int reason = errno;
      const auto word = reason == EFAULT ? word_of(peer) : std::nullopt;
      if (word) return Error{ErrorCode::kPeerFailed, word->what};
      errno = reason;
      return Error{errno == ESRCH ? ErrorCode::kPeerFailed : ErrorCode::kSystem,
                   fmt::format("process_vm_writev: {}", std::strerror(errno))};
    }
    done += static_cast<size_t>(written);
  }
  return std::nullopt;
}

Failure remote_access_error(Rank me, Rank peer, RemoteAddress target, size_t bytes,
                            const Error& why) {
  return {
      peer, why.code,
      fmt::format("remote access error: rank {} put {} bytes to {:#x} of rank {} with key {:#x}: "
                  "{}",
                  me, bytes, target.address, peer, target.key, why.message)};
}

}  // namespace ibcoll::loopback
