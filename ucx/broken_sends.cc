#include "ucx/broken_sends.h"

#include <sys/socket.h>

#include <cerrno>

#include "ucx/imports.h"

namespace ibcoll::ucx {
namespace {

/// UCX reads from every connection, and before it sends: it finds the end there. Where it does not
/// it tries again at once, since it waits for a message to leave, and has to be told.
ssize_t send_as_told(int socket, const void* bytes, size_t count, int flags) {
  thread_local int put_off = -1;
  const ssize_t sent = send(socket, bytes, count, flags);
  if (sent >= 0) [[likely]]
    return sent;
  if (errno != ECONNRESET && errno != EPIPE) return sent;
  if (put_off == socket) {
    put_off = -1;
    return sent;
  }
  put_off = socket;
  errno = EAGAIN;
  return -1;
}

}  // namespace

void put_off_broken_sends(const Library& ucp) {
  replace_import(reinterpret_cast<const void*>(ucp.status_string), "send",
                 reinterpret_cast<void*>(send_as_told));
}

}  // namespace ibcoll::ucx
