// Calls that libibcoll_mpi.so has measured, and what comes of that: no test goes by who is faster.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/mpi/mpi_preload.h"

namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using namespace ibcoll::testing_tools;
using Ran = CommandRan;

/// Nobody has named functions, as by default.
const std::string kNoneNamed = "IBCOLL_MPI_FUNCTIONS= ";
const char* const kMeasured[] = {"alltoall",
                                 "alltoallv",
                                 "alltoallw",
                                 "allgather",
                                 "allgatherv",
                                 "gather",
                                 "gatherv",
                                 "scatter",
                                 "scatterv",
                                 "bcast",
                                 "barrier",
                                 "allreduce",
                                 "reduce_scatter_block",
                                 "reduce_scatter"};
/// The part "sampled" has sums of floating-point numbers of them, and an operator of its own.
const char* const kNeverMeasured[] = {"reduce", "scan", "exscan"};

uint64_t measured(const Report& report, const std::string& function) {
  return report.at(function)["reasons"].value("measured", uint64_t{0});
}

class MpiPreloadSampling : public MpiPreload {
 protected:
  ~MpiPreloadSampling() override { std::filesystem::remove(learned_); }
  std::vector<nlohmann::json> learned_lines() const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(learned_);
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  std::string version() const {
    return run_and_report(2, "", "communicators").at("allreduce")["version"];
  }

  const std::string learned_ = report_file() + ".learned";
};

/// Of the part "sampled".
void expect_measured(const Report& report, int ranks) {
  for (const char* function : kMeasured) {
    // The first look has eight calls at least, of which the MPI gets half.
    EXPECT_GE(measured(report, function), 4u * static_cast<uint64_t>(ranks)) << function;
    ASSERT_FALSE(report.at(function)["measured"].empty()) << function;
    EXPECT_GT(report.at(function)["measured"][0]["engine_us"], 0) << function;
    EXPECT_GT(report.at(function)["measured"][0]["mpi_us"], 0) << function;
  }
  for (const char* function : kNeverMeasured) {
    EXPECT_EQ(measured(report, function), 0u) << function;
    EXPECT_TRUE(report.at(function)["measured"].empty()) << function;
    // One of the two, from the first call on.
    EXPECT_TRUE(report.at(function)["mpi_calls"] == 0 || report.at(function)["engine_calls"] == 0)
        << report.at(function);
  }
}

TEST_P(MpiPreloadSampling, TheSameCallGivesTheSameBitsEachTime) {
  expect_measured(run_and_report(2, kNoneNamed, "sampled 1000"), 2);
  expect_measured(run_and_report(3, kNoneNamed, "sampled 100"), 3);
}

TEST_P(MpiPreloadSampling, WhatIsExactHasTheSameBitsWhoeverComputesIt) {
  for (const int ranks : {2, 3}) {
    const Ran engine = run(ranks, kAll, "exact"), mpi = run(ranks, "IBCOLL_MPI=off ", "exact");
    EXPECT_THAT(engine.out, ::testing::MatchesRegex("bits [0-9a-f]{16}\nwell done\n"));
    EXPECT_EQ(engine.out, mpi.out);
  }
}

TEST_P(MpiPreloadSampling, MessagesAndOtherFormsGoOnBesideMeasuredCalls) {
  for (const char* part : {"messages", "requests", "waits"}) run_and_report(2, kNoneNamed, part);
}

TEST_P(MpiPreloadSampling, FullSweepsWhereCallsAreMeasured) {
  run_and_report(2, kNoneNamed, "all");
  expect_measured(run_and_report(4, kNoneNamed + "IBCOLL_LAYOUT=2,2 ", "sampled 100"), 4);
}

TEST_P(MpiPreloadSampling, WithoutItAllCallsAreTheEngines) {
  const Report report = run_and_report(2, kNoneNamed + "IBCOLL_MPI_SAMPLING=off ", "sampled 100");
  for (const auto& [function, row] : report) {
    if (function == "iallreduce") continue;  // the first one comes too early
    EXPECT_EQ(row["mpi_calls"], 0) << row;
    EXPECT_TRUE(row["measured"].empty()) << row;
  }
}

TEST_P(MpiPreloadSampling, OneRankTurnsItOffOnAll) {
  const std::string file = report_file();
  const std::string rank = " -n 1 env " + kPreload + kNoneNamed;
  const Ran ran = run_command(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 " +
      GetParam().launcher + rank + "IBCOLL_MPI_REPORT=" + file + " " + program() +
      " sampled 100 :" + rank + "IBCOLL_MPI_SAMPLING=off " + program() + " sampled 100 2>&1");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("well done"));
  EXPECT_EQ(read_report(file, 2).at("bcast")["mpi_calls"], 0);
}

TEST_P(MpiPreloadSampling, NamedFunctionsAreNeverMeasured) {
  for (const char* functions : {"all", "alltoall,allgather"}) {
    const Report report =
        run_and_report(2, fmt::format("IBCOLL_MPI_FUNCTIONS={} ", functions), "sampled 100");
    EXPECT_EQ(report.at("alltoall")["mpi_calls"], 0) << functions;
    EXPECT_EQ(report.at("allgather")["mpi_calls"], 0) << functions;
  }
}

TEST_P(MpiPreloadSampling, ARunDecidesAsTheOneThatItHasLearnedFrom) {
  const std::string settings = kNoneNamed + "IBCOLL_LEARNED=" + learned_ + " ";
  run_and_report(2, settings, "sampled 200");
  const std::vector<nlohmann::json> lines = learned_lines();
  EXPECT_GE(lines.size(), std::size(kMeasured));
  const Report report = run_and_report(2, settings, "sampled 200");
  EXPECT_EQ(learned_lines(), lines) << "the file was written again";
  for (const char* function : kMeasured) {
    SCOPED_TRACE(function);
    EXPECT_EQ(measured(report, function), 0u);
    // As each of these functions is called with one size, all calls are one's.
    std::string choice;
    for (const nlohmann::json& line : lines)
      if (line["function"] == function && line["ranks"] == 2) choice += line["choice"];
    const nlohmann::json& row = report.at(function);
    ASSERT_TRUE(choice == "mpi" || choice == "engine") << choice;
    EXPECT_EQ(row[choice == "mpi" ? "engine_calls" : "mpi_calls"], 0) << row;
  }
}

TEST_P(MpiPreloadSampling, AFileMayBeWrittenByHand) {
  std::ofstream(learned_) << fmt::format(
      R"({{"mpi":"{}","version":"{}","function":"bcast","ranks":2,"to":1023,"choice":"mpi"}})"
      "\n"
      R"({{"mpi":"{}","version":"0.1","function":"allreduce","ranks":2,"choice":"mpi"}})"
      "\n"
      R"({{"mpi":"{}","version":"{}","function":"alltoall","ranks":2,"from":1024,"choice":"mpi"}})"
      "\n",
      GetParam().called, version(), GetParam().called, GetParam().called, version());
  const Report report = run_and_report(
      2, kNoneNamed + "IBCOLL_MPI_SAMPLING=off IBCOLL_LEARNED=" + learned_ + " ", "sizes");
  // Of 4, 64, 4096 and 16384 bytes.
  EXPECT_EQ(report.at("bcast")["mpi_calls"], 2 * 2);
  EXPECT_EQ(report.at("bcast")["reasons"]["a size for the MPI"], 2 * 2);
  EXPECT_EQ(report.at("bcast")["engine_calls"], 2 * 2);
  EXPECT_EQ(report.at("allreduce")["mpi_calls"], 0);
  // Nonblocking ones follow, where they do not come too early.
  EXPECT_EQ(report.at("alltoall")["mpi_calls"], 2 * 2);
  EXPECT_EQ(report.at("ialltoall")["reasons"]["a size for the MPI"], 2 * 2);
  const Ran table =
      run(2, kNoneNamed + "IBCOLL_MPI=report IBCOLL_LEARNED=" + learned_ + " ", "sizes");
  EXPECT_THAT(table.out, HasSubstr("mpi, by IBCOLL_LEARNED"));
}

TEST_P(MpiPreloadSampling, AFileMayNameAlgorithms) {
  const auto line = [&](const char* function, int from, int to, const char* algorithm) {
    return fmt::format(R"({{"mpi":"{}","version":"{}","ranks":2,"function":"{}","from":{},"to":{},)"
                       R"("choice":"engine","algorithm":"{}"}})"
                       "\n",
                       GetParam().called, version(), function, from, to, algorithm);
  };
  std::ofstream(learned_) << line("allreduce", 4096, 8191, "linear")
                          << line("bcast", 64, 127, "nothing");
  const std::string settings =
      kNoneNamed + "IBCOLL_MPI_SAMPLING=off IBCOLL_LEARNED=" + learned_ + " ";
  const Report report = run_and_report(2, settings, "sizes");
  ASSERT_EQ(report.at("allreduce")["measured"].size(), 1u);
  EXPECT_EQ(report.at("allreduce")["measured"][0]["algorithm"], "linear");
  EXPECT_EQ(report.at("allreduce")["mpi_calls"], 0);
  ASSERT_EQ(report.at("bcast")["measured"].size(), 1u);
  EXPECT_EQ(report.at("bcast")["measured"][0]["choice"], "engine");
  EXPECT_FALSE(report.at("bcast")["measured"][0].contains("algorithm"));
  const Ran ran = run(2, settings + "IBCOLL_MPI=report ", "sizes");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("engine, linear (- us), by IBCOLL_LEARNED"));
  const std::string said = "IBCOLL_LEARNED: bcast: 'nothing' is ";
  const size_t at = ran.out.find(said);
  ASSERT_NE(at, std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find(said, at + 1), std::string::npos) << "each rank says so";
}

TEST_P(MpiPreloadSampling, AFileMayLeaveReductionsToTheMpiThatAreNotMeasured) {
  const auto line = [&](const char* function, const char* more) {
    return fmt::format(R"({{"mpi":"{}","version":"{}","ranks":2,"choice":"mpi","function":"{}"{}}})"
                       "\n",
                       GetParam().called, version(), function, more);
  };
  std::ofstream(learned_) << line("reduce", R"(,"exact":false)") << line("scan", "");
  const Report report =
      run_and_report(2, kNoneNamed + "IBCOLL_LEARNED=" + learned_ + " ", "sampled 50");
  EXPECT_EQ(report.at("reduce")["engine_calls"], 0);
  // What is said of those that are exact says nothing of others.
  EXPECT_EQ(report.at("scan")["mpi_calls"], 0);
}

/// ib_info measures without a program, and what it has found is kept by those that come.
TEST_P(MpiPreloadSampling, WhatIbInfoHasMeasuredDecides) {
  const std::string measure = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " +
                              bin_dir() + "/ib_info --mpi --measure " + learned_ +
                              " --ranks 2 --launcher '" + GetParam().launcher + "' --json - ";
  const Ran first = run_command(measure + "--sizes 8-16");
  ASSERT_EQ(first.status, 0) << first.out;
  const std::vector<nlohmann::json> lines = learned_lines();
  std::map<std::string, int> exact, rounded;
  for (const nlohmann::json& line : lines) {
    EXPECT_EQ(line["mpi"], GetParam().called);
    EXPECT_EQ(line["ranks"], 2);
    EXPECT_GT(line["engine_us"], 0) << line;
    EXPECT_GT(line["mpi_us"], 0) << line;
    ++(line.value("exact", true) ? exact : rounded)[line["function"]];
  }
  EXPECT_EQ(exact.size(), 13u);
  for (const auto& [function, sizes] : exact) EXPECT_EQ(sizes, function == "barrier" ? 1 : 2);
  EXPECT_THAT(rounded, ::testing::ElementsAre(Pair("allreduce", 2), Pair("exscan", 2),
                                              Pair("reduce", 2), Pair("reduce_scatter", 2),
                                              Pair("reduce_scatter_block", 2), Pair("scan", 2)));
  // It is added to, and each line is shown.
  const Ran second = run_command(measure + "--sizes 64");
  ASSERT_EQ(second.status, 0) << second.out;
  EXPECT_EQ(learned_lines().size(), lines.size() + 13 + 6);
  EXPECT_EQ(std::count(second.out.begin(), second.out.end(), '\n'), 13 + 6);
  EXPECT_THAT(second.out, HasSubstr("{\"kind\":\"mpi_measured\",\"mpi\":\""));
  const Report report =
      run_and_report(2, kNoneNamed + "IBCOLL_LEARNED=" + learned_ + " ", "sampled 100");
  EXPECT_EQ(measured(report, "barrier"), 0u);
}

TEST_P(MpiPreloadSampling, AFileThatIsNoneLeavesAllToTheMpi) {
  std::ofstream(learned_) << "{\"mpi\":\"MPICH\"}\n";
  const Ran ran = run(2, kNoneNamed + "IBCOLL_LEARNED=" + learned_ + " ", "communicators");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("ibcoll: " + learned_ + ":1: "));
  EXPECT_THAT(ran.out, HasSubstr("all collectives stay with the MPI"));
  EXPECT_THAT(ran.out, HasSubstr("well done"));
}

INSTANTIATE_TEST_SUITE_P(Families, MpiPreloadSampling, kFamilies, ibcoll::testing::named);

}  // namespace
