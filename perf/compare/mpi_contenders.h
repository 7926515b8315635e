#pragma once
/// The MPI libraries of this machine as contenders.

#include <optional>
#include <string>
#include <vector>

#include "perf/compare/jobs.h"

namespace ibcoll::compare {

inline constexpr const char* kMpis[] = {"openmpi", "mpich"};

/// What is preloaded into an MPI, or UCX, that spins for ever when it waits, so that it yields.
std::string yielding_library();
/// A program or library of the build, which lies beside this program.
std::string path_beside(const std::string& name);

/// The command that starts so many ranks of an MPI of kMpis on this machine; the program follows.
std::vector<std::string> local_launch(const std::string& mpi, int ranks);

/// The program of an MPI of kMpis as contender `name`, started by `launch`, with these libraries
/// preloaded into its ranks; nothing where it is not there. `missing`: why, if so.
std::optional<Contender> mpi_contender(const std::string& name, const std::string& mpi,
                                       std::vector<std::string> launch,
                                       const std::vector<std::string>& preloads,
                                       std::string* missing);

}  // namespace ibcoll::compare
