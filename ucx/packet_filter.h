#pragma once
/// A filter for the packets that reach a listening socket, which the kernel runs: whose connections
/// are made at all.

#include <linux/filter.h>

#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll::ucx {

/// An address of IPv4, in the first four bytes, or of IPv6.
struct Address {
  std::array<uint8_t, 16> bytes{};
  uint8_t family = 0;  ///< 4 or 6; 0: none
  bool operator==(const Address&) const = default;
};

/// Callers: any of these addresses, with source ports from `first_port` on.
struct Callers {
  std::vector<Address> addresses;
  uint16_t first_port = 0;
  uint16_t ports = 0;
};

/// Lets connections of these callers through, and drops all others without an answer. Packets of
/// connections that there are pass, since accepted sockets inherit the filter.
std::vector<sock_filter> filter_for(const std::vector<Callers>& callers);
/// Puts it before a socket, in the place of the one that was there.
Status attach_filter(int socket, const std::vector<sock_filter>& filter);

}  // namespace ibcoll::ucx
