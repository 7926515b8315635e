#pragma once
/// Carries packaged messages between the ranks that run a task-graph schedule: each message is one
/// put with a signal into a place of its own in the receiver's memory.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/sharing/bell.h"
#include "engine/transport/transport.h"
#include "studies/task_graph/schedule.h"

namespace ibcoll::task_graph {

/// One rank's end. Rank p runs processor p. Non-blocking; one thread at a time.
class PackageChannel {
 public:
  virtual ~PackageChannel() = default;

  /// Where the results of an outgoing message are to be packed.
  virtual std::span<double> outgoing(MessageId message) = 0;
  /// Sends what lies there; false: no room now, call again.
  virtual bool send(MessageId message) = 0;
  /// The results of an incoming message; empty: not there yet. Makes progress.
  virtual std::span<const double> receive(MessageId message) = 0;
  /// The channel can be used once more: nothing of the last run is on its way. Collective.
  virtual Status reset() = 0;
  /// Why the channel is broken, if it is.
  virtual Status health() const = 0;
};

/// Over a one-sided network: verbs or the software loopback. Collective; the transport and the
/// schedule must outlive the channel.
Result<std::unique_ptr<PackageChannel>> create_network_channel(Bootstrap& bootstrap,
                                                               NetworkTransport& network,
                                                               const TaskSchedule& schedule);

/// Over the shared memory of one server. Collective.
Result<std::unique_ptr<PackageChannel>> create_local_channel(Bootstrap& bootstrap,
                                                             LocalTransport& transport,
                                                             const TaskSchedule& schedule);

}  // namespace ibcoll::task_graph
