// Where machines are found, as leaders tell each other.

#include "engine/bootstrap/control_home.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ibcoll {
namespace {

ControlHomes some_homes() {
  return {{"", 0, {0, 1, 2, 3}},
          {"10.0.0.2", 4711, {4, 6, 8, 10}},
          {"fe80::1", 65535, {5}},
          {"10.0.0.4", 1, {7, 9, 11, 12, 13, 40, 50}}};
}

void expect_equal(const ControlHomes& homes, const ControlHomes& expected) {
  ASSERT_EQ(homes.size(), expected.size());
  for (size_t i = 0; i < homes.size(); ++i) {
    EXPECT_EQ(homes[i].address, expected[i].address);
    EXPECT_EQ(homes[i].port, expected[i].port);
    EXPECT_EQ(homes[i].ranks, expected[i].ranks);
  }
}

TEST(ControlHomes, AreUnpackedAsTheyWere) {
  expect_equal(unpack_homes(pack_homes(some_homes(), 10'000)), some_homes());
  expect_equal(unpack_homes(pack_homes({}, 10'000)), {});
}

TEST(ControlHomes, AreLeftOutWhereThereIsNoRoom) {
  ControlHomes expected = some_homes();
  expected.resize(2);
  const size_t room = pack_homes(expected, 10'000).size();
  expect_equal(unpack_homes(pack_homes(some_homes(), room)), expected);
  expect_equal(unpack_homes(pack_homes(some_homes(), room - 1)), {expected[0]});
}

TEST(ControlHomes, OfManyRanksTakeFewBytes) {
  ControlHome home{"10.0.0.2", 4711, std::vector<Rank>(1000)};
  std::iota(home.ranks.begin(), home.ranks.end(), 128);
  EXPECT_LE(pack_homes({home}, 10'000).size(), 40u);
  for (Rank& rank : home.ranks) rank *= 800;  // as a cyclic placement has them
  EXPECT_LE(pack_homes({home}, 10'000).size(), 40u);
  expect_equal(unpack_homes(pack_homes({home}, 10'000)), {home});
}

TEST(ControlHomes, ThatAreCutEndWithTheLastWholeOne) {
  std::vector<std::byte> packed = pack_homes(some_homes(), 10'000);
  packed.pop_back();
  ControlHomes expected = some_homes();
  expected.pop_back();
  expect_equal(unpack_homes(packed), expected);
}

}  // namespace
}  // namespace ibcoll
