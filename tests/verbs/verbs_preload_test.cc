// libibcoll_mpi.so over verbs: MPI programs whose ranks stand for four servers, with a device each,
// while the MPI itself talks over TCP. Needs an RDMA device; tests/softroce brings one a server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/command.h"
#include "tests/places.h"
#include "verbs/device.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

struct Family {
  const char* name;
  const char* launcher;
};

class VerbsPreload : public ::testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    if (!verbs::usable_ports({})) GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
    if (!testing_tools::can_launch(GetParam().launcher, program()))
      GTEST_SKIP() << GetParam().name << " is not installed, or this is a sanitizer's build";
  }
  static std::string program() {
    return testing_tools::bin_dir() + "/mpi_sweep_" + GetParam().name;
  }
  /// Four ranks in this layout carry the part of the sweep out, which compares what they get.
  static void sweep(const std::string& layout, const std::string& part) {
    const auto ran = testing_tools::run_command(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 UCX_TLS=tcp,self timeout 400 " +
        std::string(GetParam().launcher) + " -n 4 env LD_PRELOAD=" + testing_tools::bin_dir() +
        "/libibcoll_mpi.so IBCOLL_MPI=report IBCOLL_MPI_FUNCTIONS=all IBCOLL_TRANSPORT=verbs "
        "IBCOLL_LAYOUT=" +
        layout + " " + program() + " " + part + " 2>&1");
    EXPECT_EQ(ran.status, 0) << ran.out;
    EXPECT_THAT(ran.out, HasSubstr("well done"));
    EXPECT_THAT(ran.out, HasSubstr("between servers: verbs"));
  }
};
using VerbsPreloadFull = VerbsPreload;

TEST_P(VerbsPreload, MessagesMoveOnWhileRanksWaitInCollectives) { sweep("1,1,1,1", "messages"); }

TEST_P(VerbsPreloadFull, AllCollectivesGiveWhatTheStandardSays) { sweep("1,1,1,1", "all"); }

const auto kFamilies =
    ::testing::Values(Family{"openmpi",
                             "mpirun.openmpi --oversubscribe --mca pml ob1 --mca btl tcp,self "
                             "--mca btl_tcp_if_include lo"},
                      Family{"mpich", "mpiexec.mpich"});
const auto kName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Families, VerbsPreload, kFamilies, kName);
INSTANTIATE_TEST_SUITE_P(Families, VerbsPreloadFull, kFamilies, kName);

}  // namespace
}  // namespace ibcoll
