// Hosted jobs whose servers are joined by verbs: several in a process, and inside MPI programs.
// Needs an RDMA device; tests/softroce brings one for each server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <ibcoll/ibcoll.hpp>
#include <string>

#include "tests/command.h"
#include "tests/places.h"
#include "tests/shared_host.h"
#include "verbs/device.h"

namespace ibcoll {
namespace {

using testing::exchange;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::SharedHost;

class VerbsHosted : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!verbs::usable_ports({})) GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
    setenv("IBCOLL_TRANSPORT", "verbs", 1);
    setenv("IBCOLL_LAYOUT", "2,2", 1);
  }
  void TearDown() override {
    unsetenv("IBCOLL_TRANSPORT");
    unsetenv("IBCOLL_LAYOUT");
  }
};

TEST_F(VerbsHosted, JobsOfTheSameProcessesDoNotMeet) {
  SharedHost &host = SharedHost::create(), &other = SharedHost::create();
  EXPECT_EQ(run_ranks(4,
                      [&](int rank) -> std::string {
                        try {
                          SharedHost::Member member(host, rank, 4), turned(other, 3 - rank, 4);
                          job first(member.blocking());
                          ibcoll_group* const world = first.context().world().handle();
                          if (ibcoll_transport(first.context().handle()) != std::string("verbs"))
                            return "not over verbs";
                          std::string wrong;
                          for (int round = 0; round < 5; ++round) {
                            job second(turned.posting());
                            wrong += exchange(world, round);
                            wrong += exchange(second.context().world().handle(), 10 + round);
                            second.finalize();
                            wrong += exchange(world, 20 + round, 100'000);
                          }
                          first.finalize();
                          return wrong;
                        } catch (const std::exception& e) {
                          return e.what();
                        }
                      }),
            "");
}

TEST_F(VerbsHosted, MpiProgramsHaveTheEngineInside) {
  for (const std::string launcher : {"mpirun.openmpi --oversubscribe", "mpiexec.mpich"}) {
    const std::string program = launcher.substr(0, launcher.find(' '));
    const std::string example =
        testing_tools::bin_dir() + "/hosted_in_mpi_" + program.substr(program.find('.') + 1);
    if (std::system(("command -v " + program + " >/dev/null").c_str()) != 0 ||
        !std::filesystem::exists(example))
      continue;
    // MPICH's own UCX takes half a minute and more to close its queue pairs on Soft-RoCE.
    const auto ran = testing_tools::run_command(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 UCX_TLS=tcp,self timeout 400 " +
        launcher + " -n 4 " + example + " 2>&1");
    EXPECT_EQ(ran.status, 0) << ran.out;
    EXPECT_THAT(ran.out, HasSubstr("4 ranks on 2 servers: as MPI has it"));
  }
}

}  // namespace
}  // namespace ibcoll
