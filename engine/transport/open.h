#pragma once
/// The one place that opens a transport between servers, by its name.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/transport/network_kind.h"

namespace ibcoll {

struct OpenedNetwork {
  std::unique_ptr<NetworkTransport> transport;
  /// Its name; on rank 0, where "auto" did not take its first choice, also why: "loopback (auto: no
  /// usable RDMA port: libibverbs lists no device)".
  std::string reason;
  bool costs_cores = false;  ///< NetworkKind::costs_cores
};

/// Collective over the job; fails on all ranks alike. `wanted`: the name of a transport, the same
/// on all ranks, or "auto": the loopback between servers that are emulated on one machine; between
/// machines the one with the highest NetworkKind::preference that joins all ranks.
Result<OpenedNetwork> open_network(const NetworkSetup& setup, std::string_view wanted);

/// Adds a transport, which is found before one that has its name. To be called before any is
/// opened.
void register_network(const NetworkKind& kind);

/// The port of this machine that the transport of that name would use first; the error says why
/// there is none. Empty where it needs none.
Result<std::string> usable_network_port(std::string_view name);
/// All ports of this machine that the transports know.
std::vector<NetworkPort> network_ports();
/// The transports that say what they take of memory, those first that `auto` prefers.
std::vector<std::string_view> networks_of_known_memory();
/// What the transport of that name takes of memory; kUnsupported where it does not say.
Result<NetworkMemory> network_memory(std::string_view name, const NetworkLoad& load);
/// What the transport of that name tells of itself; kUnsupported where there is none. Valid until
/// another is registered.
Result<const NetworkKind*> find_network(std::string_view name);

}  // namespace ibcoll
