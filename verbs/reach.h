#pragma once
/// Trying out at start which ports reach which, where there is a choice: neither names nor subnets
/// tell, since separate networks may have the same prefix.

#include <span>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "verbs/port_choice.h"

namespace ibcoll::verbs {

/// Collective over the job: the agent of each station sends datagrams from each of its ports to
/// each of the next station's; what each station heard. `here`: this rank's, an index; `ports`: its
/// own, as in its offer; `job` is equal on all ranks; `may_decline`: see NetworkSetup. Takes
/// milliseconds where all ports reach each other, else up to a second or, with RoCE, the few that
/// the kernel looks for a neighbour.
Result<std::vector<Heard>> listen_around(Bootstrap& bootstrap, const Stations& stations, int here,
                                         std::span<const Offer> offers,
                                         std::span<const PortInfo> ports, uint64_t job,
                                         bool may_decline);

}  // namespace ibcoll::verbs
