#include "tests/mpi_families.h"

#include <cstdlib>
#include <string_view>

#include "engine/base/units.h"

namespace ibcoll::testing_tools {

std::vector<MpiFamily> debian_mpis() {
  return {{"openmpi", "mpirun.openmpi --oversubscribe", "Open MPI"},
          {"mpich", "mpiexec.mpich", "MPICH"}};
}

std::vector<MpiFamily> all_mpis() {
  std::vector<MpiFamily> all = debian_mpis();
  const char* const more = std::getenv("TEST_MPIS");
  for (const std::string_view each : split(more == nullptr ? "" : more, ';')) {
    const size_t equals = each.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name(each.substr(0, equals));
    all.push_back({name, std::string(each.substr(equals + 1)),
                   name.starts_with("openmpi")   ? "Open MPI"
                   : name.starts_with("mvapich") ? "MVAPICH"
                                                 : "MPICH"});
  }
  return all;
}

}  // namespace ibcoll::testing_tools
