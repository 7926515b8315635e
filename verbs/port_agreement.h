#pragma once
/// What a job agrees on at its start: the ports it uses, and which of them is whose.

#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/schedule/shape.h"
#include "verbs/device.h"
#include "verbs/port_choice.h"
#include "verbs/transport.h"

namespace ibcoll::verbs {

struct AgreedPort {
  PortInfo port;                 ///< of this rank
  size_t place = 0;              ///< of it in the rank's offer
  uint64_t job = 0;              ///< the same on all ranks, another for each job
  std::vector<Offer> offers;     ///< of all ranks
  std::vector<RankPorts> ranks;  ///< which of them is whose
};

/// Collective over the job; fails on all ranks alike. What many ranks have to offer travels once.
Result<AgreedPort> agree_on_port(Bootstrap& bootstrap, const Shape& shape,
                                 const std::vector<int>& machine_of,
                                 const Result<TransportOptions>& options);

/// Bytes that a rank holds meanwhile, of so many ranks on so many machines. Also those that rank 0
/// passes on between them: with each rank's record, or with the offers.
size_t port_agreement_bytes(uint64_t ranks, uint64_t machines);
size_t port_agreement_told(uint64_t ranks, uint64_t machines);

}  // namespace ibcoll::verbs
