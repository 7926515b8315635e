// Plans of the planner as programs: what a plan says is carried out, on every shape, and proved
// like any other schedule. That they move the right bytes: execute_sweep.

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "engine/algorithms/registry.h"
#include "engine/planner/contention_free/cache.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/planner/contention_free/program_plan.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"
#include "studies/verification/link_sharing.h"
#include "tests/planner/plan_hosts.h"
#include "topology/spec.h"

namespace ibcoll::contention_free {
namespace {

const char* const kFabrics[] = {
    "single-switch:8", "fat-tree:4,2", "torus:2x4",
    "torus:2x4,bandwidth=6000MB/s,trunk-bandwidth=2000MB/s",  // broadcasts go in parts
};

std::vector<Shape> shapes() {
  return {parse_layout("6x1").value(), parse_layout("3,1,2,2").value(),
          parse_layout("4x3", Placement::kCyclic).value(), parse_layout("2").value(),
          parse_layout("1,1").value()};
}

std::vector<const Algorithm*> planned() {
  std::vector<const Algorithm*> all;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name == "contention_free") all.push_back(&algorithm);
  }
  return all;
}

TEST(ContentionFreePrograms, EveryCollectiveIsPlanned) {
  // A barrier moves nothing; scans and neighbours have no plans.
  for (const Collective collective : kCollectives) {
    const CollectiveTraits& row = traits(collective);
    const bool scans = row.reduces && row.combines != Combines::kOfAll;
    const bool none = !row.moves_data || scans || row.has_graph;
    EXPECT_EQ(find_algorithm(collective, "contention_free").has_value(), !none)
        << to_string(collective);
    EXPECT_EQ(std::ranges::count(kPlanned, planned_as(collective)), none ? 0 : 1)
        << to_string(collective);
  }
}

TEST(ContentionFreePrograms, HoldOnEveryFabricAndShape) {
  for (const char* name : kFabrics) {
    PlanStore plans(topology::parse_fabric_spec(name).value());
    for (const Shape& shape : shapes()) {
      for (const Algorithm* algorithm : planned()) {
        for (const int64_t bytes : {100, 100'000}) {
          AlgorithmOptions options;
          options.root = shape.ranks() / 2;
          const auto plan = plans.find(algorithm->collective, shape,
                                       testing::hosts_backwards(shape), options.root, bytes);
          ASSERT_TRUE(plan) << plan.error().message;
          options.plan = *plan;
          const auto report = verify(shape, build_all(*algorithm, shape, options));
          ASSERT_TRUE(report) << to_string(algorithm->collective) << " of " << bytes << " bytes on "
                              << name << ", " << shape.describe() << ": " << report.error().message;
        }
      }
    }
  }
}

/// With tokens at full arrival it can be proved without a clock that links are never asked for more
/// than they have.
TEST(ContentionFreePrograms, NeverShareALinkBeyondItsBandwidth) {
  const char* const fabrics[] = {"single-switch:8", "fat-tree:4,2", "random-tree:12,4", "tree:3x3"};
  for (const char* name : fabrics) {
    const topology::Fabric fabric = topology::parse_fabric_spec(name).value();
    PlanStore plans(fabric, {.tokens_ahead = false});
    const Shape shape = parse_layout("8x1").value();
    std::vector<int> hosts(shape.servers());
    std::iota(hosts.begin(), hosts.end(), 0);
    for (const Collective collective :
         {Collective::kGather, Collective::kScatter, Collective::kAlltoall}) {
      const Algorithm* algorithm = find_algorithm(collective, "contention_free").value();
      for (const int64_t bytes : {1024, 20'000, 100'000}) {
        AlgorithmOptions options;
        options.plan = plans.find(collective, shape, hosts, 0, bytes).value();
        std::vector<OrderedPut> puts;
        ASSERT_TRUE(verify(shape, build_all(*algorithm, shape, options), 0, &puts));
        const LinkSharing sharing = prove_link_sharing(fabric, shape, hosts, puts);
        EXPECT_TRUE(sharing.holds) << to_string(collective) << " of " << bytes << " on " << name
                                   << ": " << sharing.witness;
      }
    }
  }
}

/// Where some pairs may not connect, messages go through other servers.
TEST(ContentionFreePrograms, HoldWhereMessagesAreRelayed) {
  const topology::Fabric fabric = topology::parse_fabric_spec("single-switch:6").value();
  for (const char* layout : {"6x1", "2,1,3,1,2,1"}) {
    const Shape shape = parse_layout(layout).value();
    for (const Algorithm* algorithm : planned()) {
      PlanInputs inputs;
      inputs.fabric = &fabric;
      inputs.block_bytes = 65536;
      for (int s = 0; s < shape.servers(); ++s) inputs.server_ranks.push_back(shape.server_size(s));
      inputs.permitted = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {1, 4}};
      inputs.collective = planned_as(algorithm->collective);
      AlgorithmOptions options;
      options.root = shape.rank_at(2, 0);
      inputs.root = 2;
      for (const bool ahead : {false, true}) {
        inputs.tokens_ahead = ahead;
        const auto plan = plan_transfers(inputs);
        ASSERT_TRUE(plan) << plan.error().message;
        options.plan = std::make_shared<const TransferPlan>(transfer_plan(*plan, fabric, {}));
        const auto report = verify(shape, build_all(*algorithm, shape, options));
        ASSERT_TRUE(report) << to_string(algorithm->collective) << ", " << layout << ": "
                            << report.error().message;
      }
    }
  }
}

TEST(ContentionFreePrograms, APlanIsMadeOnceForASizeClass) {
  PlanStore plans(topology::parse_fabric_spec("single-switch:4").value());
  const Shape shape = parse_layout("4x2").value();
  const auto find = [&](Collective collective, int64_t bytes, Rank root) {
    return plans.find(collective, shape, testing::hosts_backwards(shape), root, bytes).value();
  };
  const auto first = find(Collective::kGather, 5000, 0);
  EXPECT_EQ(find(Collective::kGather, 5120, 1), first);  // of the same server
  EXPECT_NE(find(Collective::kGather, 5121, 0), first);
  EXPECT_NE(find(Collective::kGather, 5000, 2), first);
  EXPECT_EQ(find(Collective::kBarrier, 0, 0), nullptr);
  const auto beyond = plans.find(Collective::kGather, shape, std::vector<int>{0, 1, 2, 9}, 0, 100);
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().message.find('9'), std::string::npos) << beyond.error().message;
}

TEST(ContentionFreePrograms, PlansAreKeptInADirectoryAndDamagedOnesPlannedAnew) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / fmt::format("ibcoll-plans-{}", getpid());
  std::filesystem::create_directory(directory);
  const topology::Fabric fabric = topology::parse_fabric_spec("fat-tree:4,2").value();
  const Shape shape = parse_layout("8x2").value();
  const auto find = [&](PlanStore& plans) {
    return plans.find(Collective::kAlltoall, shape, testing::hosts_backwards(shape), 0, 100'000)
        .value()
        ->hash;
  };
  const auto files = [&] {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      found.push_back(entry.path());
    }
    return found;
  };
  PlanStore first(fabric, {.directory = directory});
  const uint64_t hash = find(first);
  ASSERT_TRUE(first.save());
  ASSERT_EQ(files().size(), 1u);
  const auto written = std::filesystem::last_write_time(files()[0]);
  PlanStore second(fabric, {.directory = directory});
  EXPECT_EQ(find(second), hash);
  ASSERT_TRUE(second.save());  // nothing new
  EXPECT_EQ(std::filesystem::last_write_time(files()[0]), written);

  std::filesystem::resize_file(files()[0], std::filesystem::file_size(files()[0]) / 2);
  PlanStore third(fabric, {.directory = directory});
  EXPECT_EQ(find(third), hash);
  ASSERT_TRUE(third.save());
  EXPECT_EQ(files().size(), 1u);
  PlanInputs inputs;
  inputs.server_ranks.assign(8, 2);
  inputs.fabric = &fabric;
  inputs.hosts = testing::hosts_backwards(shape);
  PlanCache check(inputs);
  EXPECT_TRUE(check.load(files()[0])) << check.load(files()[0]).error().message;

  PlanStore nowhere(fabric, {.directory = directory / "not" / "there"});
  find(nowhere);
  EXPECT_NE(nowhere.save().error().message.find("not/there"), std::string::npos);
  std::filesystem::remove_all(directory);
}

/// What all ranks know of blocks that differ: the plan is for their servers' sums, by size class.
TEST(ContentionFreePrograms, AnAllgathervIsPlannedForItsSizes) {
  const topology::Fabric fabric = topology::parse_fabric_spec("tree:4x2").value();
  PlanStore plans(fabric);
  const Shape shape = parse_layout("3,1,2,2").value();
  const auto find = [&](std::vector<int64_t> counts) {
    return plans.find(Collective::kAllgatherv, shape, testing::hosts_backwards(shape), counts)
        .value();
  };
  const auto first = find({100, 0, 0, 700'000, 9, 9, 0, 0});
  EXPECT_EQ(find({90, 5, 5, 700'001, 10, 7, 0, 1}), first);  // the same classes
  EXPECT_NE(find({100, 0, 0, 7000, 9, 9, 0, 0})->hash, first->hash);
  AlgorithmOptions options;
  options.plan = first;
  const auto* algorithm = find_algorithm(Collective::kAllgatherv, "contention_free").value();
  const auto report = verify(shape, build_all(*algorithm, shape, options));
  EXPECT_TRUE(report) << report.error().message;
  // The long block is under way before all others have gone round.
  EXPECT_LT(first->time_ns, 1.5 * static_cast<double>(first->bound_ns));
}

}  // namespace
}  // namespace ibcoll::contention_free
