// ibcoll_engine without ibcoll_studies: this program is linked with every object of the one library
// and none of the other, so the linker finds what reaches across.

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/algorithms/registry.h"
#include "engine/transport/open.h"

namespace ibcoll {
namespace {

TEST(EngineAlone, HasAnAlgorithmForEveryCollective) {
  const auto all = algorithms();
  for (const Collective collective : kCollectives) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Algorithm& algorithm) {
      return algorithm.collective == collective;
    })) << to_string(collective);
  }
}

TEST(EngineAlone, HasTheNetworkThatNeedsNoDevice) {
  const Result<std::string> port = usable_network_port("loopback");
  ASSERT_TRUE(port) << port.error().message;
  EXPECT_EQ(*port, "");
}

}  // namespace
}  // namespace ibcoll
