#pragma once
/// Where the ranks of a job are reached. What all ranks of a machine have in common is kept once.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/schedule/shape.h"
#include "verbs/port_choice.h"
#include "verbs/route.h"

namespace ibcoll::verbs {

/// The number of a queue pair in 24 bits: InfiniBand has no longer ones.
class QueuePairNumber {
 public:
  QueuePairNumber() = default;
  QueuePairNumber(uint32_t number) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<uint8_t>(number >> 8 * i);
  }
  operator uint32_t() const { return bytes_[0] | bytes_[1] << 8 | bytes_[2] << 16; }

 private:
  std::array<uint8_t, 3> bytes_{};
};

/// What every rank tells all others once, at start.
struct RankAddress {
  static constexpr uint32_t kMostConnections = (1u << 12) - 1;

  uint32_t port : 20 = 0;  ///< which of its offer's, and then which of the book's
  /// That it may have at a time, or more where this is kMostConnections; 0: any number.
  uint32_t connections : 12 = 0;
  QueuePairNumber datagram_number;  ///< DatagramConnector
  QueuePairNumber responder_number;
  uint16_t service_port = 0;  ///< CmConnector: where it listens, in host order
};
static_assert(sizeof(RankAddress) == 12);  // of each rank of the job

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
  std::string_view port_name(Rank rank) const { return names_[ports_[of(rank).port].name]; }

  /// What it keeps for each rank, and for each port that ranks use.
  static constexpr size_t bytes_each_rank() { return sizeof(RankAddress); }
  static constexpr size_t bytes_each_port() { return sizeof(Port); }

 private:
  struct Port {
    PortAddress address;
    uint16_t name;  ///< in `names_`
  };
  std::vector<Port> ports_;
  std::vector<std::string> names_;  ///< mostly the same few on all machines
  std::vector<RankAddress> addresses_;
};

}  // namespace ibcoll::verbs
