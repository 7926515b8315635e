// What ranks tell each other while transports are opened.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/bootstrap/launch.h"
#include "engine/transport/exchange.h"

namespace ibcoll {
namespace {

constexpr int kRanks = 5;

/// Each rank's word on what it was told: the numbers, or an error.
template <class Tell>
std::vector<std::string> told(Tell&& tell) {
  std::vector<std::string> all(kRanks);
  const auto result = launch_threads(kRanks, [&](Bootstrap& bootstrap) {
    const Result<std::vector<int>> values = tell(bootstrap);
    all[static_cast<size_t>(bootstrap.rank())] =
        values ? fmt::format("{}", fmt::join(*values, " ")) : values.error().message;
    return 0;
  });
  EXPECT_EQ(result.value(), 0);
  return all;
}

/// Ten times the rank; an error on ranks from `first_bad` on.
Result<int> own_value(const Bootstrap& bootstrap, Rank first_bad) {
  if (bootstrap.rank() >= first_bad)
    return fail(ErrorCode::kSystem, "no luck on {}", bootstrap.rank());
  return 10 * bootstrap.rank();
}

std::vector<std::string> everybody(const std::string& text) {
  return std::vector<std::string>(kRanks, text);
}

TEST(Exchange, GivesEverybodysValueOrTheFirstError) {
  const auto of = [](Rank first_bad) {
    return told([=](Bootstrap& bootstrap) {
      return exchange(bootstrap, "test", own_value(bootstrap, first_bad));
    });
  };
  EXPECT_EQ(of(kRanks), everybody("0 10 20 30 40"));
  EXPECT_EQ(of(3), everybody("no test transport: rank 3: no luck on 3"));
  EXPECT_EQ(of(0), everybody("no test transport: rank 0: no luck on 0"));
}

TEST(Exchange, OfSomeGivesTheirValuesOrTheirFirstError) {
  const auto of = [](const std::vector<Rank>& givers, Rank first_bad) {
    return told([=](Bootstrap& bootstrap) {
      return exchange_of(bootstrap, "test", givers, own_value(bootstrap, first_bad));
    });
  };
  EXPECT_EQ(of({1, 3}, kRanks), everybody("10 30"));
  EXPECT_EQ(of({1, 3}, 2), everybody("no test transport: rank 3: no luck on 3"));
  EXPECT_EQ(of({0, 1}, 2), everybody("0 10"));  // nobody asks the others
}

}  // namespace
}  // namespace ibcoll
