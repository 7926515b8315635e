#pragma once
/// The MPI libraries of this machine as contenders.

#include <optional>
#include <string>
#include <vector>

#include "perf/compare/jobs.h"

namespace ibcoll::compare {

inline constexpr const char* kMpis[] = {"openmpi", "mpich"};

/// What is preloaded into an MPI that spins for ever when it waits, so that it yields.
std::string yielding_library();
/// A library of the build, which lies beside this program.
std::string library_beside(const std::string& name);

/// An MPI of kMpis as contender `name`, with these libraries preloaded into its ranks; nothing
/// where it is not there. `missing`: why, if so.
std::optional<Contender> mpi_contender(const std::string& name, const std::string& mpi, int ranks,
                                       const std::vector<std::string>& preloads,
                                       std::string* missing);

}  // namespace ibcoll::compare
