#pragma once
/// What the subnet manager says of InfiniBand paths: only it knows the service level with which
/// packets reach a port without a deadlock, or at all in a partition, and which router leads to
/// another subnet.

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "engine/base/result.h"
#include "verbs/route.h"

namespace ibcoll::verbs {

/// Asks the subnet manager for the path from a port to a peer's. librdmacm does, since programs
/// without privileges can't send to it themselves. May take a second. ErrorCode::kPeerFailed: it
/// gives none now.
Result<Path> ask_subnet_manager(const PortInfo& port, const PortAddress& peer);

/// The paths from one port. For any thread.
class Paths {
 public:
  using Ask = std::function<Result<Path>(const PortInfo&, const PortAddress&)>;
  explicit Paths(const PortInfo& port, Ask ask = ask_subnet_manager)
      : port_(port), ask_(std::move(ask)) {}

  /// The path to a peer's port. The subnet manager is asked once a port, and only where what it
  /// says is used: for a router, or for a service level that the user has not set. Where it does
  /// not answer, ports of the same subnet are reached with service level 0, and it is not asked
  /// about them again: a job of many ranks would wait long. The error is of kPeerFailed: there is
  /// no way to another subnet now.
  Result<Path> find(const PortAddress& peer);

 private:
  Result<Path> path_inside(const PortAddress& peer, Path otherwise);

  const PortInfo port_;
  const Ask ask_;
  std::mutex mutex_;  ///< guards what follows; nothing is asked under it
  std::map<std::string, Path> known_;
  bool silent_ = false;
};

}  // namespace ibcoll::verbs
