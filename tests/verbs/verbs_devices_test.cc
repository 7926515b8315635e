// The transport on RDMA devices that are not like Soft-RoCE: small limits, functions that fail,
// completions in another order. tests/softroce/device_shim.cc makes Soft-RoCE look like them. Each
// run ends right, or with one error that says what was lacking.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/places.h"
#include "verbs/device.h"
#include "verbs/registrar.h"

namespace ibcoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Ran {
  int status = -1;
  std::string text;                 ///< all output
  std::vector<std::string> errors;  ///< lines that are no warnings and not the result
};

/// Runs a tool over devices as the settings say.
testing_tools::CommandRan over_shim(const std::string& settings, const std::string& tool) {
  return testing_tools::run_command(
      "exec 2>&1; " + settings + " LD_PRELOAD=" + testing_tools::bin_dir() +
      "/libdevice_shim.so timeout 400 " + testing_tools::bin_dir() + "/" + tool);
}

/// An all-to-all, every byte checked; as it is called most, on four servers with a device each.
Ran run(const std::string& settings, const std::string& job = "--ranks 4 --servers 4",
        const std::string& calls = "--sizes 64,40K --iterations 2") {
  const auto [status, text] =
      over_shim(settings, "ib_a2a_bench --transport verbs --check " + job + " " + calls);
  Ran ran{status, text, {}};
  std::istringstream lines(ran.text);
  for (std::string line; std::getline(lines, line);)
    if (line.find("error: ") != std::string::npos || line.find("ib_a2a_bench: ") == 0)
      ran.errors.push_back(line);
  return ran;
}

class VerbsDevicesOther : public ::testing::Test {
 protected:
  void SetUp() override {
    if (getenv("SOFTROCE_MACHINE") == nullptr)
      GTEST_SKIP() << "only in the Soft-RoCE machine (./run softroce)";
  }
  static void expect_right(const std::string& settings) {
    const Ran ran = run(settings);
    EXPECT_EQ(ran.status, 0) << settings << "\n" << ran.text;
  }
  static void expect_error(const std::string& settings,
                           const ::testing::Matcher<std::string>& message) {
    const Ran ran = run(settings);
    EXPECT_EQ(ran.status, 1) << settings << "\n" << ran.text;
    EXPECT_THAT(ran.text, message) << settings;
    EXPECT_LE(ran.errors.size(), 1u) << settings << "\n" << ran.text;
  }
};

TEST_F(VerbsDevicesOther, SmallLimitsAreKept) {
  expect_right("SHIM_LIMITS=max_inline=0,max_rd_atomic=1,max_sge=1");
  expect_right("SHIM_LIMITS=max_qp_wr=16,max_srq_wr=8,max_cqe=32");
  expect_right("SHIM_LIMITS=max_mr_size=4194304,max_qp=5,max_cq=4,max_srq=1");
  expect_right("SHIM_LIMITS=max_qp=4");  // one connection at a time
}

TEST_F(VerbsDevicesOther, LimitsThatAreTooSmallAreNamed) {
  expect_error("SHIM_LIMITS=max_qp=3", AllOf(HasSubstr("no datagram queue pair"),
                                             HasSubstr("the device has 3 for all processes")));
  expect_error("SHIM_LIMITS=max_qp=1 SHIM_DEVICE=rxe2",
               AllOf(HasSubstr(": rxe2:1: no "), HasSubstr("the device has 1 for all")));
  expect_error("SHIM_LIMITS=max_qp_wr=8", HasSubstr("holds 8 work requests, 10 are needed"));
  expect_error("SHIM_LIMITS=max_srq=0",
               AllOf(HasSubstr("no shared receive queue"), HasSubstr("the device has 0 queues")));
  expect_error("SHIM_LIMITS=max_srq_wr=0", HasSubstr("of 0 receives each"));
  expect_error("SHIM_LIMITS=max_cq=2 SHIM_DEVICE=rxe3",
               AllOf(HasSubstr(": rxe3:1: no completion queue"), HasSubstr("has 2 queues")));
  expect_error("SHIM_LIMITS=max_mr=2",
               AllOf(HasSubstr("can't be registered"), HasSubstr("2 registrations")));
  expect_error("SHIM_LIMITS=max_mr_size=100000", HasSubstr("registers 100000 at once at most"));
}

TEST_F(VerbsDevicesOther, CompletionsOfDifferentQueuePairsComeInAnyOrder) {
  for (const char* algorithm : {"ring", "linear", "aggregate", "bruck"}) {
    const Ran ran =
        run("SHIM_SHUFFLE=5", std::string("--ranks 6 --servers 3 --algorithm ") + algorithm);
    EXPECT_EQ(ran.status, 0) << ran.text;
  }
}

TEST_F(VerbsDevicesOther, SlowerPortsAndThoseOfAnotherLinkLayerAreLeftOut) {
  const Ran ran =
      run("SHIM_SLOW=rxe3 SHIM_INFINIBAND=rxe4 IBCOLL_LOG_LEVEL=info", "--ranks 2 --servers 2");
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_THAT(ran.text,
              AllOf(HasSubstr("port rxe3:1 is left out: 2000 Mbit/s, where rxe1:1 has"),
                    HasSubstr("port rxe4:1 is left out: InfiniBand, where RoCE is used")));
}

/// What ib_info says of the ports.
std::string info(const std::string& settings) {
  const auto [status, text] = over_shim(settings, "ib_info --json -");
  EXPECT_EQ(status, 0) << settings << "\n" << text;
  return text;
}

/// How often a text occurs.
size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// Limited members of a partition don't reach each other, and entries may be empty.
TEST_F(VerbsDevicesOther, TheFirstPartitionWithFullMembershipIsUsed) {
  const std::string table = "SHIM_PKEYS=0x7fff,0x0000,0x0003,0x8002,0x8003";
  EXPECT_THAT(info(table), HasSubstr("\"pkey_index\":3"));
  for (const char* key : {"0x0003", "0x8003", "3", "32771"})
    EXPECT_THAT(info(table + " IBCOLL_PKEY=" + key), HasSubstr("\"pkey_index\":4")) << key;
  for (const auto& [setting, index] :
       {std::pair("", "index 3\n"), std::pair(" IBCOLL_PKEY=3", "index 4\n")}) {
    const Ran ran = run(table + setting + " SHIM_TELL=1");
    EXPECT_EQ(ran.status, 0) << ran.text;
    EXPECT_GT(count(ran.text, "partition of index "), 0u) << ran.text;
    EXPECT_EQ(count(ran.text, "partition of index "),
              count(ran.text, std::string("partition of ") + index))
        << ran.text;
  }
  // No partition has the number 0, whatever its key says of membership.
  EXPECT_THAT(info("SHIM_PKEYS=0x8000,0x0000,0x8002"), HasSubstr("\"pkey_index\":2"));
  expect_error(table + " IBCOLL_PKEY=0x7fff", HasSubstr("a limited member of partition 0x7fff"));
  expect_error("SHIM_PKEYS=0x7fff,0x0000", HasSubstr("a limited member of partition 0x7fff"));
}

/// In containers a port has the GIDs of all network namespaces.
TEST_F(VerbsDevicesOther, GidsThatNothingCanBeSentFromArePassedOver) {
  const std::string own = std::to_string(if_nametoindex("e1"));
  for (const std::string& gid : {std::string("::ffff:10.77.0.1@0"), "::ffff:10.77.0.1@" + own,
                                 std::string("::ffff:10.99.0.1@9999"), "::ffff:10.99.0.1@" + own}) {
    const std::string settings = "SHIM_GIDS=7=" + gid;
    EXPECT_THAT(info(settings), AllOf(HasSubstr("\"gid_index\":1"), Not(HasSubstr("index\":7"))))
        << gid;
    expect_right(settings);
    expect_error(settings + " SHIM_FAIL=ibv_create_ah:1+",
                 AllOf(HasSubstr("GID ::ffff:10.77.0.1 does not work: Cannot allocate memory")));
  }
  EXPECT_THAT(info("SHIM_GIDS=7=::ffff:10.99.0.1@0 IBCOLL_GID_INDEX=7"),
              HasSubstr("\"gid_index\":7"));
}

TEST_F(VerbsDevicesOther, PacketsAreNoLongerThanTheUserWants) {
  EXPECT_THAT(info(""), HasSubstr("\"mtu_bytes\":4096"));
  EXPECT_THAT(info("IBCOLL_MTU=1500"), HasSubstr("\"mtu_bytes\":1024"));
  for (const char* connect : {"datagrams", "rdmacm"}) {
    const Ran ran = run(std::string("SHIM_TELL=1 IBCOLL_MTU=2048 IBCOLL_CONNECT=") + connect);
    EXPECT_EQ(ran.status, 0) << ran.text;
    EXPECT_GT(count(ran.text, "packets of "), 0u) << ran.text;
    EXPECT_EQ(count(ran.text, "packets of "), count(ran.text, "packets of 2048")) << ran.text;
  }
}

/// Of an InfiniBand port. A path may also take shorter packets than the ports at its ends.
TEST_F(VerbsDevicesOther, TheServiceLevelIsTheSubnetManagersUnlessTheUserSetsOne) {
  const std::string port =
      "SHIM_TELL=1 SHIM_INFINIBAND=rxe4 IBCOLL_DEVICES=rxe4 IBCOLL_GID_INDEX=1 "
      "IBCOLL_LOG_LEVEL=info ";
  const std::string manager = "SHIM_SERVICE_LEVEL=5 ", job = "--ranks 2 --servers 2";
  const Ran told = run(port + manager, job), silence = run(port, job),
            own = run(port + manager + "IBCOLL_SERVICE_LEVEL=3", job);
  for (const auto& [ran, way] : {std::pair(&told, "service level 5, packets of 2048"),
                                 std::pair(&silence, "service level 0, packets of 4096"),
                                 std::pair(&own, "service level 3, packets of 4096")}) {
    EXPECT_EQ(ran->status, 0) << ran->text;
    EXPECT_GT(count(ran->text, "way with "), 0u) << ran->text;
    EXPECT_EQ(count(ran->text, "way with "), count(ran->text, way)) << way << "\n" << ran->text;
  }
  const auto is_silent = HasSubstr("service level 0, since the subnet manager names none: ");
  EXPECT_THAT(silence.text, is_silent);
  EXPECT_THAT(told.text + own.text, Not(is_silent));
}

/// What the administrator has set for librdmacm's connections.
TEST_F(VerbsDevicesOther, TheTrafficClassIsThatOfThePortUnlessTheUserSetsOne) {
  const std::string rows = "/sys/kernel/config/rdma_cm";
  ASSERT_EQ(
      std::system(("mount -t configfs none /sys/kernel/config && for i in 1 2 3 4; do mkdir " +
                   rows + "/rxe$i; echo 104 >" + rows + "/rxe$i/ports/1/default_roce_tos; done")
                      .c_str()),
      0);
  const Ran default_one = run("SHIM_TELL=1"), own = run("SHIM_TELL=1 IBCOLL_TRAFFIC_CLASS=32");
  EXPECT_THAT(info(""), HasSubstr("\"traffic_class\":104"));
  EXPECT_EQ(std::system(("rmdir " + rows + "/* && umount /sys/kernel/config").c_str()), 0);
  EXPECT_THAT(default_one.text, AllOf(HasSubstr("traffic class 104, service level 0"),
                                      Not(HasSubstr("traffic class 0"))));
  EXPECT_THAT(own.text, AllOf(HasSubstr("traffic class 32,"), Not(HasSubstr("class 104"))));
}

TEST_F(VerbsDevicesOther, DataIsWrittenInAnyOrderWhereTheUserSaysSo) {
  const Ran on = run("SHIM_TELL=1 IBCOLL_RELAXED_ORDERING=on"),
            off = run("SHIM_TELL=1 IBCOLL_RELAXED_ORDERING=off");
  EXPECT_EQ(on.status, 0) << on.text;
  EXPECT_THAT(on.text, HasSubstr("relaxed ordering"));
  EXPECT_EQ(off.status, 0) << off.text;
  EXPECT_THAT(off.text, Not(HasSubstr("relaxed ordering")));
  const std::string cpuinfo = testing_tools::content_of("/proc/cpuinfo");
  const Ran by_itself = run("SHIM_TELL=1");
  EXPECT_EQ(by_itself.status, 0) << by_itself.text;
  EXPECT_EQ(count(by_itself.text, "relaxed ordering") > 0,
            verbs::relaxes_ordering(verbs::RelaxedOrdering::kAuto, cpuinfo))
      << by_itself.text;
}

TEST_F(VerbsDevicesOther, CompletionVectorsAreSpreadOverTheRanksOfAMachine) {
  const Ran ran = run("SHIM_TELL=1 SHIM_VECTORS=3");
  EXPECT_EQ(ran.status, 0) << ran.text;
  for (const char* line : {"rxe1: completion vector 0", "rxe2: completion vector 1",
                           "rxe3: completion vector 2", "rxe4: completion vector 0"})
    EXPECT_THAT(ran.text, HasSubstr(line));
  EXPECT_THAT(ran.text, Not(HasSubstr("completion vector 3")));
  // Where there is one port nobody tries out which others it reaches: all queues are ranks' own.
  const Ran one = run("SHIM_TELL=1 SHIM_VECTORS=3 IBCOLL_DEVICES=rxe1");
  EXPECT_EQ(one.status, 0) << one.text;
  const size_t of_a_rank = count(one.text, "completion vector 1");
  EXPECT_GT(of_a_rank, 0u) << one.text;
  EXPECT_EQ(count(one.text, "completion vector 2"), of_a_rank) << one.text;
  EXPECT_EQ(count(one.text, "completion vector 0"), 2 * of_a_rank) << "ranks 0 and 3\n" << one.text;
}

/// So many connections that what all of them hold is more than a completion queue has at first.
Ran run_many_connections(const std::string& settings) {
  return run("SHIM_TELL=1 IBCOLL_RECEIVES=64 " + settings,
             "--ranks 36 --servers 36 --algorithm linear", "--sizes 64 --iterations 1");
}

/// All that was posted to a connection that breaks completes at once.
TEST_F(VerbsDevicesOther, CompletionQueuesHaveRoomForAllThatMayComplete) {
  // Rank 0 has so many connections that its queue grows while they are made, too.
  const Ran few = run("SHIM_TELL=1 SHIM_LIMITS=max_cqe=64"), many = run_many_connections(""),
            most = run("SHIM_TELL=1 IBCOLL_RECEIVES=64",
                       "--ranks 70 --servers 70 --collective bcast --algorithm linear",
                       "--sizes 64 --iterations 1");
  for (const Ran* ran : {&few, &many, &most}) {
    EXPECT_EQ(ran->status, 0) << ran->text;
    EXPECT_THAT(ran->text, Not(HasSubstr("may overflow")));
  }
  EXPECT_EQ(count(few.text, "a completion queue grows"), 0u) << few.text;
  EXPECT_GT(count(many.text, "a completion queue grows"), 0u) << many.text;
}

TEST_F(VerbsDevicesOther, CompletionQueuesThatCannotGrowAreSharedByMoreConnections) {
  const Ran ran = run_many_connections("SHIM_FAIL=ibv_resize_cq:1+");
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_THAT(ran.text, Not(HasSubstr("may overflow")));
}

TEST_F(VerbsDevicesOther, DevicesAreListedOnceByEachRank) {
  const Ran ran = run("SHIM_TELL=1");
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_EQ(count(ran.text, "devices are listed"), 4u) << ran.text;
}

TEST_F(VerbsDevicesOther, BuffersThatAreRegisteredForEachCallAreWarnedOf) {
  const std::string folder = ::testing::TempDir() + "no_libucs." + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/libucs.so.0") << "no library";
  const Ran ran = run("LD_LIBRARY_PATH=" + folder);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_EQ(count(ran.text, "anew for each call"), 1u) << "once a machine\n" << ran.text;
  EXPECT_THAT(ran.text, HasSubstr(folder + "/libucs.so.0: "));
}

const std::vector<std::string> kFunctions = {
    "ibv_open_device",   "ibv_query_device", "ibv_query_port",          "ibv_query_gid_table",
    "ibv_query_pkey",    "ibv_alloc_pd",     "ibv_create_comp_channel", "ibv_reg_mr",
    "ibv_create_cq",     "ibv_create_srq",   "ibv_create_qp",           "ibv_modify_qp",
    "ibv_create_ah",     "ibv_post_send",    "ibv_post_recv",           "ibv_post_srq_recv",
    "ibv_req_notify_cq", "ibv_poll_cq"};

/// On one server's device, so that one rank has the trouble and all have to say the same.
void each_function_fails(const std::vector<std::string>& calls) {
  for (const std::string& function : kFunctions) {
    for (const std::string& call : calls) {
      const std::string settings =
          "SHIM_DEVICE=rxe2 SHIM_FAIL=" + function + ":" + call + " IBCOLL_PORT_DOWN=2s";
      const Ran ran = run(settings);
      EXPECT_TRUE(ran.status == 0 || ran.status == 1) << settings << "\n" << ran.text;
      EXPECT_EQ(ran.errors.size(), static_cast<size_t>(ran.status)) << settings << "\n" << ran.text;
      if (getenv("TEST_VERBOSE") != nullptr)
        std::fprintf(stderr, "%s: %d %s\n", settings.c_str(), ran.status,
                     ran.errors.empty() ? "" : ran.errors.front().c_str());
    }
  }
}

TEST_F(VerbsDevicesOther, EachFunctionFailsFromTheStart) { each_function_fails({"1+"}); }
TEST_F(VerbsDevicesOther, EachFunctionFailsInTurnFull) {
  each_function_fails({"1", "2", "3", "5", "9", "30", "3+", "10+"});
}

}  // namespace
}  // namespace ibcoll
