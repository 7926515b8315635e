// The rows of the collectives: names and numbers are those of the interface, and what the one side
// of a call sends is what the other receives.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <regex>

#include "engine/algorithms/registry.h"
#include "engine/schedule/verifier.h"
#include "tests/graphs.h"
#include "tests/places.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

/// Servers of different sizes, whose ranks do not lie side by side.
Shape unequal_layout() { return Shape::create(std::vector<int>{0, 1, 0, 2, 0, 2}).value(); }

/// A block as it is sent, or received: by whom.
struct Seen {
  Rank origin, target;
  Rank receiver;
  friend auto operator<=>(const Seen&, const Seen&) = default;
};

std::shared_ptr<const Graph> graph_of(Collective collective, const Shape& shape) {
  return has_graph(collective) ? graphs_for(shape)[6].graph : nullptr;
}

TEST(CollectiveTraits, NamesParseBack) {
  for (const CollectiveTraits& row : kCollectiveTraits) {
    const Result<Collective> parsed = parse_collective(row.name);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(*parsed, row.collective) << row.name;
  }
  const Result<Collective> unknown = parse_collective("allgatherw");
  ASSERT_FALSE(unknown.has_value());
  for (const CollectiveTraits& row : kCollectiveTraits)
    EXPECT_THAT(unknown.error().message, HasSubstr(row.name));
}

/// The interface's enumeration as its users read it: "IBCOLL_GATHER = 4, /**< ibcoll_gather() */".
TEST(CollectiveTraits, TheInterfaceHasTheSameNumbersAndNames) {
  static const std::regex kLine(R"(^  IBCOLL_(\w+) = (\d+),? +/\*\*< ibcoll_(\w+)\(\) \*/$)");
  std::ifstream header(testing_tools::source_dir() + "/include/ibcoll/requests.h");
  size_t found = 0;
  std::smatch match;
  for (std::string line; std::getline(header, line);) {
    if (!std::regex_match(line, match, kLine)) continue;
    const size_t number = std::stoul(match[2]);
    ASSERT_LT(number, kCollectiveTraits.size()) << line;
    const std::string name(kCollectiveTraits[number].name);
    EXPECT_EQ(match[3].str(), name);
    std::string constant = name;
    std::ranges::transform(constant, constant.begin(), [](char c) { return std::toupper(c); });
    EXPECT_EQ(match[1].str(), constant);
    ++found;
  }
  EXPECT_EQ(found, kCollectiveTraits.size());
}

/// What every rank sends to whom, by the slots of both sides.
TEST(CollectiveTraits, WhatIsSentIsWhatIsReceived) {
  const Shape shape = unequal_layout();
  constexpr Rank kRoot = 2;
  for (const Collective collective : kCollectives) {
    if (reduces(collective)) continue;
    const auto graph = graph_of(collective, shape);
    const bool to_all = traits(collective).send.target == End::kEveryone;
    std::vector<Seen> sent, received;
    for (Rank me = 0; me < shape.ranks(); ++me) {
      for (uint32_t i = 0; i < send_slots(collective, shape, me, kRoot, graph.get()); ++i) {
        const Block block = send_block(collective, me, kRoot, i, graph.get());
        EXPECT_EQ(block.origin, me) << to_string(collective);
        if (!to_all) {
          sent.push_back({me, block.target, block.target % shape.ranks()});
        } else if (graph != nullptr) {
          for (const Rank to : graph->destinations(me)) sent.push_back({me, block.target, to});
        } else {
          // Who has it in the one buffer does not receive it.
          for (Rank to = 0; to < shape.ranks(); ++to)
            if (!has_one_buffer(collective) || to != me) sent.push_back({me, block.target, to});
        }
      }
      for (uint32_t i = 0; i < recv_slots(collective, shape, me, kRoot, graph.get()); ++i) {
        const Block block = recv_block(collective, me, kRoot, i, graph.get());
        received.push_back({block.origin, block.target, me});
      }
    }
    std::sort(sent.begin(), sent.end());
    std::sort(received.begin(), received.end());
    EXPECT_TRUE(sent == received) << to_string(collective) << ": " << sent.size()
                                  << " blocks sent, " << received.size() << " received";
    EXPECT_EQ(moves_data(collective), !sent.empty()) << to_string(collective);
  }
}

/// Whoever receives something combined receives it of somebody, and all send a part for it.
TEST(CollectiveTraits, WhatIsCombinedHasContributors) {
  const Shape shape = unequal_layout();
  constexpr Rank kRoot = 2;
  for (const Collective collective : kCollectives) {
    if (!reduces(collective)) continue;
    for (Rank me = 0; me < shape.ranks(); ++me) {
      const uint32_t slots = recv_slots(collective, shape, me, kRoot);
      const bool is_for = !has_root(collective) || me == kRoot;
      EXPECT_EQ(slots, is_for && contributors(collective, shape, me) > 0 ? 1u : 0u)
          << to_string(collective) << ", rank " << me;
      if (slots == 0) continue;
      const Block wanted = recv_block(collective, me, kRoot, 0);
      EXPECT_EQ(wanted.origin, Block::kCombined);
      for (Rank from = 0; from < contributors(collective, shape, me); ++from) {
        uint32_t parts = 0;
        for (uint32_t i = 0; i < send_slots(collective, shape, from, kRoot); ++i)
          parts += send_block(collective, from, kRoot, i) == wanted ? 1 : 0;
        EXPECT_EQ(parts, 1u) << to_string(collective) << ", from " << from << " to " << me;
      }
    }
  }
}

/// The algorithms name slots themselves; the verifier holds them against the rows.
TEST(CollectiveTraits, EveryCollectiveHasAnAlgorithmThatTheVerifierTakes) {
  const Shape shape = unequal_layout();
  for (const Collective collective : kCollectives) {
    const auto is_of = [&](const Algorithm& algorithm) {
      return algorithm.collective == collective;
    };
    const auto algorithm = std::find_if(algorithms().begin(), algorithms().end(), is_of);
    ASSERT_NE(algorithm, algorithms().end()) << to_string(collective);
    AlgorithmOptions options;
    options.pacing = Pacing::kFree;
    options.root = has_root(collective) ? 2 : 0;
    options.graph = graph_of(collective, shape);
    const auto programs = build_all(*algorithm, shape, options);
    const auto report = verify(shape, programs);
    EXPECT_TRUE(report.has_value())
        << to_string(collective) << " " << algorithm->name << ": " << report.error().message;
  }
}

TEST(CollectiveTraits, OnlyWhatHasARootLooksAtIt) {
  const Shape shape = unequal_layout();
  for (const Collective collective : kCollectives) {
    const auto graph = graph_of(collective, shape);
    bool differs = false;
    for (Rank me = 0; me < shape.ranks(); ++me) {
      const uint32_t sends = send_slots(collective, shape, me, 0, graph.get());
      const uint32_t receives = recv_slots(collective, shape, me, 0, graph.get());
      for (const Rank root : {1, 5}) {
        if (send_slots(collective, shape, me, root, graph.get()) != sends ||
            recv_slots(collective, shape, me, root, graph.get()) != receives) {
          differs = true;
          continue;
        }
        for (uint32_t i = 0; i < sends; ++i)
          differs |= send_block(collective, me, root, i, graph.get()) !=
                     send_block(collective, me, 0, i, graph.get());
        for (uint32_t i = 0; i < receives; ++i)
          differs |= recv_block(collective, me, root, i, graph.get()) !=
                     recv_block(collective, me, 0, i, graph.get());
      }
    }
    EXPECT_EQ(differs, has_root(collective)) << to_string(collective);
  }
}

/// Lists of counts have an entry a slot, and who has a single block says its length alone; and what
/// is known of lengths must not depend on how many of them a rank sees.
TEST(CollectiveTraits, LengthsAreSaidAsTheSlotsAre) {
  for (const CollectiveTraits& row : kCollectiveTraits) {
    for (const SideTraits& side : {row.send, row.recv}) {
      EXPECT_EQ(side.lengths == Lengths::kEqual, !row.unequal) << row.name;
      EXPECT_TRUE(!side.lists() || side.slots > Slots::kOne) << row.name;
      EXPECT_TRUE(side.lengths != Lengths::kOwn || side.slots == Slots::kOne) << row.name;
    }
    EXPECT_EQ(row.unequal, row.equal != row.collective) << row.name;
  }
}

}  // namespace
}  // namespace ibcoll
