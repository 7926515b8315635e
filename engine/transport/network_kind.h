#pragma once
/// What a transport between servers tells of itself, so that engine/transport/open.h opens it by
/// its name.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/memory_item.h"
#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/machine.h"
#include "engine/schedule/shape.h"
#include "engine/sharing/bell.h"
#include "engine/transport/network_ports.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// What a transport is opened with. The bootstrap and the bells must outlive it.
struct NetworkSetup {
  Bootstrap& bootstrap;
  const Shape& shape;
  /// Of the ranks of this machine, in the order of `processes`, in memory that they share.
  std::span<Bell> bells;
  /// Of the ranks of this machine, in ascending order of ranks.
  std::span<const WatchedProcess> processes;
  /// Of each rank. Machines are numbered 0, 1, ... in the order of their lowest ranks.
  const std::vector<int>& machines;
  uint64_t loopback_seed = 0;  ///< not 0: the loopback reorders and delays what it may
  /// Connections that a rank may have at a time (IBCOLL_MAX_CONNECTIONS); 0: what the device
  /// allows.
  uint32_t max_connections = 0;
  /// Others may be taken instead: what is likely to fail later is to say so now (kUnsupported).
  bool may_decline = false;

  bool on_one_machine() const {
    return std::all_of(machines.begin(), machines.end(), [](int machine) { return machine == 0; });
  }
  /// Ranks on other servers than this one.
  uint32_t outside() const {
    const int server = shape.server_of(bootstrap.rank());
    return static_cast<uint32_t>(bootstrap.size() - shape.server_size(server));
  }
  /// The same as max_connections; 0 also where there are no more ranks to connect to.
  uint32_t most_connections() const { return max_connections < outside() ? max_connections : 0; }
};

/// What a rank of a job has to do with the network, as far as its memory goes.
struct NetworkLoad {
  uint64_t ranks = 0;        ///< of the job
  uint64_t machines = 1;     ///< that they run on
  uint64_t outside = 0;      ///< of them on other servers than the rank
  uint64_t connections = 0;  ///< ranks that it exchanges data with
  uint64_t mailed = 0;       ///< those of them that it sends mails
  uint64_t longest_mail = 0;
  uint64_t max_connections = 0;  ///< at a time; 0: what the device allows

  /// How many it may have at a time where the transport has room for so many; 0: enough.
  uint64_t limit(uint64_t room) const {
    if (max_connections != 0) room = std::min(room, max_connections);
    return room < outside ? room : 0;
  }
  /// How many it has at a time.
  uint64_t open(uint64_t room) const {
    const uint64_t most = limit(room);
    return most == 0 ? connections : std::min(connections, most);
  }
};

/// What that takes on the rank.
struct NetworkMemory {
  uint64_t queue_pairs = 0;         ///< to other ranks
  uint64_t other_queue_pairs = 0;   ///< by which these are made
  uint64_t device_queue_pairs = 0;  ///< that a device has for all ranks of a machine; 0: no limit
  uint32_t max_connections = 0;     ///< NetworkTransport::max_connections()
  MemoryItems items = {};
  /// While the transport is opened: what a rank holds, and what all ranks tell each other at a
  /// time, all together.
  uint64_t start_bytes = 0, start_told = 0;
};

/// A folder beside engine/ that has a network_kind.h is a transport: there, in the namespace
/// ibcoll::FOLDER, network_kind() gives this but for the name, which is that of the folder. CMake
/// finds it.
struct NetworkKind {
  std::string_view name = {};
  /// Between machines `auto` takes what has the highest figure of those that join them; 0: only
  /// what asks for it by name gets it.
  int preference = 0;
  /// Collective over the job; fails on all ranks alike.
  Result<std::unique_ptr<NetworkTransport>> (*open)(const NetworkSetup& setup) = nullptr;
  /// The port of this machine that ranks would use first, or why they could use none. Null: it
  /// needs none.
  Result<std::string> (*usable_port)() = nullptr;
  /// All ports of this machine that it knows, for people. Null: it has none to show.
  std::vector<NetworkPort> (*ports)() = nullptr;
  /// What it takes of memory in a job, without looking at this machine. Null: nobody knows.
  Result<NetworkMemory> (*memory)(const NetworkLoad& load) = nullptr;
  /// Messages go through a protocol stack in software, between machines, and cost cores' time.
  bool costs_cores = false;
  /// Joins servers that are emulated on one machine, and no others.
  bool on_one_machine = false;
};

}  // namespace ibcoll
