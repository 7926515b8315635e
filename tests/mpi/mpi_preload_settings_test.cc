// What users set for libibcoll_mpi.so, and what it tells them.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/command.h"
#include "tests/mpi/mpi_preload.h"

namespace {

using ::testing::HasSubstr;
using namespace ibcoll::testing_tools;
using Ran = CommandRan;

class MpiPreloadSettings : public MpiPreload {};

TEST_P(MpiPreloadSettings, OffLeavesAllToTheMpiOnAllRanks) {
  // Where the engine is asked for a report this says what it has done.
  const Report off = run_and_report(2, "IBCOLL_MPI=off ", "communicators");
  EXPECT_TRUE(off.empty()) << off.begin()->second;
  // One rank of two says so.
  const std::string file = report_file();
  const std::string one_off =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 " +
      GetParam().launcher + " -n 1 env " + kPreload + "IBCOLL_MPI_REPORT=" + file + " " +
      program() + " communicators : -n 1 env " + kPreload + "IBCOLL_MPI=off " + program() +
      " communicators 2>&1";
  const Ran ran = run_command(one_off);
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("well done"));
  std::ifstream lines(file);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["engine_calls"], 0) << line;
  std::filesystem::remove(file);
}

TEST_P(MpiPreloadSettings, OnlyTheFunctionsThatAreNamedAreTakenOver) {
  const Report report = run_and_report(2, "IBCOLL_MPI_FUNCTIONS=bcast,allreduce ", "communicators");
  EXPECT_GT(report.at("allreduce")["engine_calls"], 0);
  EXPECT_EQ(report.at("barrier")["engine_calls"], 0);
  EXPECT_GT(report.at("barrier")["reasons"]["not in IBCOLL_MPI_FUNCTIONS"], 0);
}

TEST_P(MpiPreloadSettings, OnlySizesInTheRangeAreTakenOver) {
  // Of 4, 64, 4096 and 16384 bytes, each once on three ranks; bounds are in the range.
  const Report report = run_and_report(
      3, "IBCOLL_MPI_FUNCTIONS=alltoall:64-4K,allreduce:-64,bcast:65-,reduce_scatter_block:4K- ",
      "sizes");
  const std::map<std::string, int> on_the_engine = {{"alltoall", 2},   {"ialltoall", 2},
                                                    {"allreduce", 2},  {"bcast", 2},
                                                    {"iallreduce", 2}, {"reduce_scatter_block", 2}};
  for (const auto& [function, sizes] : on_the_engine) {
    ASSERT_TRUE(report.contains(function)) << function;
    EXPECT_EQ(report.at(function)["engine_calls"], 3 * sizes) << function;
    EXPECT_EQ(report.at(function)["reasons"]["a size for the MPI"], 3 * (4 - sizes)) << function;
  }
}

TEST_P(MpiPreloadSettings, PersistentCallsOfAllSizesAreTheEngines) {
  // MPICH 4.0.2 computes its own wrongly; the program compares what comes of each start.
  for (const char* functions : {"", "allgather:4K-,gather:4K-,scatter:-64"}) {
    const Report report =
        run_and_report(2, fmt::format("IBCOLL_MPI_FUNCTIONS={} ", functions), "persistent_sizes");
    for (const char* function : {"allgather_init", "gather_init", "scatter_init"}) {
      ASSERT_TRUE(report.contains(function)) << function;
      EXPECT_EQ(report.at(function)["engine_calls"], 2 * 4 * 3) << function << functions;
      EXPECT_EQ(report.at(function)["mpi_calls"], 0) << function << functions;
    }
  }
}

TEST_P(MpiPreloadSettings, ASizeThatOneRankLeavesOutAllDo) {
  const std::string file = report_file(), launcher = GetParam().launcher;
  const Ran ran =
      run_command("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 " +
                  launcher + " -n 1 env " + kPreload + "IBCOLL_MPI_REPORT=" + file + " " +
                  program() + " sizes : -n 1 env " + kPreload +
                  "IBCOLL_MPI_FUNCTIONS=alltoall:65-,allreduce " + program() + " sizes 2>&1");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("well done"));
  const Report report = read_report(file, 2);
  EXPECT_EQ(report.at("alltoall")["engine_calls"], 2 * 2);
  EXPECT_EQ(report.at("allreduce")["engine_calls"], 2 * 4);
  EXPECT_EQ(report.at("bcast")["engine_calls"], 0);
}

TEST_P(MpiPreloadSettings, RangesOfSizesAreRefusedWhereNotAllRanksKnowTheSize) {
  const Ran unequal = run(2, "IBCOLL_MPI_FUNCTIONS=alltoallv:0-4K ", "communicators");
  EXPECT_EQ(unequal.status, 0) << unequal.out;
  EXPECT_THAT(unequal.out, HasSubstr("ibcoll: IBCOLL_MPI_FUNCTIONS: alltoallv takes no range of "
                                     "sizes ('alltoallv:0-4K'): "));
  for (const char* bad : {"4K", "-", "4K-1K", "x-4K", ""}) {
    const Ran ran = run(1, std::string("IBCOLL_MPI_FUNCTIONS=alltoall:") + bad + " ", "exit");
    EXPECT_THAT(ran.out, HasSubstr("'" + std::string(bad) + "' is no range of sizes such as 0-4K"));
  }
}

TEST_P(MpiPreloadSettings, TheReportIsATableForPeople) {
  const Ran ran = run(2, "IBCOLL_MPI=report ", "communicators");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out,
              HasSubstr("ibcoll: collectives of 2 ranks on 1 server under " + GetParam().called));
  EXPECT_THAT(ran.out, HasSubstr("\nallreduce"));
}

TEST_P(MpiPreloadSettings, WhatIsNoSettingIsNamedAndTheProgramRuns) {
  const Ran ran = run(2, "IBCOLL_MPI_FUNCTIONS=alltoal ", "communicators");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("'alltoal' is none of the functions that can be taken over: "
                                 "alltoall, alltoallv, "));
}

TEST_P(MpiPreloadSettings, WhatIsNoSettingOfALaterRankIsNamedToo) {
  const std::string bad = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 " +
                          GetParam().launcher + " -n 1 env " + kPreload + program() +
                          " communicators : -n 1 env " + kPreload +
                          "IBCOLL_MPI_FUNCTIONS=alltoal " + program() + " communicators 2>&1";
  const Ran ran = run_command(bad);
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("'alltoal' is none of the functions"));
}
INSTANTIATE_TEST_SUITE_P(Families, MpiPreloadSettings, kFamilies, ibcoll::testing::named);

}  // namespace
