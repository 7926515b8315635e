// libibcoll_mpi.so over verbs: MPI programs whose ranks stand for four servers, with a device each,
// while the MPI itself talks over TCP. Needs an RDMA device; tests/softroce brings one a server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/command.h"
#include "tests/mpi_families.h"
#include "tests/named.h"
#include "tests/places.h"
#include "verbs/device.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

class VerbsPreload : public ::testing::TestWithParam<testing_tools::MpiFamily> {
 protected:
  void SetUp() override {
    if (!verbs::usable_ports({})) GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
    if (!testing_tools::can_launch(GetParam().launcher, program()))
      GTEST_SKIP() << GetParam().name << " is not installed, or this is a sanitizer's build";
  }
  static std::string program() {
    return testing_tools::bin_dir() + "/mpi_sweep_" + GetParam().name;
  }
  /// The MPI itself talks over TCP.
  static std::string launcher() {
    if (GetParam().name != "openmpi") return GetParam().launcher;
    return GetParam().launcher + " --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo";
  }
  /// Four ranks in this layout carry the part of the sweep out, which compares what they get.
  static void sweep(const std::string& layout, const std::string& part) {
    const auto ran = testing_tools::run_command(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 UCX_TLS=tcp,self timeout 400 " +
        launcher() + " -n 4 env LD_PRELOAD=" + testing_tools::bin_dir() +
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

const auto kFamilies = ::testing::ValuesIn(testing_tools::debian_mpis());
INSTANTIATE_TEST_SUITE_P(Families, VerbsPreload, kFamilies, testing::named);
INSTANTIATE_TEST_SUITE_P(Families, VerbsPreloadFull, kFamilies, testing::named);

}  // namespace
}  // namespace ibcoll
