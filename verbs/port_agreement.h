#pragma once
/// What a job agrees on at its start: the ports it uses, and which of them is whose.

#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/schedule/shape.h"
#include "verbs/device.h"
#include "verbs/transport.h"

namespace ibcoll::verbs {

/// Collective over the job; fails on all ranks alike. Those of this rank's ports that the job uses.
/// `job` differs between jobs; rank 0's counts.
Result<std::vector<PortInfo>> agree_on_ports(Bootstrap& bootstrap,
                                             const std::vector<int>& machine_of,
                                             const Result<TransportOptions>& options, uint64_t job);

/// Which of a machine's ports a rank uses. Emulated servers: the machine's i-th server gets the
/// i-th port.
int port_index(const Shape& shape, Rank me, const std::vector<int>& machine_of);

}  // namespace ibcoll::verbs
