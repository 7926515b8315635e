// docs/examples/hosted_in_mpi.c, built by the compiler of each MPI.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/command.h"
#include "tests/mpi_families.h"
#include "tests/named.h"
#include "tests/places.h"

namespace {

class InsideMpi : public ::testing::TestWithParam<ibcoll::testing_tools::MpiFamily> {};

TEST_P(InsideMpi, TheEngineHasTheAlltoallThatMpiHas) {
  const std::string program =
      ibcoll::testing_tools::bin_dir() + "/hosted_in_mpi_" + GetParam().name;
  const std::string& launcher = GetParam().launcher;
  if (!ibcoll::testing_tools::can_launch(launcher, program))
    GTEST_SKIP() << GetParam().name << " is not installed";
  for (const std::string layout : {"", "2,2"}) {
    const auto ran = ibcoll::testing_tools::run_command(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 IBCOLL_LAYOUT=" + layout +
        " timeout 60 " + launcher + " -n 4 " + program + " 2>&1");
    EXPECT_EQ(ran.status, 0) << ran.out;
    const std::string servers = layout.empty() ? "1" : "2";
    EXPECT_THAT(ran.out, ::testing::HasSubstr("4 ranks on " + servers + " servers: as MPI has it"));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, InsideMpi,
                         ::testing::ValuesIn(ibcoll::testing_tools::debian_mpis()),
                         ibcoll::testing::named);

}  // namespace
