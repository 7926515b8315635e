#pragma once
/// Which calls of an MPI the engine carries out faster, and which the MPI itself: measured on this
/// machine or those that a launcher reaches, for IBCOLL_LEARNED.

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "tools/ib_info/mpi.h"

namespace ibcoll {

struct MpiMeasurement {
  std::vector<int> ranks;        ///< a run of each MPI for each of these numbers
  uint64_t least = 1, most = 0;  ///< bytes
  std::string launcher;          ///< with its arguments, but for -n; empty: all that are found
  std::string mpi_library;       ///< what the ranks load; empty: what lies beside the launcher
  std::string file;              ///< decisions are appended to it
};

/// What one run has come to.
struct MpiMeasured {
  MpiLauncher launcher;
  int ranks = 0;
  std::vector<nlohmann::ordered_json> decisions;  ///< lines of the file
};

/// Measures one after the other, and hands over what each has come to. `begins`: before each.
/// `library`: libibcoll_mpi.so. The error names the run that has failed, and what its ranks have
/// printed; what others before it have come to is in the file.
Status measure_mpi(const MpiMeasurement& wanted, const std::string& library,
                   const std::function<void(const MpiLauncher&, int ranks)>& begins,
                   const std::function<void(const MpiMeasured&)>& ended);

/// What this tool is as a rank of such a run.
Status measure_as_rank(uint64_t least, uint64_t most);

}  // namespace ibcoll
