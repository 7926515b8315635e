#pragma once
/// The MPI libraries of this machine, and how their programs are started on the engine.

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll {

/// A way of starting MPI programs.
struct MpiLauncher {
  std::string mpi;      ///< whose programs: "Open MPI", "MPICH", "any, by Slurm"
  std::string version;  ///< empty: it does not say
  std::string path;     ///< of what starts them
  std::string line;     ///< the command that preloads the library
};

/// What a program has printed, both ways, and its exit status; -1: it has none.
struct ProgramRan {
  int status = -1;
  std::string text;
};
/// `command`: the shell's.
ProgramRan run_program(const std::string& command);
/// For the shell, whatever is in it.
std::string shell_word(std::string_view word);

/// Those in the folders of PATH. `library`: the whole path of libibcoll_mpi.so.
std::vector<MpiLauncher> find_mpi_launchers(const std::string& library);

/// What starts programs by that name, or path. The error says that nothing is known of it.
Result<MpiLauncher> find_mpi_launcher(const std::string& name);
/// The library that programs of the launcher's MPI are linked to. Empty: it is not where it usually
/// is.
std::string find_library_of(const MpiLauncher& launcher);

/// Where libibcoll_mpi.so is: beside this tool, or where it was installed with it. Empty: it is
/// not there.
std::string find_mpi_library();

}  // namespace ibcoll
