#include "studies/simulate/traffic.h"

#include <chrono>

namespace ibcoll::sim {

namespace {

/// Keeps two packets waiting at every host.
class Saturation final : public NetworkClient {
 public:
  Saturation(Network& network, const Destination& destination, const TrafficOptions& options)
      : network_(network),
        destination_(destination),
        bytes_(options.network.mtu_bytes),
        random_(options.network.seed ^ 0x2545f491) {
    for (uint32_t host = 0; host < network.routes().hosts(); ++host) {
      next(host);
      next(host);
    }
  }
  void departed(uint32_t host) override { next(host); }
  void delivered(uint32_t /*host*/) override { ++packets_; }
  void woken(uint32_t /*tag*/) override {}
  uint64_t packets() const { return packets_; }

 private:
  void next(uint32_t host) {
    const uint32_t to = destination_(host, random_);
    network_.send({network_.routes().find(host, to), host, bytes_, false}, host);
  }

  Network& network_;
  const Destination& destination_;
  const uint64_t bytes_;
  topology::FastRandom random_;
  uint64_t packets_ = 0;
};

}  // namespace

Destination uniform_destination(uint32_t hosts) {
  return [hosts](uint32_t from, topology::FastRandom& random) {
    const auto to = static_cast<uint32_t>(random.below(static_cast<int>(hosts) - 1));
    return to < from ? to : to + 1;
  };
}

Destination two_destinations(uint32_t hosts, double alpha) {
  return [hosts, alpha](uint32_t from, topology::FastRandom& random) {
    return (from + (random.unit() < alpha ? 1 : 2)) % hosts;
  };
}

Result<TrafficReport> simulate_traffic(const topology::Fabric& fabric,
                                       const Destination& destination,
                                       const TrafficOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  if (options.network.level != Level::kPacket) {
    return fail(ErrorCode::kInvalidArgument, "traffic without end runs at packet level only");
  }
  Routes routes(fabric, true);
  if (routes.hosts() < 2) {
    return fail(ErrorCode::kInvalidArgument, "{} hosts: traffic needs at least 2", routes.hosts());
  }
  for (uint32_t from = 0; from < routes.hosts(); ++from) {
    for (uint32_t to = 0; to < routes.hosts(); ++to) {
      if (from != to) IBCOLL_TRY(routes.add(from, to));
    }
  }
  double slowest = 0;
  for (const SimulatedLink& link : routes.links()) {
    if (link.from_host) slowest = std::max(slowest, link.ps_per_byte);
  }
  IBCOLL_ASSIGN(const auto network, Network::create(routes, options.network, routes.hosts()));
  const double packet =
      slowest * (options.network.mtu_bytes + options.network.header_bytes);  // picoseconds
  Saturation load(*network, destination, options);
  const auto warm = static_cast<Time>(packet * options.warm_up_packets);
  const auto end = warm + static_cast<Time>(packet * options.packets);
  IBCOLL_TRY(network->run(load, warm));
  const uint64_t before = load.packets();
  IBCOLL_TRY(network->run(load, end));
  TrafficReport report;
  report.packets = load.packets() - before;
  report.throughput = static_cast<double>(report.packets) / options.packets / routes.hosts();
  report.events = network->events();
  report.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace ibcoll::sim
