#pragma once
/// Where the ranks of a job are reached. What all ranks of a machine have in common is kept once.

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/schedule/shape.h"
#include "verbs/port_choice.h"
#include "verbs/route.h"

namespace ibcoll::verbs {

/// What every rank tells all others once, at start.
struct RankAddress {
  uint32_t port = 0;             ///< which of its offer's, and then which of the book's
  uint32_t datagram_number = 0;  ///< DatagramConnector
  uint32_t responder_number = 0;
  uint16_t service_port = 0;  ///< CmConnector: where it listens, in host order
};

class AddressBook {
 public:
  AddressBook() = default;
  /// `addresses`: of each rank, by its offer's ports.
  AddressBook(const std::vector<Offer>& offers, const std::vector<RankPorts>& ranks,
              std::vector<RankAddress> addresses);

  size_t ranks() const { return addresses_.size(); }
  const RankAddress& of(Rank rank) const { return addresses_[static_cast<size_t>(rank)]; }
  const PortAddress& port(Rank rank) const { return ports_[of(rank).port].address; }
  /// "mlx5_0:1"
  std::string_view port_name(Rank rank) const { return ports_[of(rank).port].name; }

  /// What it keeps for each rank, and for each port that ranks use.
  static constexpr size_t bytes_each_rank() { return sizeof(RankAddress); }
  static constexpr size_t bytes_each_port() { return sizeof(Port); }

 private:
  struct Port {
    PortAddress address;
    char name[sizeof(PortOffer::name)];
  };
  std::vector<Port> ports_;
  std::vector<RankAddress> addresses_;
};

}  // namespace ibcoll::verbs
