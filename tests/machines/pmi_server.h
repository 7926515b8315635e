#pragma once
/// The launcher's side of PMI-1: answers the ranks' lines. All that programs of this library and of
/// MPICH ask for when they start.

#include <map>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/schedule/shape.h"

namespace ibcoll::machines {

class PmiServer {
 public:
  explicit PmiServer(const Shape& shape);

  /// A connection for one rank: what it inherits as PMI_FD.
  Result<UniqueFd> connect(Rank rank);
  /// To be polled for input; -1 where the rank's connection has ended.
  int descriptor(Rank rank) const { return ranks_[static_cast<size_t>(rank)].fd.get(); }
  /// Answers what has come from that rank.
  void serve(Rank rank);
  /// The status that a rank has asked to end all with, if one has; else -1.
  int aborted() const { return aborted_; }

 private:
  struct Connection {
    UniqueFd fd;
    std::string unread;
    bool in_barrier = false;
  };
  void answer(Connection& connection, const std::string& line);
  void say(Connection& connection, const std::string& line);

  std::vector<Connection> ranks_;
  std::map<std::string, std::string> values_;
  int aborted_ = -1;
};

}  // namespace ibcoll::machines
