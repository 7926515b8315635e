#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "studies/mapping/launch_file.h"
#include "studies/mapping/matrix_file.h"
#include "studies/mapping/patterns.h"

namespace ibcoll::topology {
namespace {

using ::testing::HasSubstr;

Result<CommMatrix> read(const std::string& text, const std::string& name = "input") {
  std::istringstream input(text);
  return read_matrix(input, name);
}

double entry(const CommMatrix& matrix, int from, int to) {
  for (const CommMatrix::Edge& edge : matrix.out(from)) {
    if (edge.task == to) return edge.bytes;
  }
  return 0;
}

TEST(MatrixFile, CsvRowsAreSenders) {
  const CommMatrix matrix = read("0,5,0\n1, 0 ,2.5\n0,0,9\n").value();
  EXPECT_EQ(matrix.tasks(), 3);
  EXPECT_EQ(entry(matrix, 0, 1), 5);
  EXPECT_EQ(entry(matrix, 1, 2), 2.5);
  EXPECT_EQ(matrix.pairs(), 3u) << "a task's traffic with itself does not count";
}

TEST(MatrixFile, EdgeListsAddUp) {
  const CommMatrix matrix = read("# tasks 5\n0 1 10\n0 1 5  # again\n\n3 2 1e3\n").value();
  EXPECT_EQ(matrix.tasks(), 5);
  EXPECT_EQ(entry(matrix, 0, 1), 15);
  EXPECT_EQ(entry(matrix, 3, 2), 1000);
}

TEST(MatrixFile, MatrixMarketForms) {
  const char* kBanner = "%%MatrixMarket matrix ";
  const CommMatrix general =
      read(std::string(kBanner) + "coordinate real general\n% by hand\n3 3 2\n1 2 5\n3 1 7\n")
          .value();
  EXPECT_EQ(entry(general, 0, 1), 5);
  EXPECT_EQ(entry(general, 2, 0), 7);
  EXPECT_EQ(entry(general, 0, 2), 0);
  const CommMatrix symmetric =
      read(std::string(kBanner) + "coordinate pattern symmetric\n2 2 1\n2 1\n").value();
  EXPECT_EQ(entry(symmetric, 0, 1), 1);
  EXPECT_EQ(entry(symmetric, 1, 0), 1);
  const CommMatrix array =
      read(std::string(kBanner) + "array integer general\n2 2\n0\n3\n4\n0\n").value();
  EXPECT_EQ(entry(array, 1, 0), 3) << "an array goes down the columns";
  EXPECT_EQ(entry(array, 0, 1), 4);
}

TEST(MatrixFile, MetisGraphsInAllForms) {
  // The same path of three vertices, and one that is alone.
  const std::pair<const char*, double> cases[] = {
      {"% by hand\n4 2\n2\n1 3\n2\n\n", 1},
      {"4 2 1\n2 7\n1 7 3 7\n2 7\n\n", 7},
      {"4 2 011\n9 2 7\n% between\n9 1 7 3 7\n9 2 7\n9\n", 7},
      {"4 2 111 2\n8 9 9 2 7\n8 9 9 1 7 3 7\n8 9 9 2 7\n8 9 9\n", 7},
      {"4 2 10\n9 2\n9 1 3\n9 2\n9\n", 1},
      {"4 2 100\n9 2\n9 1 3\n9 2\n9\n", 1},
  };
  for (const auto& [text, bytes] : cases) {
    const auto matrix = read(text, "path.graph");
    ASSERT_TRUE(matrix) << text << matrix.error().message;
    EXPECT_EQ(matrix->tasks(), 4);
    EXPECT_EQ(matrix->pairs(), 4u);
    EXPECT_EQ(entry(*matrix, 0, 1), bytes) << text;
    EXPECT_EQ(entry(*matrix, 2, 1), bytes) << text;
  }
}

TEST(MatrixFile, BadMetisGraphsNameLineAndValue) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "empty"},
      {"% nothing\n", "no graph"},
      {"4\n", "VERTICES EDGES"},
      {"0 0\n", "vertices must be 1"},
      {"2 1 12\n", "form \"12\""},
      {"2 1 0001\n", "form \"0001\""},
      {"2 1 10 0\n", "weights of a vertex must be 1"},
      {"2 1\n2\n", "1 vertices of 2"},
      {"2 1\n2\n3\n", "bad.graph:3: vertex must be 1 to 2, not 3"},
      {"2 1\n2\n0\n", "vertex must be 1 to 2, not 0"},
      {"2 1 1\n2 5\n1\n", "1 words: 0 of the vertex, 2 an edge"},
      {"2 1 10\n1 2\n\n", "0 words: 1 of the vertex"},
      {"2 1 1\n2 -5\n1 5\n", "-5 bytes"},
      {"3 1\n2\n1 3\n2\n", "4 ends of edges, but the first line says 1 edges"},
  };
  for (const auto& [text, message] : cases) {
    const auto matrix = read(text, "bad.graph");
    ASSERT_FALSE(matrix) << text;
    EXPECT_THAT(matrix.error().message, HasSubstr(message)) << text;
  }
}

TEST(MatrixFile, WhatIsWrittenReadsBack) {
  const CommMatrix matrix = random_sparse(20, 3, 4).value();
  std::ostringstream text;
  write_edge_list(matrix, text);
  const CommMatrix back = read(text.str()).value();
  ASSERT_EQ(back.tasks(), matrix.tasks());
  ASSERT_EQ(back.pairs(), matrix.pairs());
  for (const Flow& flow : matrix.flows()) EXPECT_EQ(entry(back, flow.from, flow.to), flow.bytes);
}

TEST(MatrixFile, BadFilesNameLineAndValue) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "empty"},
      {"0,1\n1,-4\n", "input:2: -4 bytes"},
      {"0,nan\n1,0\n", "nan bytes"},
      {"0,inf\n1,0\n", "inf bytes"},
      {"0,x\n1,0\n", "\"x\" is not a number"},
      {"0,1,2\n1,0\n", "input:2: 2 entries"},
      {"0,1\n", "not square"},
      {"0 1\n", "an edge is FROM TO BYTES"},
      {"# tasks 2\n0 2 5\n", "receiver must be 0 to 1, not 2"},
      {"0 -1 5\n", "receiver"},
      {"0 1 -5\n", "-5 bytes"},
      {"# nothing\n", "no edge"},
      {"%%MatrixMarket matrix coordinate complex general\n1 1 0\n", "no matrix of bytes"},
      {"%%MatrixMarket matrix coordinate real general\n2 3 0\n", "not square"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 5\n", "1 entries of 2"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3 5\n", "column must be 1 to 2"},
  };
  for (const auto& [text, message] : cases) {
    const auto matrix = read(text);
    ASSERT_FALSE(matrix) << text;
    EXPECT_THAT(matrix.error().message, HasSubstr(message)) << text;
  }
  EXPECT_THAT(read_matrix_file("/nonexistent/matrix").error().message, HasSubstr("/nonexistent"));
}

TEST(CommMatrix, BadEntriesAreRefused) {
  for (const double bytes : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto matrix = CommMatrix::from_flows(3, {{0, 1, bytes}});
    ASSERT_FALSE(matrix);
    EXPECT_THAT(matrix.error().message, HasSubstr("entry (0, 1)"));
  }
  EXPECT_FALSE(CommMatrix::from_flows(3, {{0, 3, 1}}));
  EXPECT_FALSE(CommMatrix::from_flows(0, {}));
}

TEST(Patterns, EachTaskOfBruckSendsAllItHas) {
  const CommMatrix matrix = bruck_allgather(11, 100).value();
  for (int task = 0; task < 11; ++task) {
    double sent = 0;
    for (const CommMatrix::Edge& edge : matrix.out(task)) sent += edge.bytes;
    EXPECT_EQ(sent, 1000) << "ten blocks in all";
  }
}

TEST(Patterns, AllAreFoundByName) {
  const std::pair<const char*, int> cases[] = {
      {"bruck:12", 12},    {"stencil:3x4", 12},    {"periodic:3x4x2:1K", 24},
      {"fft:4x3", 12},     {"cg:16", 16},          {"cg:32:A", 32},
      {"sp:9:S", 9},       {"butterfly:8", 8},     {"cliques:10:4", 10},
      {"random:20:3", 20}, {"geometric:50:6", 50}, {"powerlaw:30:2", 30},
  };
  for (const auto& [text, tasks] : cases) {
    const auto matrix = parse_pattern(text, 1);
    ASSERT_TRUE(matrix) << text << ": " << matrix.error().message;
    EXPECT_EQ(matrix->tasks(), tasks) << text;
    EXPECT_GT(matrix->total_bytes(), 0) << text;
  }
}

TEST(Patterns, BadOnesAreRefusedWithTheReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"bruk:12", "unknown pattern \"bruk\""},
      {"bruck", "how many tasks"},
      {"bruck:0", "1 to"},
      {"bruck:12:2K:3", "at most 2"},
      {"cg:12", "not a power of two"},
      {"cg:16:Z", "class 'Z'"},
      {"sp:10", "not a square"},
      {"sp:484:S", "at least 3"},
      {"stencil:3x0", "side"},
      {"fft:4x4x4", "must be 2"},
      {"random:5:5", "0 to 4"},
      {"cliques:4:9", "1 to 4"},
  };
  for (const auto& [text, message] : cases) {
    const auto matrix = parse_pattern(text, 1);
    ASSERT_FALSE(matrix) << text;
    EXPECT_THAT(matrix.error().message, HasSubstr(message)) << text;
  }
}

TEST(LaunchFile, FormsThatLaunchersRead) {
  const std::vector<std::string> hosts = {"n0", "n1", "n2"};
  const Placement placement = {2, 0, 2};
  EXPECT_EQ(launch_file(LaunchFormat::kRankfile, placement, hosts),
            "rank 0=n2 slot=0\nrank 1=n0 slot=0\nrank 2=n2 slot=1\n");
  EXPECT_EQ(launch_file(LaunchFormat::kSlurm, placement, hosts), "n2\nn0\nn2\n");
  const auto json = nlohmann::json::parse(launch_file(LaunchFormat::kJson, placement, hosts));
  EXPECT_EQ(json["nodes"].get<Placement>(), placement);
  EXPECT_EQ(json["hosts"][1], "n0");
}

}  // namespace
}  // namespace ibcoll::topology
