#pragma once
/// Programs of each MPI with libibcoll_mpi.so preloaded, of which they know nothing: they end with
/// "well done" where all that they got was right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/command.h"
#include "tests/mpi_families.h"
#include "tests/named.h"
#include "tests/places.h"

namespace ibcoll::testing_tools {

inline const std::string kPreload = "LD_PRELOAD=" + testing_tools::bin_dir() + "/libibcoll_mpi.so ";
/// Nothing is left to the MPI because that is faster.
inline const std::string kAll = "IBCOLL_MPI_FUNCTIONS=all ";

/// A report's lines by function.
using Report = std::map<std::string, nlohmann::json>;

class MpiPreload : public ::testing::TestWithParam<MpiFamily> {
 protected:
  void SetUp() override {
    if (!can_launch(GetParam().launcher, program()))
      GTEST_SKIP() << GetParam().name << " is not installed, or this is a sanitizer's build";
  }
  static std::string program() {
    return testing_tools::bin_dir() + "/mpi_sweep_" + GetParam().name;
  }
  static std::string report_file() {
    return ::testing::TempDir() + "mpi_preload_" + GetParam().name + std::to_string(getpid());
  }
  /// `settings`: NAME=VALUE of the ranks, each with a blank behind it.
  static std::string command(int ranks, const std::string& settings, const std::string& part,
                             const std::string& program) {
    return alone(ranks, "env " + kPreload + kAll + settings + program + " " + part);
  }
  static std::string alone(int ranks, const std::string& program) {
    return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 " +
           GetParam().launcher + " -n " + std::to_string(ranks) + " " + program;
  }
  /// Whether the MPI by itself does what a part of the program asks for: some check no arguments,
  /// or are built without files.
  static bool works_alone(int ranks, const std::string& part) {
    const CommandRan ran = run_command(alone(ranks, program() + " " + part) + " 2>&1");
    return ran.status == 0 && ran.out.find("well done") != std::string::npos;
  }
  static CommandRan run(int ranks, const std::string& settings, const std::string& part,
                        const std::string& program = MpiPreload::program()) {
    return run_command(command(ranks, settings, part, program) + " 2>&1");
  }
  static Report read_report(const std::string& file, int ranks) {
    Report report;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line);
      EXPECT_EQ(row["mpi"], GetParam().called);
      EXPECT_EQ(row["ranks"], ranks);
      report[row["function"]] = row;
    }
    std::filesystem::remove(file);
    return report;
  }
  static Report run_and_report(int ranks, const std::string& settings, const std::string& part,
                               const std::string& program = MpiPreload::program()) {
    const std::string file = report_file();
    const CommandRan ran = run(ranks, settings + "IBCOLL_MPI_REPORT=" + file + " ", part, program);
    EXPECT_EQ(ran.status, 0) << ran.out;
    EXPECT_THAT(ran.out, ::testing::HasSubstr("well done"));
    return read_report(file, ranks);
  }
};

inline const auto kFamilies = ::testing::ValuesIn(all_mpis());

}  // namespace ibcoll::testing_tools
