#pragma once
/// Where a machine of a job is found, whoever leads it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/schedule/shape.h"

namespace ibcoll {

/// The socket of a machine's first leader, which all ranks there hold: nobody answers any more once
/// none of them is left.
struct ControlHome {
  std::string address;  ///< empty: each machine knows its own
  int port = 0;
  std::vector<Rank> ranks;  ///< of that machine
};

/// Where the root is looked for, in this order: on rank 0's machine first.
using ControlHomes = std::vector<ControlHome>;

/// As many of them as go into so many bytes.
std::vector<std::byte> pack_homes(const ControlHomes& homes, size_t most);
ControlHomes unpack_homes(std::span<const std::byte> packed);

}  // namespace ibcoll
