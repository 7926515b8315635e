#pragma once
/// Stream sockets between the control agents of a job, and between an agent and the ranks of its
/// machine: framed messages, and the end of a process as the end of its stream.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

/// 128 random bits that only processes of the job know.
using JobToken = std::array<uint64_t, 2>;

enum class FrameKind : uint32_t {
  kHello = 1,    ///< a rank presents itself; its token is the payload
  kJoin = 2,     ///< leader to root: `rank` is on my machine
  kGo = 3,       ///< everybody is there; the leader of each rank is the payload
  kGather = 4,   ///< leader to root: what its machine gives to an allgather
  kAll = 5,      ///< root to leader: everybody's
  kFailure = 6,  ///< to the root: what a rank reports; from the root: what counts. `rank`: culprit
  kBye = 7,      ///< the sender leaves in order
};

struct Frame {
  FrameKind kind{};
  int32_t rank = -1;
  int32_t code = 0;  ///< of a failure
  std::vector<std::byte> payload;

  std::string text() const {
    return {reinterpret_cast<const char*>(payload.data()), payload.size()};
  }
};

/// One end of a connection. Blocking; each call fails where the other end is gone, or silent for
/// longer than set_limit() says.
class ControlLink {
 public:
  /// More than ten million ranks with a kilobyte each would need; a frame that claims more is not
  /// ours.
  static constexpr uint64_t kMostPayload = uint64_t{1} << 34;

  ControlLink() = default;
  explicit ControlLink(UniqueFd socket) : socket_(std::move(socket)) {}

  bool open() const { return socket_.valid(); }
  int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }

  Status send(FrameKind kind, int32_t rank, std::span<const std::byte> payload = {},
              int32_t code = 0);
  /// Refuses a payload of more than `most` bytes before it makes room for it.
  Result<Frame> receive(uint64_t most = kMostPayload);
  /// Over sockets of one machine.
  Status send_descriptors(std::span<const int> descriptors);
  Status receive_descriptors(std::span<UniqueFd> descriptors);

  /// Nothing to read and the other end still there. Does not block.
  bool quiet() const;
  /// Of each wait inside a call; 0: none.
  void set_limit(int seconds);

 private:
  Status send_all(const void* data, size_t bytes);
  Status receive_all(void* data, size_t bytes);

  UniqueFd socket_;
};

/// A socket that others connect to.
class ControlListener {
 public:
  /// By an abstract name, which is in no file system. `taken`: somebody has it already.
  static Result<ControlListener> local(const std::string& name, bool& taken);
  /// By TCP, on any free port of all interfaces.
  static Result<ControlListener> network();

  int fd() const { return socket_.get(); }
  int port() const { return port_; }
  /// The next connection; of another user's process: an error.
  Result<ControlLink> accept();

 private:
  UniqueFd socket_;
  int port_ = 0;
  bool local_ = false;
};

Result<ControlLink> connect_local(const std::string& name);
/// Gives up after `seconds`. A host that vanishes breaks the connection within about two seconds.
Result<ControlLink> connect_network(const std::string& address, int port, int seconds);

/// The addresses peers may reach this host at, those of real interfaces first, as text.
std::vector<std::string> own_addresses();

}  // namespace ibcoll
