// libibcoll_mpi.so in programs of each MPI that know nothing of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "engine/schedule/collective.h"
#include "tests/command.h"
#include "tests/mpi/mpi_preload.h"
#include "tests/places.h"

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace ibcoll::testing_tools;
using Ran = CommandRan;

/// The sweep compares every result itself.
void expect_all_taken_over(const Report& report) {
  for (const ibcoll::Collective collective : ibcoll::kCollectives) {
    const std::string name = to_string(collective);
    for (const std::string& function : {name, "i" + name, name + "_init"}) {
      ASSERT_TRUE(report.contains(function)) << function;
      const nlohmann::json& row = report.at(function);
      EXPECT_GT(row["engine_calls"], 0) << row;
      for (const auto& [reason, calls] : row["reasons"].items()) {
        const bool expected = reason == "a communicator of one rank" ||
                              reason == "an intercommunicator" ||
                              reason == "several edges between two neighbours";
        EXPECT_TRUE(expected) << row;
      }
    }
  }
}

TEST_P(MpiPreload, AllCollectivesGiveWhatTheStandardSays) {
  expect_all_taken_over(run_and_report(3, "", "all"));
}

TEST_P(MpiPreload, ProgramsThatHaveSessionsAloneAreServed) {
  const std::string sessions = bin_dir() + "/mpi_sessions_" + GetParam().name;
  if (!std::filesystem::exists(sessions)) GTEST_SKIP() << GetParam().name << " has no sessions";
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,2 "}) {
    const Report report = run_and_report(4, layout, "", sessions);
    for (const char* function : {"allreduce", "bcast", "iallgather"}) {
      EXPECT_EQ(report.at(function)["engine_calls"], 4 * 20) << function;
      EXPECT_EQ(report.at(function)["mpi_calls"], 0) << function;
    }
  }
}

TEST_P(MpiPreload, FullSweepsOfOtherSizesAndLayouts) {
  for (const int ranks : {2, 4, 5}) expect_all_taken_over(run_and_report(ranks, "", "all"));
  expect_all_taken_over(run_and_report(4, "IBCOLL_LAYOUT=2,2 ", "all"));
  expect_all_taken_over(run_and_report(5, "IBCOLL_LAYOUT=3,1,1 ", "all"));
}

TEST_P(MpiPreload, OneRankStaysWithTheMpi) {
  const Report report = run_and_report(1, "", "all");
  EXPECT_EQ(report.at("allreduce")["engine_calls"], 0);
  EXPECT_GT(report.at("allreduce")["reasons"]["a communicator of one rank"], 0);
}

TEST_P(MpiPreload, MessagesMoveOnWhileRanksWaitInCollectives) {
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,1 "}) {
    const Report report = run_and_report(3, layout, "messages");
    EXPECT_GT(report.at("barrier")["engine_calls"], 0);
    EXPECT_EQ(report.at("barrier")["mpi_calls"], 0);
  }
}

TEST_P(MpiPreload, CallsUnderWayAreCompletedByAllFunctions) {
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,1 "}) {
    const Report report = run_and_report(3, layout, "requests");
    // Ten times, on three communicators.
    EXPECT_EQ(report.at("iallreduce")["engine_calls"], 3 * (10 * 30 + 1));
    EXPECT_EQ(report.at("iallreduce")["mpi_calls"], 0);
    EXPECT_EQ(report.at("allreduce_init")["engine_calls"], 3 * (3 * 4 * 5 + 4));
    EXPECT_EQ(report.at("allreduce_init")["mpi_calls"], 0);
  }
  // Of requests that the program has not freed the engine says nothing.
  EXPECT_THAT(run(3, "", "requests").out, Not(HasSubstr("ibcoll: ")));
}

TEST_P(MpiPreload, CallsGoOnWhileRanksWaitInOtherFunctions) {
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,1 "}) {
    const Report report = run_and_report(3, layout, "waits");
    EXPECT_EQ(report.at("ialltoall")["mpi_calls"], 0);
  }
}

TEST_P(MpiPreload, CollectivesOfFilesGoOnBesideOthers) {
  if (!works_alone(3, "files")) GTEST_SKIP() << "this MPI has no files";
  run_and_report(3, "", "files");
  run_and_report(2, "IBCOLL_LAYOUT=1,1 ", "files");
}

TEST_P(MpiPreload, TheReportCountsBytesThatWereMoved) {
  EXPECT_EQ(run_and_report(2, "", "bytes").at("allgather")["engine_bytes"], 2 * 1000);
}

TEST_P(MpiPreload, ThousandsOfCallsUnderWayLeaveNothing) {
  const Report report = run_and_report(2, "", "many");
  EXPECT_EQ(report.at("iallreduce")["engine_calls"], 2 * 12 * 3000);
  EXPECT_EQ(report.at("allreduce_init")["engine_calls"], 2 * 12 * 20);
}

TEST_P(MpiPreload, CallsUnderWayThatFailSayWhereTheyAreCompleted) {
  const Ran ran = run(3, "", "requests_ended");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("ibcoll: ranks disagree"));
}

TEST_P(MpiPreload, WhatOneRankCanNotDoIsAnErrorOnAll) {
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,1 "}) {
    const Ran ran = run(3, layout, "one_rank_fails");
    EXPECT_EQ(ran.status, 0) << ran.out;
    EXPECT_THAT(ran.out, HasSubstr("well done"));
    EXPECT_THAT(ran.out, HasSubstr("rank 2 of the communicator sends"));
    EXPECT_THAT(ran.out, HasSubstr("send and receive buffer overlap"));
  }
}

TEST_P(MpiPreload, TheLastCallMayFailWhileTrafficIsRecorded) {
  const std::string record = report_file() + ".edges";
  const Ran ran = run(3, "IBCOLL_LAYOUT=1,1,1 IBCOLL_MPI_RECORD=" + record + " ", "fails_last");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("well done"));
  EXPECT_TRUE(std::filesystem::remove(record));
}

TEST_P(MpiPreload, OperatorsMayBeFreedInErrorHandlers) {
  const Ran ran = run(3, "", "freed_in_handlers");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("well done"));
}

TEST_P(MpiPreload, TheMpisErrorsComeWhileCallsAreUnderWay) {
  if (!works_alone(3, "errors_meanwhile")) GTEST_SKIP() << "this MPI has other errors";
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,1 "})
    EXPECT_GT(run_and_report(3, layout, "errors_meanwhile").at("iallreduce")["engine_calls"], 0);
}

TEST_P(MpiPreload, EachErrorIsGivenOnceBesideTheMpis) {
  const Ran ran = run(3, "", "errors_together");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("ibcoll: ranks disagree"));
  EXPECT_THAT(ran.out, HasSubstr("well done"));
}

TEST_P(MpiPreload, ErrorsOfFreedCommunicatorsComeToTheirHandlers) {
  const Ran ran = run(3, "", "freed_before_errors");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("well done"));
}

TEST_P(MpiPreload, ErrorsAreTheMpis) {
  if (!works_alone(2, "errors")) GTEST_SKIP() << "this MPI does not check all of that";
  const Ran ran = run(2, "", "errors");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("well done"));
}

TEST_P(MpiPreload, CommunicatorsThatAreFreedLeaveNothing) {
  const Report report = run_and_report(2, "", "communicators");
  EXPECT_EQ(report.at("allreduce")["engine_calls"], 2 * 600);
  EXPECT_EQ(report.at("allreduce")["mpi_calls"], 0);
}

TEST_P(MpiPreload, OperatorsThatAreFreedLeaveNothing) {
  EXPECT_EQ(run_and_report(2, "", "operators").at("allreduce")["engine_calls"], 2 * 1000);
}

TEST_P(MpiPreload, TopologiesThatAreFreedLeaveNothing) {
  EXPECT_EQ(run_and_report(2, "", "topologies").at("neighbor_alltoall")["engine_calls"], 2 * 1000);
}

TEST_P(MpiPreload, StridesAndNeighboursOfOtherLayouts) {
  for (const int ranks : {2, 5}) run_and_report(ranks, "", "strides");
  const Report report = run_and_report(4, "IBCOLL_LAYOUT=2,2 ", "strides");
  for (const char* function : {"alltoallw", "ialltoallw", "ineighbor_allgather",
                               "neighbor_alltoallv_init", "neighbor_alltoallw_init"}) {
    ASSERT_TRUE(report.contains(function)) << function;
    EXPECT_GT(report.at(function)["engine_calls"], 0) << function;
    EXPECT_EQ(report.at(function)["mpi_calls"], 0) << function;
  }
}

TEST_P(MpiPreload, OperatorsThatDoNotCommuteCombineInTheOrderOfRanks) {
  for (const int ranks : {3, 6}) run_and_report(ranks, "", "ordered 0");
}

TEST_P(MpiPreload, AllReductionsCombineInTheOrderOfRanksWhereAskedFor) {
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,3 "}) {
    const Report report =
        run_and_report(5, std::string("IBCOLL_MPI_ORDERED=1 ") + layout, "ordered 1");
    EXPECT_EQ(report.at("allreduce")["mpi_calls"], 0);
  }
}

TEST_P(MpiPreload, CommunicatorsThatTheEngineCanServeNoMoreGoToTheMpi) {
  const Ran ran = run(2, "", "ended");
  EXPECT_THAT(ran.out, HasSubstr("ibcoll: ranks disagree"));
  EXPECT_THAT(ran.out, Not(HasSubstr("ibcoll: ibcoll:")));
  const Report report = run_and_report(2, "", "ended");
  EXPECT_EQ(report.at("allreduce")["engine_calls"], 2);
  EXPECT_EQ(report.at("allreduce")["reasons"]["no group of the engine's"], 2 * 4);
}

TEST_P(MpiPreload, AnOwnBlockOfTwoLengthsIsReportedWhereItIs) {
  const char* const kNames[] = {"alltoall", "alltoallv", "allgather", "allgatherv",
                                "gather",   "gatherv",   "scatter",   "scatterv"};
  for (int i = 0; i < 8; ++i) {
    const Ran ran = run(2, "", "lengths " + std::to_string(i));
    EXPECT_EQ(ran.status, 7) << kNames[i] << ": " << ran.out;
    EXPECT_THAT(ran.out, HasSubstr("ibcoll: " + std::string(kNames[i]) +
                                   ": rank 1 of the communicator sends "));
  }
}

TEST_P(MpiPreload, AnElementMayBeLong) {
  // What the MPI can't pack takes 7 GB: "mpi_sweep_openmpi long 2100" tries that.
  EXPECT_EQ(run_and_report(2, "", "long 64").at("bcast")["engine_calls"], 2);
}

TEST_P(MpiPreload, DatatypesThatAreFreedLeaveNothing) {
  EXPECT_EQ(run_and_report(2, "", "datatypes").at("bcast")["engine_calls"], 2 * 3000);
}

TEST_P(MpiPreload, MemoryOfMpiAllocMemIsTheEngines) {
  const Report report = run_and_report(3, "IBCOLL_HEAP=64M ", "allocated 1");
  EXPECT_EQ(report.at("allreduce")["mpi_calls"], 0);
  const Ran off = run(2, "IBCOLL_MPI=off ", "allocated 0");
  EXPECT_EQ(off.status, 0) << off.out;
  EXPECT_THAT(off.out, HasSubstr("well done"));
}

TEST_P(MpiPreload, ForkedChildrenHaveTheirOwnMemoryOfMpiAllocMem) {
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,1 "}) run_and_report(3, layout, "forked");
}

TEST_P(MpiPreload, TheFirstCallOnACommunicatorMayBeNonblocking) {
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,2 "}) {
    const Report report = run_and_report(4, layout, "first");
    for (const char* function : {"iallreduce", "ibcast", "ineighbor_allgather"}) {
      SCOPED_TRACE(function);
      EXPECT_GT(report.at(function)["engine_calls"], 0);
      EXPECT_FALSE(report.at(function)["reasons"].contains("no blocking call before it"));
    }
  }
}

TEST_P(MpiPreload, BuffersThatComeAgainAreCollapsedWhereThatIsWanted) {
  EXPECT_EQ(run_and_report(2, "", "collapse 1").at("alltoall")["mpi_calls"], 0);
  EXPECT_EQ(run_and_report(2, "IBCOLL_MPI_COLLAPSE=0 ", "collapse 0").at("alltoall")["mpi_calls"],
            0);
}

TEST_P(MpiPreload, CallsAreServedWhenMainHasComeBack) {
  const Report report = run_and_report(3, "", "exit");
  EXPECT_EQ(report.at("alltoallv")["engine_calls"], 3 * 2 * 20);
  EXPECT_EQ(report.at("reduce_scatter")["engine_calls"], 3 * 2 * 20);
}

TEST_P(MpiPreload, SeveralThreadsCallAtATime) {
  const Report report = run_and_report(2, "", "threads");
  EXPECT_EQ(report.at("allreduce")["engine_calls"], 2 * 3 * 500);
  EXPECT_EQ(report.at("bcast")["engine_calls"], 2 * 3 * (500 + 200));
  EXPECT_EQ(report.at("iallreduce")["engine_calls"], 2 * 3 * 500);
  EXPECT_EQ(report.at("allreduce_init")["engine_calls"], 2 * 3 * 500);
}

TEST_P(MpiPreload, FortranIsServedByAllItsInterfaces) {
  int found = 0;
  for (const char* interface : {"0", "1", "2"}) {
    const std::string fortran = bin_dir() + "/mpi_fortran" + interface + "_" + GetParam().name;
    if (!std::filesystem::exists(fortran)) continue;
    ++found;
    const Report report = run_and_report(3, "", "", fortran);
    for (const char* function :
         {"alltoall", "alltoallw", "neighbor_alltoall", "reduce", "scan", "barrier"})
      EXPECT_EQ(report.at(function)["engine_calls"], 3)
          << function << " by interface " << interface;
    // By an operator of Fortran's, and of logicals, too.
    EXPECT_EQ(report.at("allreduce")["engine_calls"], 3 * 3);
    EXPECT_EQ(report.at("ialltoall")["engine_calls"], 3);
    EXPECT_EQ(report.at("allreduce_init")["engine_calls"], 3 * 4);
    EXPECT_EQ(report.at("bcast")["engine_calls"], 2 * 3);
  }
  if (found == 0) GTEST_SKIP() << "no Fortran programs were built";
}

class MpiPreloadDeaths : public MpiPreload {
 protected:
  void kill_one_of(const std::string& part);
};

/// A rank is killed while all make collectives.
void MpiPreloadDeaths::kill_one_of(const std::string& part) {
  const std::string mark = part + std::to_string(getpid());
  std::thread killer([&] {
    for (int tries = 0; tries < 400; ++tries) {
      const auto ranks = processes_with(mark, program());
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (ranks.size() != 3) continue;
      std::this_thread::sleep_for(std::chrono::seconds(1));
      kill(ranks[1], SIGKILL);
      return;
    }
  });
  const Ran ran = run(3, "", part + " " + mark);
  killer.join();
  EXPECT_NE(ran.status, 0);
  EXPECT_NE(ran.status, 124) << "it was ended by its time limit";
  for (int tries = 0; tries < 100; ++tries) {
    if (processes_with(mark, program()).empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(processes_with(mark, program()).empty());
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().string().find("ibcoll"), std::string::npos) << entry.path();
}

TEST_P(MpiPreloadDeaths, AKilledRankEndsTheJobAndLeavesNothing) { kill_one_of("endless"); }

TEST_P(MpiPreloadDeaths, SoItDoesWithCallsUnderWay) { kill_one_of("endless_requests"); }

INSTANTIATE_TEST_SUITE_P(Families, MpiPreload, kFamilies, ibcoll::testing::named);
INSTANTIATE_TEST_SUITE_P(Families, MpiPreloadDeaths, kFamilies, ibcoll::testing::named);

}  // namespace
