#pragma once
/// Which of the ports there are a job uses: one link layer, the fastest of each machine, and those
/// that reach each other. Decided from what all ranks tell each other, by every rank alike.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/shape.h"
#include "verbs/device.h"
#include "verbs/route.h"

namespace ibcoll::verbs {

inline constexpr int kMaxPorts = 16;
/// Bit i: the i-th port of a rank.
using PortMask = uint32_t;

/// The ports that ranks of a machine have to offer: all of them the same, as a rule, so that a job
/// has about as many offers as machines. Travels as bytes.
struct PortOffer {
  char name[32] = "";
  uint64_t rate_mbps = 0;
  int32_t numa_node = -1;
  PortAddress address;
  uint32_t reserved = 0;
};
struct Offer {
  int32_t count = 0;
  int32_t machine = 0;
  uint32_t named = 0;  ///< the user said which ports: their speeds are his to choose
  Rank first = 0;      ///< the lowest rank that has this offer; 0 until that is known
  std::array<PortOffer, kMaxPorts> ports{};

  std::span<const PortOffer> all() const {
    return std::span(ports).first(static_cast<size_t>(count));
  }
};
/// Of the first kMaxPorts ports.
Offer offer_of(std::span<const PortInfo> ports, int machine, bool named);

/// What is each rank's own.
struct RankPorts {
  int32_t offer = 0;       ///< an index
  int32_t numa_node = -1;  ///< where the rank runs; -1: on several, or not known
};

/// The ports of one link layer, which every rank has, and of those each rank's fastest; one mask an
/// offer. Where there is a choice of link layers, the one that gives the rank with least of it
/// most. The error names two ranks that have none in common.
Result<std::vector<PortMask>> keep_one_class(std::span<const Offer> offers);

/// Why each port outside a mask that keep_one_class() gave is left out; empty of those inside it.
std::vector<std::string> why_left_out(const Offer& offer, PortMask kept);

/// Why ranks of this machine alone would leave out each of these ports; empty of those they would
/// use, and of those that are not active.
std::vector<std::string> left_out_here(std::span<const PortInfo> ports,
                                       const DeviceOptions& options);

/// Ranks that have the same ports: one of them, the lowest, tries out which others they reach.
struct Station {
  Rank agent = -1;
  PortMask ports = 0;
  size_t offer = 0;  ///< the agent's, an index
};
/// In order of their agents; `of_offer`: that of the ranks with each offer, an index.
struct Stations {
  std::vector<Station> all;
  std::vector<int> of_offer;
};
Stations find_stations(std::span<const Offer> offers, std::span<const PortMask> kept);

/// What was heard at a station: bit p of row q says that its port q heard port p of the station
/// before it (the last one's before the first; itself where there is only one).
using Heard = std::array<PortMask, kMaxPorts>;

/// Of each station the ports that are joined to each other, by whatever was heard, and that carry
/// most on the station with least. The error names two ranks' ports that don't reach each other.
Result<std::vector<PortMask>> keep_one_network(const Stations& stations,
                                               std::span<const Heard> heard,
                                               std::span<const Offer> offers);

/// Which of the ports it has kept a rank uses, an index: one of those near it, or of all where none
/// is near. Ranks of a server that have the same ones near them are dealt over these in turn,
/// whatever cores the other ranks of the server are bound to. Emulated servers: the machine's i-th
/// server gets the i-th port.
size_t choose_port(std::span<const Offer> offers, std::span<const PortMask> kept,
                   std::span<const RankPorts> ranks, const Shape& shape, Rank me);

}  // namespace ibcoll::verbs
