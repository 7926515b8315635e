#pragma once
/// Which message goes over which link when, of messages that all servers have for all.

#include "engine/planner/contention_free/link_calendar.h"
#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// A message on its way from a server to the next.
struct MatchedCopy {
  uint32_t edge;  ///< the pair of servers
  int message;    ///< its origin times the parts, and its part
  int64_t start_ns, end_ns;
  uint32_t forwards;  ///< what brought it
};

/// Bytes of an origin times the parts, and a part.
uint64_t bytes_of(const Problem& problem, int message);

/// Links of which nothing is taken.
std::vector<Tail> all_free(const Problem& problem);

/// What goes, by start: whichever link is free first takes of what its sender has and its receiver
/// lacks what fewest servers have, of several any. That is a matching of messages to links in a
/// network expanded over time ("TACOS: Topology-Aware Collective Algorithm Synthesizer for
/// Distributed Machine Learning", Won et al., MICRO 2024, section IV; it chooses among all at
/// random). The shortest of several tries. `edges`: a problem whose shipments are the pairs that
/// may send; `links`: what is taken of each link already; `ready_ns`: when each server has its own
/// message.
std::vector<MatchedCopy> match_messages(const Problem& edges, const std::vector<Tail>& links,
                                        const std::vector<int64_t>& ready_ns, int64_t bound_ns);

}  // namespace ibcoll::contention_free
