// `machines`: namespaces of this host that programs take for several machines.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "engine/base/units.h"
#include "engine/bootstrap/join.h"
#include "engine/bootstrap/machine.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kMachines = bin_dir() + "/machines ";

Ran on_machines(const std::string& arguments) {
  return run_shell("env -u GTEST_OUTPUT timeout 60 " + kMachines + arguments);
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// The launchers of the MPI libraries that are installed.
std::vector<std::string> mpi_launchers() {
  std::vector<std::string> found;
  if (run_shell("command -v mpirun.openmpi").status == 0) found.push_back("mpirun");
  if (run_shell("command -v mpiexec.mpich").status == 0) found.push_back("mpiexec");
  return found;
}

class Machines : public ::testing::Test {
 protected:
  void SetUp() override {
    const Ran ran = on_machines("1 true");
    if (ran.status == 2) GTEST_SKIP() << ran.err;
  }
};

TEST_F(Machines, HaveNamesAddressesAndTheirRanks) {
  const Ran ran = on_machines(
      "3,1,2 sh -c 'echo $PMI_RANK/$PMI_SIZE $(hostname) "
      "$(ip -o -4 addr show dev eth0 | grep -o \"10[.0-9]*/24\")'");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(sorted_lines(ran.out),
              ElementsAre("0/6 m1 10.88.0.1/24", "1/6 m1 10.88.0.1/24", "2/6 m1 10.88.0.1/24",
                          "3/6 m2 10.88.0.2/24", "4/6 m3 10.88.0.3/24", "5/6 m3 10.88.0.3/24"));
}

TEST_F(Machines, ShareFilesButNotMemory) {
  // A shell on the head that goes from one to the other.
  const std::string file = folder() / "seen_by_all";
  const Ran ran = on_machines(
      "2x1 --launcher none sh -ec '"
      "machines enter m1 touch /dev/shm/mark " +
      file +
      ";"
      "machines enter m1 test -e /dev/shm/mark;"
      "machines enter m2 test -e " +
      file +
      ";"
      "if machines enter m2 test -e /dev/shm/mark; then exit 3; fi;"
      "if test -e /dev/shm/mark; then exit 4; fi'");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/mark"));
}

/// What the engine and UCX tell machines apart by.
TEST_F(Machines, HaveBootIdsOfTheirOwn) {
  const Ran ran = on_machines("2x2 cat /proc/sys/kernel/random/boot_id");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const std::vector<std::string> lines = sorted_lines(ran.out);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_NE(lines[1], lines[2]);
  EXPECT_EQ(lines[2], lines[3]);
}

/// Not a test by itself: what the ranks of the next one run.
TEST(DISABLED_OnMachines, Join) {
  auto job = join_job();
  ASSERT_TRUE(job) << job.error().message;
  const auto places = exchange_places(**job);
  ASSERT_TRUE(places) << places.error().message;
  std::string text;
  for (const int machine : places->machines) text += std::to_string(machine);
  if ((*job)->rank() == 5) std::printf("\nmachines of the ranks: %s\n", text.c_str());
  ASSERT_TRUE((*job)->barrier());
}

TEST_F(Machines, AreMachinesToTheEngine) {
  const std::string own = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::string> launchers = mpi_launchers();
  launchers.push_back("own");
  for (const std::string& launcher : launchers) {
    const Ran ran = on_machines("3,1,2 --launcher " + launcher + " " + own +
                                " --gtest_also_run_disabled_tests --gtest_filter=*OnMachines.Join");
    EXPECT_EQ(ran.status, 0) << launcher << ran.out << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("machines of the ranks: 000122")) << launcher;
  }
}

TEST_F(Machines, MpiLaunchersPlaceRanksOnThem) {
  for (const std::string& launcher : mpi_launchers()) {
    const Ran ran = on_machines("3,1,2 --launcher " + launcher + " hostname");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(sorted_lines(ran.out), ElementsAre("m1", "m1", "m1", "m2", "m3", "m3")) << launcher;
    EXPECT_EQ(on_machines("2x1 --launcher " + launcher + " sh -c 'exit 5'").status, 5) << launcher;
  }
}

TEST_F(Machines, PassTheEnvironmentAndTheExitStatusOn) {
  setenv("SEEN_ON_MACHINES", "a b", 1);
  EXPECT_THAT(on_machines("1,1 sh -c 'echo \"$SEEN_ON_MACHINES\"'").out, "a b\na b\n");
  EXPECT_EQ(on_machines("2x2 sh -c 'exit $((PMI_RANK == 2 ? 7 : 0))'").status, 7);
  EXPECT_EQ(on_machines("2x2 sh -c 'kill -9 $$'").status, 137);
  EXPECT_EQ(on_machines("2x2 no_such_program").status, 127);
  // One that fails ends those that would go on for ever.
  EXPECT_EQ(on_machines("2x1 sh -c 'test $PMI_RANK = 0 && exit 3; sleep 1000'").status, 3);
}

TEST_F(Machines, DieWithWhoeverMadeThem) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    const std::string mark = "1000" + std::to_string(getpid()) + std::to_string(signal);
    const pid_t child = fork();
    if (child == 0) {
      execl((bin_dir() + "/machines").c_str(), "machines", "2x2", "sleep", mark.c_str(), nullptr);
      _exit(3);
    }
    const auto sleepers = [&] { return processes_with(mark, "sleep").size(); };
    const auto wait_for = [&](size_t count) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(40);
      while (sleepers() != count && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return sleepers() == count;
    };
    EXPECT_TRUE(wait_for(4));
    kill(child, signal);
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(wait_for(0)) << "after signal " << signal;
  }
}

TEST_F(Machines, AreStartedOnFromTheHead) {
  const Ran ran = on_machines("2,1 --launcher none sh -c 'hostname; machines start hostname'");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(sorted_lines(ran.out), ElementsAre("head", "m1", "m1", "m2"));
  EXPECT_EQ(on_machines("2,1 --launcher none machines enter m3 true").status, 2);
}

TEST_F(Machines, RunSeveralAtOnce) {
  const Ran ran = run_shell(
      "for i in 1 2 3; do timeout 60 " + kMachines +
      "2x1 hostname & all=\"$all $!\"; done; for one in $all; do wait $one || exit 1; done");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(sorted_lines(ran.out), ElementsAre("m1", "m1", "m1", "m2", "m2", "m2"));
}

TEST_F(Machines, LoseTheirLinkWhenItIsCut) {
  const std::string carrier = "/sys/class/net/eth0/carrier";
  const std::string loop = "; do sleep 0.01; done";
  EXPECT_EQ(on_machines("2x1 --cut 2 after 0 --launcher none machines enter m2 sh -c '"
                        "until [ $(cat " +
                        carrier + ") = 0 ]" + loop + "'")
                .status,
            0);
  EXPECT_EQ(on_machines("2x1 --cut 2 after 0 for 0.1 --launcher none machines enter m2 sh -c '"
                        "until [ $(cat " +
                        carrier + "_down_count) -ge 2 -a $(cat " + carrier + ") = 1 ]" + loop + "'")
                .status,
            0);
  EXPECT_EQ(on_machines("2x1 --cut 2 after 0 --launcher none machines enter m1 cat " + carrier).out,
            "1\n");
}

TEST_F(Machines, HaveLinksOfTheRateAsked) {
  const Ran ran = on_machines(
      "2x1 --rate 40mbit --bytes --launcher none "
      "machines enter m1 tc qdisc show dev eth0");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("rate 40Mbit"));
  EXPECT_THAT(ran.err, HasSubstr("machines: m2 sent "));
}

/// Where the kernel can't, that is said.
TEST_F(Machines, DelayPacketsOrSayWhyNot) {
  const Ran ran = on_machines(
      "2x1 --delay 2ms --launcher none "
      "machines enter m1 tc qdisc show dev eth0");
  if (ran.status == 0) {
    EXPECT_THAT(ran.out, HasSubstr("delay 2ms"));
  } else {
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, HasSubstr("need a kernel with sch_netem"));
    EXPECT_EQ(sorted_lines(ran.err).size(), 1u) << ran.err;
  }
}

TEST_F(Machines, NeedNoRootWhereUserNamespacesAreAllowed) {
  const Ran ran = run_shell("setpriv --reuid 65534 --regid 65534 --clear-groups timeout 60 " +
                            kMachines + "2x1 sh -c 'hostname; id -u'");
  if (ran.status != 0) GTEST_SKIP() << ran.err;
  EXPECT_THAT(sorted_lines(ran.out), ElementsAre("0", "0", "m1", "m2"));
}

TEST_F(Machines, SayWhatIsMissingWhereNoneCanBeMade) {
  const Ran ran =
      run_shell("unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_net_namespaces && exec " +
                kMachines + "2x1 true'");
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("machines: no namespaces can be made here"));
  EXPECT_EQ(sorted_lines(ran.err).size(), 1u) << ran.err;
}

TEST(MachinesCommand, RefusesWrongUsage) {
  expect_refused("machines", "2x2", "no command");
  expect_refused("machines", "", "no layout");
  expect_refused("machines", "2y2 true", "2y2");
  expect_refused("machines", "2x2 --launcher pbs true", "own, mpirun, mpiexec and none");
  expect_refused("machines", "2x2 --cut 3 after 1 true", "there are 2 machines");
  expect_refused("machines", "2x2 --cut 1 true", "after SECONDS");
  expect_refused("machines", "2x2 --cut 1 after soon true", "soon");
  expect_refused("machines", "2x2 --rate '1;reboot' true", "no amount");
  expect_refused("machines", "300x1 true", "at most 200");
  expect_refused("machines", "enter m1 true", "there are no machines");
  EXPECT_EQ(run_tool("machines", "--help").status, 0);
}

}  // namespace
}  // namespace ibcoll
