#pragma once
/// Placements in the forms that launchers read.

#include <span>
#include <string>

#include "studies/mapping/evaluate.h"

namespace ibcoll::topology {

enum class LaunchFormat {
  kRankfile,  ///< Open MPI: mpirun --rankfile (with --mca rmaps_rank_file_physical 0)
  kSlurm,     ///< one host a line in rank order: SLURM_HOSTFILE with srun --distribution=arbitrary
  kJson,      ///< {"hosts": [...], "nodes": [...]}, one entry a rank
};

/// The text of a placement. `hosts[node]` is the name of a node's host; a rankfile counts the slots
/// of a host from 0 in the order of its ranks.
std::string launch_file(LaunchFormat format, const Placement& placement,
                        std::span<const std::string> hosts);

/// One name a line; empty lines and what follows a `#` are left out. Refuses a file whose number of
/// names is not `nodes`, and a name given twice.
Result<std::vector<std::string>> read_hosts(const std::string& path, int nodes);

}  // namespace ibcoll::topology
