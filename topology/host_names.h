#pragma once
/// Hosts by name: lists of names as people write them, and names as machines have them.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/fabric.h"

namespace ibcoll::topology {

/// Appends the names of a list like "tux[0-5,07-11],login" (Slurm's and pdsh's notation).
Status expand_host_list(std::string_view list, std::vector<std::string>& names);

/// The fabric's host of each name. A name stands for the host of that name; else for the first one
/// whose name begins with it as a word, as ibnetdiscover gives them ("node7 mlx5_0" of the machine
/// node7); else for the one that is left where both are cut at their first dot. Refuses a name that
/// stands for none.
Result<std::vector<int>> find_hosts(const Fabric& fabric, std::span<const std::string> names);

}  // namespace ibcoll::topology
