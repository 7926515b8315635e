#pragma once
/// What a simulated network offers to whatever runs on it: send a message, hear when it is there.
/// Two models stand behind it: packets (packet_network.h) and flows (flow_network.h).

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "studies/simulate/event_queue.h"
#include "studies/simulate/routes.h"

namespace ibcoll::sim {

enum class Level : uint8_t {
  kPacket,  ///< every packet, buffer and arbiter
  kFlow,    ///< messages share links max-min fairly; blocking in switches is estimated
};

/// How a switch stores what has arrived.
enum class Queues : uint8_t {
  kFifo,     ///< one queue an input port and virtual lane: head-of-line blocking
  kVirtual,  ///< one queue an input and output port; inputs and outputs are matched (iSLIP)
  kOutput,   ///< ideal: straight to queues without limit at the outputs
};

/// How a port chooses among those that want to send on it.
enum class Arbiter : uint8_t { kRoundRobin, kRandom };

/// How a server's port chooses among its ranks, packet by packet.
enum class Nic : uint8_t {
  kRandom,
  kRoundRobin,
  kOneAtATime,  ///< a message is sent whole before the next begins, first come, first served
};

struct NetworkOptions {
  Level level = Level::kPacket;
  Queues queues = Queues::kFifo;
  Arbiter arbiter = Arbiter::kRoundRobin;
  Nic nic = Nic::kRandom;
  bool cut_through = true;    ///< else store and forward
  uint32_t mtu_bytes = 2048;  ///< data of a packet at most
  uint32_t header_bytes = 0;  ///< of each packet, on top of its data
  uint32_t buffer_packets =
      16;  ///< of an input port and lane; more where a link's round trip needs it
  uint64_t seed = 1;
  /// Flow level: rates are computed anew at most this often; what starts in between takes what is
  /// free. 0: at every change.
  int64_t rate_interval_ns = 0;
};

/// One message between two hosts.
struct NetworkMessage {
  uint32_t route = 0;   ///< in the Routes of the network
  uint32_t sender = 0;  ///< among whom the NIC arbitrates: a number below NetworkLoad::senders
  uint64_t bytes = 0;
  /// A few bytes that go ahead of the data at the NIC (not in switches), as queue pairs of their
  /// own do: tokens and exposures.
  bool control = false;
  /// Bytes a second at which it leaves its host at most; 0: as fast as the port is (packet level
  /// only).
  double rate = 0;
};

/// What runs on a network. Called in the order of time, from inside run().
class NetworkClient {
 public:
  virtual ~NetworkClient() = default;
  /// The last packet of the message has begun to leave its host (packet level only).
  virtual void departed(uint32_t /*tag*/) {}
  /// The last byte is at its destination.
  virtual void delivered(uint32_t tag) = 0;
  /// A time set with wake_at() is there.
  virtual void woken(uint32_t tag) = 0;
  /// All of the above that happens at this time has been told: what depends on who was first can
  /// be decided without regard to the order of events.
  virtual void moment_over() {}
};

/// A network in time. Everything is deterministic for the seed.
class Network {
 public:
  virtual ~Network() = default;

  /// `routes` must outlive the network. `senders`: one more than the largest
  /// NetworkMessage::sender.
  static Result<std::unique_ptr<Network>> create(const Routes& routes,
                                                 const NetworkOptions& options, uint32_t senders);

  Time now() const { return now_; }
  uint64_t events() const { return events_; }
  const Routes& routes() const { return routes_; }

  /// Sends from now on; `tag` comes back in delivered().
  virtual void send(const NetworkMessage& message, uint32_t tag) = 0;
  /// Calls woken(tag) at `time` (not in the past), after what is due by then.
  void wake_at(Time time, uint32_t tag) { queue_.push(time, kWake, tag); }

  /// Runs until nothing is left to happen, the client calls stop(), or `until` is reached. Fails
  /// when packets wait for each other in a cycle.
  Status run(NetworkClient& client, Time until = INT64_MAX);
  /// Lets run() return before the next event.
  void stop() { stopped_ = true; }

  /// Bytes (data and headers) that went over each link so far.
  virtual const std::vector<uint64_t>& link_bytes() const = 0;

 protected:
  Network(const Routes& routes, Time bucket) : routes_(routes), queue_(bucket) {}
  static constexpr uint8_t kWake = 0, kDelivered = 1, kFirstOwnKind = 2;

  /// One of the model's own events.
  virtual void handle(const Event& event) = 0;
  /// After all events of a moment: what must see all of them.
  virtual void settle() = 0;

  const Routes& routes_;
  EventQueue queue_;
  NetworkClient* client_ = nullptr;
  uint64_t under_way_ = 0;  ///< messages sent and not delivered

 private:
  Time now_ = 0;
  uint64_t events_ = 0;
  bool stopped_ = false;
};

const char* to_string(Level level);
const char* to_string(Queues queues);
const char* to_string(Arbiter arbiter);
const char* to_string(Nic nic);
/// "packet", "flow".
Result<Level> parse_level(std::string_view text);
/// "fifo", "voq", "output".
Result<Queues> parse_queues(std::string_view text);
/// "round-robin", "random".
Result<Arbiter> parse_arbiter(std::string_view text);
/// "random", "round-robin", "one-at-a-time".
Result<Nic> parse_nic(std::string_view text);

}  // namespace ibcoll::sim
