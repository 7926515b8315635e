// Decisions of the verbs transport that no hardware here can show: which ports of a cluster are
// used, when a global route header is, how long a queue pair holds out, whom a broken connection is
// blamed on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/verbs/lock_privilege.h"
#include "verbs/address_book.h"
#include "verbs/gid_choice.h"
#include "verbs/lock_limit.h"
#include "verbs/port_choice.h"
#include "verbs/port_defaults.h"
#include "verbs/port_history.h"
#include "verbs/queue_pair.h"
#include "verbs/registrar.h"
#include "verbs/route.h"
#include "verbs/transport.h"

namespace ibcoll::verbs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr bool kInfiniBand = false, kRoce = true;

PortInfo port(const std::string& device, bool ethernet, uint64_t rate_mbps) {
  PortInfo result;
  result.device = device;
  result.active = true;
  result.ethernet = result.global = ethernet;
  result.rate_mbps = rate_mbps;
  return result;
}

Offer offer(const std::vector<PortInfo>& ports, int machine = 0, bool named = false) {
  Offer offer = offer_of(ports, machine, named);
  offer.first = machine;
  return offer;
}

TEST(VerbsPortChoice, TheFastestOfEachMachineAreKept) {
  const std::vector<Offer> offers = {
      offer({port("a0", kInfiniBand, 200'000), port("a1", kInfiniBand, 100'000),
             port("a2", kInfiniBand, 200'000)}),
      offer({port("b0", kInfiniBand, 100'000)}, 1)};
  const auto kept = keep_one_class(offers);
  ASSERT_TRUE(kept.has_value());
  EXPECT_THAT(*kept, ElementsAre(0b101u, 0b1u));
  EXPECT_THAT(why_left_out(offers[0], (*kept)[0]),
              ElementsAre("", "100000 Mbit/s, where a0:1 has 200000", ""));
}

TEST(VerbsPortChoice, PortsThatTheUserNamedMayDifferInSpeed) {
  const std::vector<Offer> offers = {
      offer({port("a0", kRoce, 200'000), port("a1", kRoce, 100'000)}, 0, true)};
  EXPECT_THAT(*keep_one_class(offers), ElementsAre(0b11u));
}

TEST(VerbsPortChoice, OneLinkLayerIsKeptThatAllHave) {
  const std::vector<Offer> offers = {
      offer({port("a0", kInfiniBand, 400'000), port("a1", kRoce, 25'000)}),
      offer({port("b0", kRoce, 25'000), port("b1", kInfiniBand, 400'000)}, 1)};
  const auto kept = keep_one_class(offers);
  ASSERT_TRUE(kept.has_value());
  EXPECT_THAT(*kept, ElementsAre(0b01u, 0b10u));
  EXPECT_THAT(why_left_out(offers[1], (*kept)[1]),
              ElementsAre("RoCE, where InfiniBand is used", ""));
  // One machine without InfiniBand: RoCE joins them all, though it is slower.
  const std::vector<Offer> mixed = {offers[0], offer({port("c0", kRoce, 25'000)}, 2)};
  EXPECT_THAT(*keep_one_class(mixed), ElementsAre(0b10u, 0b1u));
}

TEST(VerbsPortChoice, RanksWithoutACommonLinkLayerAreNamed) {
  const std::vector<Offer> offers = {offer({port("a0", kInfiniBand, 1000)}),
                                     offer({port("b0", kRoce, 1000)}, 1)};
  const auto kept = keep_one_class(offers);
  ASSERT_FALSE(kept.has_value());
  EXPECT_THAT(kept.error().message, AllOf(HasSubstr("rank 1 has ports of RoCE only (b0:1)"),
                                          HasSubstr("rank 0 of InfiniBand only (a0:1)")));
}

TEST(VerbsPortChoice, PortsOfThisMachineThatAreLeftOutHaveAReason) {
  std::vector<PortInfo> ports = {port("a0", kRoce, 100'000), port("a1", kRoce, 10'000),
                                 port("a2", kRoce, 100'000)};
  ports[2].active = false;
  EXPECT_THAT(left_out_here(ports, {}), ElementsAre("", "10000 Mbit/s, where a0:1 has 100000", ""));
  DeviceOptions options;
  options.devices = {"a1"};
  EXPECT_THAT(left_out_here(ports, options), ElementsAre("not in IBCOLL_DEVICES", "", ""));
}

/// Servers with two rails each, and what they hear of each other.
struct Rails {
  explicit Rails(size_t servers) {
    for (size_t server = 0; server < servers; ++server) {
      const auto name = static_cast<char>('a' + server);
      offers.push_back(offer({port(fmt::format("{}0", name), kInfiniBand, 100'000),
                              port(fmt::format("{}1", name), kInfiniBand, 100'000)},
                             static_cast<int>(server)));
    }
    stations = find_stations(offers, std::vector<PortMask>(servers, 0b11));
  }
  Result<std::vector<PortMask>> keep(const std::vector<std::array<PortMask, 2>>& rows) const {
    std::vector<Heard> heard;
    for (const auto& [first, second] : rows) heard.push_back({first, second});
    return keep_one_network(stations, heard, offers);
  }
  std::vector<Offer> offers;
  Stations stations;
};

TEST(VerbsNetworkChoice, RailsThatAllReachEachOtherAreAllUsed) {
  EXPECT_THAT(*Rails(3).keep({{0b11, 0b11}, {0b11, 0b11}, {0b11, 0b11}}),
              ElementsAre(0b11u, 0b11u, 0b11u));
}

TEST(VerbsNetworkChoice, OfTwoFabricsOneIsUsed) {
  EXPECT_THAT(*Rails(3).keep({{0b01, 0b10}, {0b01, 0b10}, {0b01, 0b10}}),
              ElementsAre(0b01u, 0b01u, 0b01u));
  // Cables crossed on server 1: its second port is on the first fabric.
  EXPECT_THAT(*Rails(3).keep({{0b01, 0b10}, {0b10, 0b01}, {0b10, 0b01}}),
              ElementsAre(0b01u, 0b10u, 0b01u));
}

TEST(VerbsNetworkChoice, AFabricThatMissesAServerIsNotUsed) {
  // Server 1's first port reaches nobody.
  EXPECT_THAT(*Rails(3).keep({{0b01, 0b10}, {0b00, 0b10}, {0b00, 0b10}}),
              ElementsAre(0b10u, 0b10u, 0b10u));
}

TEST(VerbsNetworkChoice, ServersThatDontReachEachOtherAreNamed) {
  const auto kept = Rails(4).keep({{0, 0}, {0b01, 0b10}, {0, 0}, {0b01, 0b10}});
  ASSERT_FALSE(kept.has_value());
  EXPECT_THAT(kept.error().message,
              HasSubstr("rank 1 on b0:1, b1:1 does not reach rank 2 on c0:1, c1:1"));
}

TEST(VerbsNetworkChoice, PortsOfOneMachineAreTriedOnEachOther) {
  const std::vector<Offer> offers(
      4, offer({port("a0", kRoce, 1000), port("a1", kRoce, 1000), port("a2", kRoce, 1000)}));
  const Stations stations = find_stations(offers, std::vector<PortMask>(4, 0b111));
  ASSERT_EQ(stations.all.size(), 1u);
  EXPECT_THAT(stations.of_offer, ElementsAre(0, 0, 0, 0));
  const std::vector<Heard> heard = {{0, 0, 0b010}};
  EXPECT_THAT(*keep_one_network(stations, heard, offers), ElementsAre(0b110u));
}

/// A machine with a rank on each of these NUMA nodes and a port on each of those; gives the ports
/// that the ranks use.
std::vector<size_t> dealt(const std::vector<int>& rank_nodes, const std::vector<int>& port_nodes,
                          const Shape& shape) {
  std::vector<PortInfo> ports;
  for (size_t i = 0; i < port_nodes.size(); ++i) {
    ports.push_back(port(fmt::format("a{}", i), kInfiniBand, 1000));
    ports.back().numa_node = port_nodes[i];
  }
  const Offer all = offer(ports);
  const PortMask kept = (PortMask{1} << ports.size()) - 1;
  std::vector<RankPorts> ranks;
  for (const int node : rank_nodes) ranks.push_back({0, node});
  std::vector<size_t> used;
  for (Rank rank = 0; rank < shape.ranks(); ++rank)
    used.push_back(choose_port({&all, 1}, {&kept, 1}, ranks, shape, rank));
  return used;
}

TEST(VerbsPortOfARank, IsOneOfThoseNearItInTurnHoweverRanksAreBound) {
  const Shape eight = Shape::single_server(8);
  EXPECT_THAT(dealt({0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 1, 1}, eight),
              ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(dealt({0, 1, 0, 1, 0, 1, 0, 1}, {0, 0, 1, 1}, eight),
              ElementsAre(0, 2, 1, 3, 0, 2, 1, 3));
  EXPECT_THAT(dealt({0, 1, 0, 1, 0, 1, 0, 1}, {0, 1, 0, 1}, eight),
              ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
}

TEST(VerbsPortOfARank, IsAnyWhereNoneIsNearOrNobodyKnows) {
  const Shape four = Shape::single_server(4);
  EXPECT_THAT(dealt({-1, -1, -1, -1}, {0, 0, 1}, four), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(dealt({0, 1, 0, 1}, {-1, -1}, four), ElementsAre(0, 1, 0, 1));
  // One rank on each node, two of which have a port.
  EXPECT_THAT(dealt({0, 1, 2, 3}, {0, 1}, four), ElementsAre(0, 1, 0, 1));
}

TEST(VerbsPortOfARank, IsThatOfItsServerWhereServersAreEmulated) {
  EXPECT_THAT(dealt({-1, -1, -1, -1, -1, -1}, {-1, -1, -1},
                    *Shape::from_layout(std::vector{2, 1, 3}, Placement::kBlock)),
              ElementsAre(0, 0, 1, 2, 2, 2));
}

TEST(VerbsAddressBook, GivesEachRankThePortThatItUses) {
  std::vector<Offer> offers = {offer({port("a0", kInfiniBand, 1), port("a1", kInfiniBand, 1)}),
                               offer({port("a0", kInfiniBand, 1)}, 1)};
  offers[0].ports[1].address.lid = 7;
  offers[1].ports[0].address.lid = 9;
  const std::vector<RankPorts> ranks = {{0, -1}, {1, -1}, {0, -1}, {0, -1}};
  const AddressBook book(
      offers, ranks,
      {{1, 0, 10, 20, 0}, {0, 1, 11, 0xabcdef, 0}, {0, 0, 12, 22, 0}, {1, 0, 0x123456, 23, 5}});
  ASSERT_EQ(book.ranks(), 4u);
  std::vector<std::string> names;
  std::vector<int> lids;
  for (Rank rank = 0; rank < 4; ++rank) {
    names.emplace_back(book.port_name(rank));
    lids.push_back(book.port(rank).lid);
  }
  EXPECT_THAT(names, ElementsAre("a1:1", "a0:1", "a0:1", "a1:1"));
  EXPECT_THAT(lids, ElementsAre(7, 9, 0, 7));
  EXPECT_EQ(book.of(3).datagram_number, 0x123456u);
  EXPECT_EQ(book.of(1).responder_number, 0xabcdefu);
  EXPECT_EQ(book.of(3).service_port, 5);
}

PortInfo with_gid(PortInfo info, uint8_t subnet, uint8_t number) {
  info.gid.raw[0] = 0xfe;
  info.gid.raw[7] = subnet;
  info.gid.raw[15] = number;
  info.lid = number;
  return info;
}

TEST(VerbsRoute, AGlobalRouteHeaderIsUsedWhereItIsAskedFor) {
  const PortInfo own = with_gid(port("a0", kInfiniBand, 1), 1, 1);
  PortInfo peer = with_gid(port("b0", kInfiniBand, 1), 1, 2);
  EXPECT_EQ(route_kind(own, address_of(peer)), RouteKind::kLocal);
  EXPECT_EQ(address_vector(own, address_of(peer), {.lid = peer.lid}).is_global, 0);
  peer.global = true;
  EXPECT_EQ(route_kind(own, address_of(peer)), RouteKind::kGlobal);
  EXPECT_EQ(route_kind(peer, address_of(own)), RouteKind::kGlobal);
  const ibv_ah_attr attributes = address_vector(own, address_of(peer), {.lid = peer.lid});
  EXPECT_EQ(attributes.is_global, 1);
  EXPECT_EQ(attributes.dlid, peer.lid);
  EXPECT_EQ(std::memcmp(attributes.grh.dgid.raw, peer.gid.raw, 16), 0);
}

TEST(VerbsRoute, BetweenInfiniBandSubnetsARouterIsAskedFor) {
  const PortInfo own = with_gid(port("a0", kInfiniBand, 1), 1, 1);
  const PortInfo peer = with_gid(port("b0", kInfiniBand, 1), 2, 2);
  EXPECT_EQ(route_kind(own, address_of(peer)), RouteKind::kRouted);
  const ibv_ah_attr attributes =
      address_vector(own, address_of(peer), {.lid = 77, .service_level = 3});
  EXPECT_EQ(attributes.is_global, 1);
  EXPECT_EQ(attributes.dlid, 77) << "the router's, not the peer's";
  EXPECT_EQ(attributes.sl, 3);
  EXPECT_GT(attributes.grh.hop_limit, 1);
  // The kernel finds the way through RoCE's routers.
  EXPECT_EQ(route_kind(with_gid(port("a0", kRoce, 1), 1, 1),
                       address_of(with_gid(port("b0", kRoce, 1), 2, 2))),
            RouteKind::kGlobal);
}

ibv_gid_entry entry(const char* address, uint32_t type, uint32_t interface) {
  ibv_gid_entry result{};
  inet_pton(AF_INET6, address, result.gid.raw);
  result.gid_type = type;
  result.ndev_ifindex = interface;
  return result;
}

/// The addresses of these entries, in the order in which they are tried. Interface 3 is in a VLAN,
/// 4 in another network namespace.
std::vector<std::string> ranked(const std::vector<ibv_gid_entry>& entries) {
  std::vector<std::string> result;
  for (const ibv_gid_entry& gid : ranked_gids(entries, [](const ibv_gid_entry& of) {
         return GidInterface{.here = of.ndev_ifindex != 4, .vlan = of.ndev_ifindex == 3};
       }))
    result.push_back(fmt::format("{}, {}", gid_text(gid.gid), gid_type_name(gid.gid_type)));
  return result;
}

TEST(VerbsGids, ThoseThatReachMostAreTriedFirstAndLinkLocalIpv4Last) {
  constexpr uint32_t kOld = IBV_GID_TYPE_ROCE_V1, kNew = IBV_GID_TYPE_ROCE_V2;
  EXPECT_THAT(ranked({entry("::ffff:10.0.0.1", kOld, 2), entry("::ffff:169.254.3.4", kNew, 2),
                      entry("fe80::1", kNew, 2), entry("::ffff:10.1.0.1", kNew, 3),
                      entry("2001:db8::1", kNew, 2), entry("::ffff:10.2.0.1", kNew, 4),
                      entry("::ffff:10.0.0.1", kNew, 2), entry("::ffff:10.0.0.2", kNew, 2)}),
              ElementsAre("::ffff:10.0.0.1, RoCE v2", "::ffff:10.0.0.2, RoCE v2",
                          "2001:db8::1, RoCE v2", "::ffff:10.1.0.1, RoCE v2", "fe80::1, RoCE v2",
                          "::ffff:169.254.3.4, RoCE v2", "::ffff:10.0.0.1, RoCE v1"));
}

TEST(VerbsGids, OfThisNamespaceAreThoseWhoseInterfaceHasTheirAddress) {
  const uint32_t loopback = if_nametoindex("lo");
  EXPECT_TRUE(interface_of(entry("::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2, loopback)).here);
  EXPECT_FALSE(interface_of(entry("::ffff:10.99.0.1", IBV_GID_TYPE_ROCE_V2, loopback)).here);
  EXPECT_FALSE(interface_of(entry("::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2, 999'999)).here);
  EXPECT_TRUE(interface_of(entry("::ffff:10.99.0.1", IBV_GID_TYPE_ROCE_V2, 0)).here)
      << "the kernel does not say";
  EXPECT_FALSE(interface_of(entry("::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2, loopback)).vlan);
}

/// Makes the kernel say to this process that the loopback interface is in a VLAN, by another file
/// where it says so.
bool puts_loopback_into_vlan(const std::string& file) {
  return (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount(file.c_str(), "/sys/class/net/lo/uevent", nullptr, MS_BIND, nullptr) == 0;
}

TEST(VerbsGids, AreInAVlanWhereTheirInterfaceIs) {
  constexpr int kCannot = 77;
  const std::string file = ::testing::TempDir() + "vlan_uevent." + std::to_string(getpid());
  std::ofstream(file) << "INTERFACE=lo\nIFINDEX=1\nDEVTYPE=vlan\n";
  std::fflush(nullptr);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!puts_loopback_into_vlan(file)) _exit(kCannot);
    const GidInterface found =
        interface_of(entry("::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2, if_nametoindex("lo")));
    _exit(found.here && found.vlan ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  std::filesystem::remove(file);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannot) GTEST_SKIP() << "no mounts of its own for a process here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// A folder with what drivers and the kernel have of a port.
class PortFiles {
 public:
  PortFiles() { std::filesystem::create_directory(root_); }
  ~PortFiles() { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + file).parent_path());
    std::ofstream(root_ + file) << text;
  }
  int traffic_class() const { return default_traffic_class("mlx5_0", 2, root_); }

 private:
  const std::string root_ = ::testing::TempDir() + "port_files." + std::to_string(getpid());
};

TEST(VerbsTrafficClass, IsWhatTheDriverHasOrElseTheKernel) {
  const PortFiles port;
  EXPECT_EQ(port.traffic_class(), 0);
  port.write("/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "8\n");
  EXPECT_EQ(port.traffic_class(), 0) << "of another port";
  port.write("/sys/kernel/config/rdma_cm/mlx5_0/ports/2/default_roce_tos", "96\n");
  EXPECT_EQ(port.traffic_class(), 96);
  port.write("/sys/class/infiniband/mlx5_0/tc/2/traffic_class", "");
  EXPECT_EQ(port.traffic_class(), 96) << "the driver has none";
  port.write("/sys/class/infiniband/mlx5_0/tc/2/traffic_class",
             "Global tclass=106\ntclass=32 dst_ip=10.0.0.1\n");
  EXPECT_EQ(port.traffic_class(), 106);
}

TEST(VerbsOrdering, IsRelaxedByItselfWhereThatIsKnownToBeRight) {
  const std::string amd = "processor: 0\nvendor_id: AuthenticAMD\n",
                    intel = "processor: 0\nvendor_id: GenuineIntel\n", arm = "CPU part: 0xd0c\n";
  EXPECT_TRUE(relaxes_ordering(RelaxedOrdering::kAuto, amd));
  EXPECT_TRUE(relaxes_ordering(RelaxedOrdering::kAuto, arm));
  EXPECT_FALSE(relaxes_ordering(RelaxedOrdering::kAuto, intel));
  EXPECT_TRUE(relaxes_ordering(RelaxedOrdering::kOn, intel));
  EXPECT_FALSE(relaxes_ordering(RelaxedOrdering::kOff, amd));
}

TEST(VerbsLockedMemory, IsTooLittleForRanksThatCouldFillTheMachine) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  EXPECT_EQ(too_little_lockable(std::nullopt, 512 * kGib, 8), "");
  EXPECT_EQ(too_little_lockable(64 * kGib, 512 * kGib, 8), "");
  EXPECT_EQ(too_little_lockable(4 * kGib, 512 * kGib, 8), "") << "too little for all, but for most";
  EXPECT_THAT(too_little_lockable(uint64_t{8} << 20, 512 * kGib, 8),
              AllOf(HasSubstr("lock 8M"), HasSubstr("(ulimit -l)"), HasSubstr("64G")));
}

/// The administrator's limit is the hard one.
TEST(VerbsLockedMemory, IsAsMuchAsTheProcessMayAllowItself) {
  const testing::WithoutLockPrivilege nobody;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit low{std::min<rlim_t>(before.rlim_max, 65536), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
  const std::optional<uint64_t> lockable = lockable_bytes();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &after), 0);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(lockable, before.rlim_max == RLIM_INFINITY ? std::nullopt
                                                       : std::optional<uint64_t>(before.rlim_max));
}

/// What a user does not set is asked for, found out or chosen.
TEST(VerbsSettings, LeaveAllToTheEngineAtFirst) {
  for (const char* name :
       {"IBCOLL_DEVICES", "IBCOLL_GID_INDEX", "IBCOLL_PKEY", "IBCOLL_SERVICE_LEVEL",
        "IBCOLL_TRAFFIC_CLASS", "IBCOLL_MTU", "IBCOLL_RELAXED_ORDERING"})
    unsetenv(name);
  const auto options = TransportOptions::from_environment();
  ASSERT_TRUE(options.has_value()) << options.error().message;
  EXPECT_TRUE(options->devices.devices.empty());
  EXPECT_EQ(options->devices.gid_index, -1);
  EXPECT_FALSE(options->devices.pkey.has_value());
  EXPECT_EQ(options->devices.service_level, -1);
  EXPECT_EQ(options->devices.traffic_class, -1);
  EXPECT_EQ(options->devices.mtu_bytes, 0);
  EXPECT_EQ(options->ordering, RelaxedOrdering::kAuto);
}

TEST(VerbsRetries, HoldOutAsLongAsAPortMayBeDown) {
  for (const int retries : {0, 1, 6, 7}) {
    for (const int64_t down_ns : {int64_t{1'000'000}, int64_t{500'000'000}, int64_t{5'000'000'000},
                                  int64_t{60'000'000'000}}) {
      RetryOptions retry;
      retry.retries = retries;
      retry.unreachable_ns = down_ns;
      const int exponent = timeout_exponent_for(retry);
      EXPECT_GE((int64_t{4096} << exponent) * (retries + 1), down_ns);
      EXPECT_TRUE(exponent == 14 || (int64_t{4096} << (exponent - 1)) * (retries + 1) < down_ns);
    }
  }
  RetryOptions said;
  said.timeout_exponent = 17;
  EXPECT_EQ(timeout_exponent_for(said), 17);
}

TEST(VerbsPortHistory, TellsOfTroubleThatMayHaveBrokenAConnection) {
  constexpr int64_t kSecond = 1'000'000'000;
  PortHistory history;
  EXPECT_EQ(history.trouble(5 * kSecond, kSecond), "");
  history.went_down(10 * kSecond);
  history.went_down(11 * kSecond);  // it was already
  EXPECT_EQ(history.trouble(12 * kSecond, kSecond), "is down, for 2.0 s");
  history.came_up(13 * kSecond);
  EXPECT_EQ(history.trouble(13 * kSecond + kSecond / 2, kSecond),
            "was down for 3.0 s until 0.5 s ago");
  EXPECT_EQ(history.trouble(15 * kSecond, kSecond), "");
}

}  // namespace
}  // namespace ibcoll::verbs
