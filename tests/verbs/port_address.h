#pragma once
/// Addresses of ports that are not there.

#include "verbs/paths.h"

namespace ibcoll::testing {

/// Of an InfiniBand port with this LID.
inline verbs::PortAddress address(uint16_t lid) {
  verbs::PortAddress result;
  result.lid = lid;
  result.mtu = IBV_MTU_4096;
  return result;
}

}  // namespace ibcoll::testing
