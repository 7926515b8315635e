#include "engine/bootstrap/control_connection.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "engine/bootstrap/descriptors.h"

namespace ibcoll {
namespace {

constexpr size_t kMostDescriptors = 4;
/// Room for a payload is made as it comes: a claim alone takes no memory.
constexpr size_t kPayloadPiece = size_t{1} << 20;

/// Waits until a socket is ready for `events`; false once the deadline has passed.
bool wait_for(int fd, short events, Deadline deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd wanted{fd, events, 0};
    if (poll(&wanted, 1, static_cast<int>(std::min<int64_t>(left.count(), 60'000))) > 0)
      return true;
  }
}

tl::unexpected<Error> ended() {
  return fail(ErrorCode::kPeerFailed, "the control connection has ended");
}

tl::unexpected<Error> no_room_for_descriptors() {
  errno = EMFILE;
  return fail_opening("cannot take the memory to meet in");
}

tl::unexpected<Error> silent() {
  return fail(ErrorCode::kPeerFailed, "control connection: the other side is silent");
}

}  // namespace

std::optional<Verdict> Frame::verdict() const {
  Verdict verdict;
  if (payload.size() != sizeof verdict) return std::nullopt;
  std::memcpy(&verdict, payload.data(), sizeof verdict);
  return verdict;
}

void ControlConnection::resume(ControlConnection fresh, uint64_t received) {
  socket_ = std::move(fresh.socket_);
  sent_bytes_ += fresh.sent_bytes_;
  end_ = ConnectionEnd::kNone;
  send_error_ = 0;
  header_have_ = payload_have_ = done_ = next_ = 0;
  payload_.clear();
  forget(received);
  flush();
}

void ControlConnection::forget(uint64_t received) {
  const auto has_come = [&](const Outgoing& out) {
    return out.header.number != 0 && out.header.number <= received;
  };
  while (!queue_.empty() && has_come(queue_.front()) && (next_ > 0 || done_ == 0)) {
    queue_.pop_front();
    if (next_ > 0) --next_;
  }
}

void ControlConnection::enqueue(Header header, Payload payload) {
  if (resumable_) header.number = ++sent_;
  header.bytes = payload ? payload->size() : 0;
  queue_.push_back({header, std::move(payload)});
  flush();
}

void ControlConnection::send(FrameKind kind, int32_t rank, std::span<const std::byte> payload,
                             int32_t code) {
  Payload copy;
  if (!payload.empty())
    copy = std::make_shared<const std::vector<std::byte>>(payload.begin(), payload.end());
  enqueue({static_cast<uint32_t>(kind), rank, code, 0, 0, 0, 0}, std::move(copy));
}

void ControlConnection::send(FrameKind kind, int32_t rank, Payload payload) {
  enqueue({static_cast<uint32_t>(kind), rank, 0, 0, 0, 0, 0}, std::move(payload));
}

void ControlConnection::send_failure(FrameKind kind, const Failure& failure) {
  const std::span text(failure.what.data(), failure.what.size());
  send(kind, failure.culprit, std::as_bytes(text), static_cast<int32_t>(failure.code));
}

bool ControlConnection::unacknowledged() const {
  int bytes = 0;
  return unsent() || (open() && ioctl(fd(), SIOCOUTQ, &bytes) == 0 && bytes > 0);
}

void ControlConnection::flush() {
  while (unsent()) {
    Outgoing& out = queue_[next_];
    if (done_ == 0) out.header.received = received_;
    const size_t total = sizeof(Header) + out.header.bytes;
    std::array<iovec, 2> parts{};
    int count = 0;
    if (done_ < sizeof(Header))
      parts[count++] = {reinterpret_cast<std::byte*>(&out.header) + done_, sizeof(Header) - done_};
    const size_t skipped = done_ > sizeof(Header) ? done_ - sizeof(Header) : 0;
    if (out.header.bytes > skipped)
      parts[count++] = {const_cast<std::byte*>(out.payload->data()) + skipped,
                        out.header.bytes - skipped};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t sent = sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {  // what the other side sent before may still be read
      send_error_ = errno;
      return;
    }
    done_ += static_cast<size_t>(sent);
    sent_bytes_ += static_cast<uint64_t>(sent);
    if (done_ < total) continue;
    done_ = 0;
    if (out.header.number == 0)
      queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(next_));
    else
      ++next_;
  }
}

Status ControlConnection::flush_by(Deadline deadline) {
  while (unsent()) {
    flush();
    if (send_error_ != 0) {
      errno = send_error_;
      return fail_errno("control connection");
    }
    if (unsent() && !wait_for(fd(), POLLOUT, deadline)) return silent();
  }
  return {};
}

Result<bool> ControlConnection::fill(std::byte* target, size_t bytes, size_t& have) {
  while (have < bytes) {
    const ssize_t got = recv(fd(), target + have, bytes - have, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (got <= 0) {
      // Sending takes the error of a connection that breaks; it then reads as if it had ended.
      const int error = got < 0 ? errno : send_error_ != EPIPE ? send_error_ : 0;
      end_ = error == 0            ? ConnectionEnd::kEnded
             : error == ECONNRESET ? ConnectionEnd::kReset
                                   : ConnectionEnd::kSilent;
      if (error == 0) return ended();
      errno = error;
      return fail_errno("control connection");
    }
    have += static_cast<size_t>(got);
  }
  return true;
}

Result<std::optional<Frame>> ControlConnection::take(uint64_t most) {
  if (end_ != ConnectionEnd::kNone || !open()) return ended();
  IBCOLL_ASSIGN(const bool header_came,
                fill(reinterpret_cast<std::byte*>(&header_), sizeof header_, header_have_));
  if (!header_came) return std::nullopt;
  if (header_.bytes > most) {
    end_ = ConnectionEnd::kEnded;
    return fail(ErrorCode::kSystem, "a control message of {} bytes: not from this job",
                header_.bytes);
  }
  while (payload_have_ < header_.bytes) {
    const size_t room = std::min<size_t>(header_.bytes, payload_have_ + kPayloadPiece);
    if (payload_.size() < room) payload_.resize(room);
    IBCOLL_ASSIGN(const bool payload_came, fill(payload_.data(), payload_.size(), payload_have_));
    if (!payload_came) return std::nullopt;
  }
  Frame frame{static_cast<FrameKind>(header_.kind), header_.rank, header_.code, header_.received,
              std::exchange(payload_, {})};
  header_have_ = payload_have_ = 0;
  forget(header_.received);
  if (header_.number == 0) return frame;
  if (header_.number <= received_) return take(most);  // it came before the connection broke
  received_ = header_.number;
  return frame;
}

Result<Frame> ControlConnection::receive(Deadline deadline, uint64_t most) {
  while (true) {
    IBCOLL_ASSIGN(std::optional<Frame> frame, take(most));
    if (frame) return std::move(*frame);
    if (!wait_for(fd(), POLLIN, deadline)) return silent();
  }
}

Status ControlConnection::send_descriptors(std::span<const int> descriptors, Deadline deadline) {
  IBCOLL_TRY(flush_by(deadline));
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  while (sendmsg(fd(), &message, MSG_NOSIGNAL) != 1) {
    // Too many descriptors of this user are under way; the peers are about to take them.
    const bool later = errno == EAGAIN || errno == ETOOMANYREFS || errno == EINTR;
    if (!later || std::chrono::steady_clock::now() > deadline)
      return fail_errno("cannot pass descriptors to a rank of this machine");
    poll(nullptr, 0, 1);
  }
  return {};
}

Status ControlConnection::receive_descriptors(std::span<UniqueFd> descriptors, Deadline deadline) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  while ((got = recvmsg(fd(), &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail_errno("cannot receive descriptors");
    if (!wait_for(fd(), POLLIN, deadline)) return silent();
  }
  const cmsghdr* header = got == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (got == 0) end_ = ConnectionEnd::kEnded;
  const bool carries = header != nullptr && header->cmsg_type == SCM_RIGHTS;
  const size_t came = carries ? (header->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
  std::array<UniqueFd, kMostDescriptors> taken;  // those that fit, which may not be all
  for (size_t i = 0; i < came; ++i) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof number);
    taken[i].reset(number);
  }
  if (came != descriptors.size()) return got != 1 ? ended() : no_room_for_descriptors();
  std::move(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(came), descriptors.begin());
  return {};
}

bool ControlConnection::quiet() const {
  pollfd end{fd(), POLLIN, 0};
  return ::poll(&end, 1, 0) == 0;
}

}  // namespace ibcoll
