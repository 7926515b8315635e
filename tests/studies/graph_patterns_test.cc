/// Graphs as options name them.

#include "studies/measure/graph_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "tests/sweep.h"

namespace ibcoll::measure {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::shape_of;

std::string refused(std::string_view pattern, const Shape& shape) {
  const auto graph = parse_graph(pattern, shape);
  return graph ? "taken" : graph.error().message;
}

TEST(GraphPatterns, AreThoseOfTheirNames) {
  EXPECT_EQ(parse_graph("grid:4x4x4", shape_of({64})).value()->destinations(5).size(), 26u);
  EXPECT_EQ(parse_graph("ring:2", shape_of({8})).value()->totals().edges, 32u);
  EXPECT_THAT(parse_graph("ring:1", shape_of({5})).value()->destinations(0), ElementsAre(1, 4));
  EXPECT_EQ(parse_graph("random:3:1", shape_of({8})).value()->totals().edges, 24u);
  EXPECT_EQ(parse_graph("grid:2x1", shape_of({2})).value()->totals().edges, 16u);
}

TEST(GraphPatterns, SayWhatIsWrong) {
  const Shape shape = shape_of({8});
  EXPECT_THAT(refused("grid:2x3", shape), HasSubstr("must multiply to the 8 ranks"));
  EXPECT_THAT(refused("ring:-1", shape), HasSubstr("ring:K"));
  EXPECT_THAT(refused("ring:", shape), HasSubstr("ring:K"));
  EXPECT_THAT(refused("random:2", shape), HasSubstr("random:K:SEED"));
  EXPECT_THAT(refused("no such file", shape), HasSubstr("no such file"));
  const std::string path = ::testing::TempDir() + "/ibcoll_graph_" + std::to_string(getpid());
  std::ofstream(path) << "# two edges\n0 1\n\n1 7\n";
  EXPECT_EQ(parse_graph(path, shape).value()->totals().edges, 2u);
  std::ofstream(path) << "0 1\n3\n";
  EXPECT_EQ(refused(path, shape), path + ": line 2: a line is 'source destination'");
  std::ofstream(path) << "0 1\n3 8\n";
  EXPECT_THAT(refused(path, shape), HasSubstr(path + ": line 2: "));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace ibcoll::measure
