#include "studies/simulate/routes.h"

namespace ibcoll::sim {

Routes::Routes(const topology::Fabric& fabric, bool assign_lanes)
    : fabric_(fabric),
      assign_lanes_(assign_lanes),
      assigner_(static_cast<uint32_t>(fabric.links())),
      by_source_(fabric.hosts()) {
  for (int i = 0; i < fabric.links(); ++i) {
    const topology::Link& link = fabric.link(i);
    const bool to_host = fabric.is_host(link.to);
    const int64_t latency_ns = link.latency_ns + (to_host ? 0 : fabric.switch_latency_ns());
    links_.push_back({static_cast<uint32_t>(link.from), static_cast<uint32_t>(link.to),
                      fabric.is_host(link.from), to_host, 1e12 / link.bandwidth,
                      latency_ns * kPicosecondsPerNanosecond});
  }
}

Result<uint32_t> Routes::add(uint32_t from, uint32_t to) {
  auto& row = by_source_[from];
  if (row.empty()) row.resize(by_source_.size(), kNone);
  if (row[to] != kNone) return row[to];
  Time latency = 0;
  double ps_per_byte = 0;
  between_.clear();
  fabric_.visit_route(static_cast<int>(from), static_cast<int>(to), [&](int link) {
    const SimulatedLink& wire = links_[link];
    latency += wire.latency;
    ps_per_byte = std::max(ps_per_byte, wire.ps_per_byte);
    path_.push_back(static_cast<uint32_t>(link));
    if (!wire.from_host && !wire.to_host) between_.push_back(static_cast<uint32_t>(link));
  });
  const uint32_t lane = assign_lanes_ ? assigner_.assign(between_) : 0;
  if (lane >= topology::kMostLanes) {
    return fail(ErrorCode::kUnsupported,
                "the routes need more than {} virtual lanes to be free of deadlock",
                topology::kMostLanes);
  }
  first_.push_back(path_.size());
  lane_.push_back(static_cast<uint8_t>(lane));
  latency_.push_back(latency);
  ps_per_byte_.push_back(ps_per_byte);
  return row[to] = size() - 1;
}

Time uncontended_time(const Routes& routes, uint32_t route, uint64_t bytes, bool cut_through,
                      uint32_t mtu_bytes, uint32_t header_bytes) {
  const uint64_t packets = std::max<uint64_t>(1, (bytes + mtu_bytes - 1) / mtu_bytes);
  const double slowest = routes.ps_per_byte(route);
  if (cut_through) {
    const double wire_bytes = static_cast<double>(bytes + packets * header_bytes);
    return routes.latency(route) + static_cast<Time>(wire_bytes * slowest + 0.5);
  }
  const uint64_t full_bytes = mtu_bytes + header_bytes;
  const uint64_t last_bytes = bytes - (packets - 1) * mtu_bytes + header_bytes;
  Time first = 0;    // the first full packet is out of the link
  Time longest = 0;  // of a full packet, on the links so far
  Time last = 0;     // the last packet is out of the link
  Time latency = 0;  // of the link before
  for (const uint32_t link : routes.path(route)) {
    const SimulatedLink& wire = routes.links()[link];
    const Time full = wire.time(full_bytes);
    first += latency + full;
    longest = std::max(longest, full);
    last += latency;
    if (packets > 1) last = std::max(last, first + static_cast<Time>(packets - 2) * longest);
    last += wire.time(last_bytes);
    latency = wire.latency;
  }
  return last + latency;
}

}  // namespace ibcoll::sim
