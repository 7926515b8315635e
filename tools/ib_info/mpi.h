#pragma once
/// The MPI libraries of this machine, and how their programs are started on the engine.

#include <string>
#include <vector>

namespace ibcoll {

/// A way of starting MPI programs.
struct MpiLauncher {
  std::string mpi;      ///< whose programs: "Open MPI", "MPICH", "any, by Slurm"
  std::string version;  ///< empty: it does not say
  std::string path;     ///< of what starts them
  std::string line;     ///< the command that preloads the library
};

/// Those in the folders of PATH. `library`: the whole path of libibcoll_mpi.so.
std::vector<MpiLauncher> find_mpi_launchers(const std::string& library);

/// Where libibcoll_mpi.so is: beside this tool, or where it was installed with it. Empty: it is
/// not there.
std::string find_mpi_library();

}  // namespace ibcoll
