// What programs see when something goes wrong in a call, with libibcoll_mpi.so before each MPI.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/mpi/mpi_preload.h"

namespace {

using ::testing::HasSubstr;
using namespace ibcoll::testing_tools;
using Ran = CommandRan;

class MpiErrors : public MpiPreload {};

TEST_P(MpiErrors, HandlersMayLeaveByLongjmp) {
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,1 "}) {
    for (const char* mistake : {"0", "1", "2", "3", "4"}) {
      SCOPED_TRACE(std::string(mistake) + " " + layout);
      const Report report = run_and_report(3, layout, std::string("handlers ") + mistake);
      // Nothing that follows on other communicators is left to the MPI, unless the error is one of
      // the engine's whole job.
      if (std::string(mistake) == "2") continue;
      EXPECT_GE(report.at("allreduce")["engine_calls"], 3 * 4);
    }
  }
}

TEST_P(MpiErrors, ProgramsGoOnBehindErrorsOfLengths) {
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,2 "}) {
    for (const char* error : {"0", "1", "2", "3", "4"}) {
      SCOPED_TRACE(std::string(error) + " " + layout);
      const Report report = run_and_report(4, layout, std::string("goes_on ") + error);
      // An error of the root's alone ends nothing.
      const bool ends = std::string(error) != "1";
      EXPECT_EQ(report.at("allreduce")["reasons"].contains("no group of the engine's"), ends);
    }
  }
}

TEST_P(MpiErrors, ARankThatHasLeftIsNotWaitedFor) {
  for (const char* layout : {"", "IBCOLL_LAYOUT=2,1 "})
    run_and_report(3, layout, "error_at_the_end");
}

TEST_P(MpiErrors, WhatTheMpiRefusesOnOneRankItSays) {
  const Report report = run_and_report(3, "", "aliases");
  const nlohmann::json& allreduce = report.at("allreduce");
  EXPECT_EQ(allreduce["engine_calls"], 3);
  EXPECT_TRUE(allreduce["reasons"].contains("arguments for the MPI to check")) << allreduce;
}

INSTANTIATE_TEST_SUITE_P(Families, MpiErrors, kFamilies, ibcoll::testing::named);

}  // namespace
