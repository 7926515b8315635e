#include "engine/bootstrap/region_mailbox.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "engine/bootstrap/descriptors.h"

namespace ibcoll {
namespace {

sockaddr_un socket_address(const MailboxName& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // sun_path[0] stays 0: an abstract name, which is in no file system.
  const std::string text = fmt::format("ibcoll-{:016x}{:016x}", name[0], name[1]);
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

}  // namespace

Status RegionMailbox::open() {
  socket_.reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_.valid()) return fail_errno("cannot create a socket");
  if (getrandom(name_.data(), sizeof name_, 0) != sizeof name_)
    return fail_errno("cannot make a random name");
  const int on = 1;
  socklen_t length = 0;
  const sockaddr_un address = socket_address(name_, length);
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    return fail_errno("cannot name a socket");
  return {};
}

Status RegionMailbox::send(Bootstrap& bootstrap, const MailboxName& to, int region,
                           const Status& outcome, int fd) const {
  Mail mail{region, to_record(outcome)};
  socklen_t length = 0;
  sockaddr_un address = socket_address(to, length);
  iovec data{&mail, sizeof mail};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = length;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (outcome) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  while (sendmsg(socket_.get(), &message, MSG_NOSIGNAL) < 0) {
    // Too many descriptors of this user are under way; peers are about to take them.
    if (errno != ETOOMANYREFS && errno != EINTR)
      return fail_errno("cannot pass shared memory to a peer");
    if (const auto failure = bootstrap.failure()) return tl::unexpected<Error>(failure->error());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

Result<UniqueFd> RegionMailbox::receive(Bootstrap& bootstrap, int region) {
  while (true) {
    const auto here = std::find_if(early_.begin(), early_.end(), [region](const Arrived& arrived) {
      return arrived.mail.region == region;
    });
    if (here == early_.end()) {
      IBCOLL_ASSIGN(std::optional<Arrived> arrived, next());
      if (arrived) {
        early_.push_back(std::move(*arrived));
      } else if (const auto failure = bootstrap.failure()) {
        return tl::unexpected<Error>(failure->error());
      }
      continue;
    }
    Arrived arrived = std::move(*here);
    early_.erase(here);
    IBCOLL_TRY(to_status(arrived.mail.outcome));
    if (!arrived.fd.valid()) {
      errno = EMFILE;  // what else keeps it from coming
      return fail_opening("a peer's shared memory did not arrive");
    }
    return std::move(arrived.fd);
  }
}

Result<std::optional<RegionMailbox::Arrived>> RegionMailbox::next() {
  constexpr int kLookMs = 50;
  pollfd wanted{socket_.get(), POLLIN, 0};
  if (poll(&wanted, 1, kLookMs) <= 0) return std::nullopt;
  Arrived arrived;
  iovec data{&arrived.mail, sizeof arrived.mail};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t received = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  if (received < 0) return fail_errno("cannot receive shared memory from a peer");
  bool same_user = false;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET) continue;
    if (header->cmsg_type == SCM_RIGHTS) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header), sizeof number);
      arrived.fd.reset(number);
    } else if (header->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
      same_user = sender.uid == geteuid();
    }
  }
  if (!same_user || received != sizeof arrived.mail) return std::nullopt;  // not from one of us
  return arrived;
}

}  // namespace ibcoll
