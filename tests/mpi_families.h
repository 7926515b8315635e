#pragma once
/// The MPIs that tests start programs of.

#include <string>
#include <vector>

namespace ibcoll::testing_tools {

struct MpiFamily {
  std::string name;      ///< its programs are called so behind the last "_"
  std::string launcher;  ///< with options
  std::string called;    ///< in reports
};

/// Those of Debian.
std::vector<MpiFamily> debian_mpis();

/// Those, and what TEST_MPIS lists as NAME=LAUNCHER;...: of each the programs of
/// tests/mpi/programs.sh.
std::vector<MpiFamily> all_mpis();

}  // namespace ibcoll::testing_tools
