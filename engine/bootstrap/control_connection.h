#pragma once
/// Framed messages over stream sockets, between the control agents of a job and between an agent
/// and the ranks of its machine. The end of a process is the end of its stream.

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/process_fd.h"
#include "engine/bootstrap/verdicts.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline deadline_in(double seconds) {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                std::chrono::duration<double>(seconds));
}
inline bool past(Deadline deadline) { return std::chrono::steady_clock::now() > deadline; }

enum class FrameKind : uint32_t {
  kHello = 1,      ///< who connects presents itself (handshake.h)
  kChallenge = 2,  ///< and is asked
  kProof = 3,      ///< and answers
  kWelcome = 4,    ///< and is let in
  kJoin = 5,       ///< leader to root: `rank` is on my machine
  /// Everybody is there. To members: the ranks of the machine are the payload. To leaders: from
  /// whom they get results (ResultSource): `rank`, at the address in the payload and port `code`.
  kGo = 6,
  /// Leader to root: what its machine gives to an allgather of `rank` bytes each; `code`: of whom,
  /// see GatherCall.
  kGather = 7,
  kAll = 8,      ///< everybody's, on its way to all leaders; `rank`: of which allgather
  kFailure = 9,  ///< to the root: what a rank reports; from the root: what counts. `rank`: culprit
  kBye = 10,     ///< the sender leaves in order; `code`: so many allgathers have had results
  kPresence = 11,  ///< changed presences: pairs of rank and Presence
  kHeard = 12,     ///< leader to root: its machine knows what counts
  kListen = 13,    ///< leader to root: it is at port `code` for other leaders
  kAsk = 14,       ///< leader to root: to be sent all results after that of allgather `rank`
  // Jobs that go on after deaths:
  kSurvive = 15,   ///< leader to root: the ranks of its machine ask for that
  kEnd = 16,       ///< how `rank` ended, as kFailure tells it: to the root, and from it to all
  kQuestion = 17,  ///< leader to root: a Verdict, as it is proposed
  kVerdict = 18,   ///< root to leaders: as it is given
  kForget = 19,    ///< to the root, and from it to all: the question of a Verdict is over
  /// To a root: whose ranks the sender speaks for from now on; `code`: the port of its machine's
  /// home. The root answers with an empty one.
  kTakeOver = 20,
  kHomes = 21,  ///< root to leaders: where the next ones are found (ControlHomes)
};

struct Frame {
  FrameKind kind{};
  int32_t rank = -1;
  int32_t code = 0;       ///< of a failure
  uint64_t received = 0;  ///< how many numbered frames the sender had taken by then
  std::vector<std::byte> payload;

  std::string text() const {
    return {reinterpret_cast<const char*>(payload.data()), payload.size()};
  }
  /// What a kFailure or kEnd tells.
  Failure failure() const { return {rank, static_cast<ErrorCode>(code), text()}; }
  /// What a kQuestion, kVerdict or kForget tells.
  std::optional<Verdict> verdict() const;
};

/// Why a connection can't be used.
enum class ConnectionEnd {
  kNone,
  kEnded,   ///< the other process closed it, or ended
  kReset,   ///< so do processes that end before they have read all, and some networks
  kSilent,  ///< the other process may be well
};

/// One end of a connection; waits only where it says so. What was sent while it was broken, or was
/// under way when it broke, is not lost where it can be resumed.
class ControlConnection {
 public:
  using Payload = std::shared_ptr<const std::vector<std::byte>>;
  /// More than ten million ranks with a kilobyte each would need; a frame that claims more is not
  /// ours.
  static constexpr uint64_t kMostPayload = uint64_t{1} << 34;

  ControlConnection() = default;
  explicit ControlConnection(UniqueFd socket) : socket_(std::move(socket)) {}

  bool open() const { return socket_.valid(); }
  int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }
  /// From now on frames are numbered and kept until the other side has them.
  void make_resumable() { resumable_ = true; }
  /// Takes over another connection to the same peer, which has taken `received` numbered frames.
  void resume(ControlConnection fresh, uint64_t received);
  uint64_t received() const { return received_; }
  /// Through this socket and those before it.
  uint64_t sent_bytes() const { return sent_bytes_; }

  /// Sends as much as goes at once, the rest by flush(). Where that fails, take() does, too.
  void send(FrameKind kind, int32_t rank, std::span<const std::byte> payload = {},
            int32_t code = 0);
  /// The same of a payload that is sent to many.
  void send(FrameKind kind, int32_t rank, Payload payload);
  void send_failure(const Failure& failure) { send_failure(FrameKind::kFailure, failure); }
  void send_failure(FrameKind kind, const Failure& failure);
  bool unsent() const { return open() && send_error_ == 0 && next_ < queue_.size(); }
  /// Whether something that was sent has not come to the peer's machine yet, as far as known here.
  bool unacknowledged() const;
  void flush();
  /// Waits until all is sent.
  Status flush_by(Deadline deadline);

  /// The next frame that has come completely; nothing where none has. Refuses a payload of more
  /// than `most` bytes before it makes room for it.
  Result<std::optional<Frame>> take(uint64_t most = kMostPayload);
  /// Waits for one.
  Result<Frame> receive(Deadline deadline, uint64_t most = kMostPayload);
  ConnectionEnd end() const { return end_; }

  /// Over sockets of one machine; waits.
  Status send_descriptors(std::span<const int> descriptors, Deadline deadline);
  Status receive_descriptors(std::span<UniqueFd> descriptors, Deadline deadline);

  /// What to poll for: something has come, or more of what is to be sent goes.
  pollfd watch() const {
    return {fd(), static_cast<short>(unsent() ? POLLIN | POLLOUT : POLLIN), 0};
  }

  /// Nothing to read and the other end still there.
  bool quiet() const;

 private:
  struct Header {
    uint32_t kind;
    int32_t rank;
    int32_t code;
    uint32_t unused;
    uint64_t number;    ///< 0: not numbered
    uint64_t received;  ///< the last number that the sender has taken
    uint64_t bytes;
  };
  struct Outgoing {
    Header header;
    Payload payload;
  };

  void enqueue(Header header, Payload payload);
  /// True once `have` has grown to `bytes`.
  Result<bool> fill(std::byte* target, size_t bytes, size_t& have);
  void forget(uint64_t received);

  ProcessFd socket_;
  bool resumable_ = false;
  ConnectionEnd end_ = ConnectionEnd::kNone;
  int send_error_ = 0;                ///< errno's number; receiving finds out what it means
  uint64_t sent_ = 0, received_ = 0;  ///< numbers
  uint64_t sent_bytes_ = 0;

  std::deque<Outgoing> queue_;  ///< in front what has been sent but may not have come
  size_t next_ = 0;             ///< the one that is sent next
  size_t done_ = 0;             ///< bytes of it that are

  Header header_{};
  size_t header_have_ = 0, payload_have_ = 0;
  std::vector<std::byte> payload_;
};

}  // namespace ibcoll
