#pragma once
/// What a job agrees on at its start: the ports it uses, and which of them is whose.

#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/schedule/shape.h"
#include "verbs/device.h"
#include "verbs/transport.h"

namespace ibcoll::verbs {

/// Collective over the job; fails on all ranks alike. The port of this rank. `job` differs between
/// jobs; rank 0's counts.
Result<PortInfo> agree_on_port(Bootstrap& bootstrap, const Shape& shape,
                               const std::vector<int>& machine_of,
                               const Result<TransportOptions>& options, uint64_t job);

/// Meanwhile: what a rank holds for each rank of the job, and the record that it tells all of them.
size_t port_agreement_bytes_each_rank();
size_t port_agreement_record();

}  // namespace ibcoll::verbs
