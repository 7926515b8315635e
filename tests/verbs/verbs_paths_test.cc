// What an InfiniBand subnet's manager is asked, and what comes of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/verbs/port_address.h"
#include "verbs/paths.h"

namespace ibcoll::verbs {
namespace {

using ::testing::HasSubstr;

using ibcoll::testing::address;

/// An InfiniBand port in the subnet of address().
PortInfo infiniband(int service_level) {
  PortInfo port;
  port.device = "mlx5_0";
  port.mtu = IBV_MTU_4096;
  port.service_level = service_level;
  return port;
}

/// A subnet manager that gives paths to LIDs of a service level each, as long as it answers.
struct Manager {
  int asked = 0;
  bool answers = true;
  Paths::Ask ask() {
    return [this](const PortInfo&, const PortAddress& peer) -> Result<Path> {
      ++asked;
      if (!answers) return fail(ErrorCode::kPeerFailed, "silence");
      return Path{99, static_cast<uint8_t>(peer.lid % 8), IBV_MTU_2048};
    };
  }
};

TEST(VerbsPaths, TheServiceLevelIsTheSubnetManagersAskedOnceAPort) {
  Manager manager;
  Paths paths(infiniband(-1), manager.ask());
  for (int round = 0; round < 3; ++round) {
    for (uint16_t lid = 1; lid < 5; ++lid) {
      const Path path = paths.find(address(lid)).value();
      EXPECT_EQ(path.service_level, lid);
      EXPECT_EQ(path.lid, lid) << "the peer's own: a port may have several";
      EXPECT_EQ(path.mtu, IBV_MTU_2048);
    }
  }
  EXPECT_EQ(manager.asked, 4);
}

TEST(VerbsPaths, PacketsAreNoLongerThanEitherPortTakes) {
  Manager manager;
  PortAddress peer = address(7);
  for (const int service_level : {-1, 0}) {  // asked for, and said
    PortInfo own = infiniband(service_level);
    peer.mtu = IBV_MTU_1024;
    EXPECT_EQ(Paths(own, manager.ask()).find(peer)->mtu, IBV_MTU_1024);
    peer.mtu = IBV_MTU_4096;
    own.mtu = IBV_MTU_512;
    EXPECT_EQ(Paths(own, manager.ask()).find(peer)->mtu, IBV_MTU_512);
  }
}

TEST(VerbsPaths, NobodyIsAskedWhereTheUserHasSaidOrWithRoce) {
  Manager manager;
  EXPECT_EQ(Paths(infiniband(3), manager.ask()).find(address(7))->service_level, 3);
  PortInfo roce = infiniband(-1);
  roce.ethernet = roce.global = true;
  EXPECT_EQ(Paths(roce, manager.ask()).find(address(7))->service_level, 0);
  EXPECT_EQ(manager.asked, 0);
}

TEST(VerbsPaths, AManagerThatDoesNotAnswerIsAskedNoMore) {
  Manager manager;
  manager.answers = false;
  Paths paths(infiniband(-1), manager.ask());
  for (uint16_t lid = 1; lid < 5; ++lid) {
    const Path path = paths.find(address(lid)).value();
    EXPECT_EQ(path.service_level, 0);
    EXPECT_EQ(path.lid, lid);
    EXPECT_EQ(path.mtu, IBV_MTU_4096);
  }
  EXPECT_EQ(manager.asked, 1);
}

TEST(VerbsPaths, ToAnotherSubnetTheyAreOfItsRouterOrNotThere) {
  Manager manager;
  Paths paths(infiniband(2), manager.ask());
  PortAddress away = address(7);
  away.gid[7] = 1;
  EXPECT_EQ(paths.find(away)->lid, 99);
  EXPECT_EQ(paths.find(away)->service_level, 2) << "the user's";
  manager.answers = false;
  const auto lost = paths.find(away);
  ASSERT_FALSE(lost);
  EXPECT_THAT(lost.error().message, HasSubstr("silence"));
}

}  // namespace
}  // namespace ibcoll::verbs
