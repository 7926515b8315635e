// Opening a transport between servers by its name: which one it is, and why.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/transport/open.h"
#include "perf/support/empty_transports.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::JobOptions;
using ::testing::Not;
using testing::RankView;
using testing::run_job;
using ::testing::StartsWith;

/// Two servers of one rank, emulated here.
JobOptions two_servers(const std::string& transport) {
  JobOptions job;
  job.shape = Shape::from_layout(std::vector<int>{1, 1}, Placement::kBlock).value();
  job.context.transport = transport;
  return job;
}

/// What rank 0's context says of its network.
void expect_reason(const JobOptions& job, const ::testing::Matcher<std::string>& expected) {
  const std::string said = run_job(job, [&](const RankView& rank) {
    ::testing::StringMatchResultListener why;
    const std::string& reason = rank.context.job().network_reason();
    if (rank.context.rank() == 0 && !::testing::ExplainMatchResult(expected, reason, &why))
      rank.complain("the reason is '" + reason + "'");
  });
  EXPECT_EQ(said, "");
}

TEST(OpenNetwork, AutoTakesTheLoopbackForEmulatedServersAndSaysWhy) {
  expect_reason(two_servers("auto"),
                AllOf(StartsWith("loopback"),
                      AnyOf(HasSubstr("(auto: no usable RDMA port: "),
                            HasSubstr("(auto: servers emulated on one machine; verbs would use"),
                            HasSubstr("(auto: this build has no verbs)"))));
}

TEST(OpenNetwork, WhatWasAskedForNeedsNoReason) {
  expect_reason(two_servers("loopback"), AllOf(StartsWith("loopback"), Not(HasSubstr("auto"))));
}

TEST(OpenNetwork, ASingleServerHasNone) {
  JobOptions job = two_servers("auto");
  job.shape = Shape::single_server(2);
  expect_reason(job, "none");
}

TEST(OpenNetwork, TheLoopbackPlacesDataAsTheSettingSays) {
  setenv("IBCOLL_LOOPBACK_PLACING", "bounce", 1);
  expect_reason(two_servers("loopback"), "loopback (bounce)");
  unsetenv("IBCOLL_LOOPBACK_PLACING");
}

TEST(OpenNetwork, WhatJoinsNoServersOrIsNotThereIsRefused) {
  EXPECT_THAT(run_job(two_servers("shm"), [](const RankView&) {}),
              HasSubstr("shared memory alone can't join 2 servers"));
  EXPECT_THAT(run_job(two_servers("nosuch"), [](const RankView&) {}),
              HasSubstr("no transport 'nosuch' between servers"));
}

/// The two ranks of a job as they are opened with, on two machines.
struct TwoMachines {
  perf::LoneBootstrap bootstrap{2};
  Shape shape = Shape::from_layout(std::vector<int>{1, 1}, Placement::kBlock).value();
  std::vector<Bell> bells = std::vector<Bell>(2);
  std::vector<int> machines{0, 1};
  NetworkSetup setup{bootstrap, shape, bells, {}, machines};
};

TEST(OpenNetwork, TheLoopbackJoinsNoMachines) {
  const TwoMachines job;
  const auto opened = open_network(job.setup, "loopback");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("these ranks run on several"));
}

TEST(OpenNetwork, ARegisteredTransportIsOpenedByItsName) {
  const auto open = [](const NetworkSetup&) -> Result<std::unique_ptr<NetworkTransport>> {
    return std::make_unique<perf::EmptyNetwork>();
  };
  register_network({.name = "empty", .open = open});
  const TwoMachines job;
  const auto opened = open_network(job.setup, "empty");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->reason, "empty");
}

/// Which of several is taken may depend on what is found out when it is opened.
TEST(OpenNetwork, OfATransportThatDeclinesAutoGoesOnToTheNext) {
  const auto open = [](const NetworkSetup& setup) -> Result<std::unique_ptr<NetworkTransport>> {
    if (setup.may_decline) return fail(ErrorCode::kUnsupported, "will fail later");
    return std::make_unique<perf::EmptyNetwork>();
  };
  const auto next = [](const NetworkSetup&) -> Result<std::unique_ptr<NetworkTransport>> {
    return std::make_unique<perf::EmptyNetwork>();
  };
  register_network({.name = "declines", .preference = 999, .open = open});
  register_network({.name = "next", .preference = 998, .open = next});
  const TwoMachines job;
  const auto opened = open_network(job.setup, "auto");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->reason, "empty (auto: will fail later)");
  EXPECT_TRUE(open_network(job.setup, "declines")) << "asked for by its name";
}

TEST(OpenNetwork, AutoJoinsMachinesByTheTransportThatHasPorts) {
  const auto open = [](const NetworkSetup&) -> Result<std::unique_ptr<NetworkTransport>> {
    return std::make_unique<perf::EmptyNetwork>();
  };
  const auto port = [] { return Result<std::string>("port7:1"); };
  register_network({.name = "best", .preference = 1000, .open = open, .usable_port = port});
  const TwoMachines job;
  const auto opened = open_network(job.setup, "auto");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->reason, "empty");
  expect_reason(two_servers("auto"),
                "loopback (auto: servers emulated on one machine; best would use port7:1)");
}

}  // namespace
}  // namespace ibcoll
