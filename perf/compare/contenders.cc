#include "perf/compare/contenders.h"

#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "perf/compare/mpi_contenders.h"
#include "perf/compare/own_contenders.h"

namespace ibcoll::compare {
namespace {

struct Mpi {
  const char* name;
  const char* mpi;
  std::vector<std::string> launch;
  bool yields = false;  ///< is made to
};

void add(std::vector<Contender>& all, const Mpi& one, bool report_missing) {
  std::vector<std::string> preloads;
  if (one.yields) preloads.push_back(yielding_library());
  std::string missing;
  if (const auto found = mpi_contender(one.name, one.mpi, one.launch, preloads, &missing))
    all.push_back(*found);
  else if (report_missing)
    fmt::print(stderr, "compare_mpi: {} left out: {}\n", one.name, missing);
}

}  // namespace

/// Open MPI yields by itself when it is told that ranks may outnumber cores; MPICH has to be made
/// to.
std::vector<Contender> contenders(int ranks, bool user_memory, bool report_missing) {
  std::vector<Contender> all;
  all.push_back({"ibcoll", {}, [user_memory](contest& shared, int seat) {
                   return run_ibcoll(shared, seat, user_memory);
                 }});
  for (const char* mpi : kMpis) {
    const bool yields = mpi == std::string_view("mpich") && ranks > usable_cores();
    add(all, {mpi, mpi, local_launch(mpi, ranks), yields}, report_missing);
  }
  all.push_back({"memcpy", {}, run_memcpy});
  return all;
}

std::vector<Contender> contenders_on_machines(const Shape& shape, bool user_memory) {
  const std::string count = std::to_string(shape.ranks());
  const bool crowded = shape.ranks() > usable_cores();
  std::vector<Contender> all;
  all.push_back({"ibcoll",
                 {"machines", "start", path_beside("compare_mpi"), "rank", "{contest}", "{seat}",
                  user_memory ? "user" : "own"},
                 {}});
  // Each machine has as many slots as ranks, so Open MPI does not know that cores are shared.
  const auto openmpi = [&](std::vector<std::string> settings) {
    std::vector<std::string> launch = {
        "mpirun.openmpi", "-n", count, "--mca", "mpi_yield_when_idle", crowded ? "1" : "0"};
    for (size_t i = 0; i < settings.size(); i += 2)
      launch.insert(launch.end(), {"--mca", settings[i], settings[i + 1]});
    return launch;
  };
  add(all, {"openmpi", "openmpi", openmpi({"pml", "ob1", "btl", "tcp,vader,self"})}, true);
  add(all,
      {"openmpi_ucx", "openmpi",
       openmpi({"pml", "ucx", "pml_ucx_tls", "any", "pml_ucx_devices", "any"}), crowded},
      true);
  add(all, {"mpich", "mpich", {"mpirun.mpich", "-n", count}, crowded}, true);
  return all;
}

}  // namespace ibcoll::compare
