// The record of libibcoll_mpi.so, preloaded into real MPI programs of each family.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "studies/mapping/matrix_file.h"
#include "tests/command.h"
#include "tests/mpi_families.h"
#include "tests/named.h"
#include "tests/places.h"

namespace ibcoll::topology {
namespace {

using ::testing::HasSubstr;

/// Bytes from a rank to another.
using Traffic = std::map<std::pair<int, int>, double>;
constexpr int kRanks = 4;

void replace(std::string& text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  ASSERT_NE(at, std::string::npos) << what << " in " << text;
  text.replace(at, what.size(), by);
}

/// The line that mapping.md has for a launcher: "mpirun ..." for mpirun.openmpi.
std::string documented(const std::string& launcher) {
  const std::string beginning = launcher.substr(0, launcher.find('.')) + " ";
  std::ifstream in(testing_tools::source_dir() + "/docs/results/mapping.md");
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with(beginning) && line.find("IBCOLL_MPI_RECORD") != std::string::npos) break;
    line.clear();
  }
  return line;
}

/// What tests/mpi/programs/traffic.c sends, in doubles. `starts`: of each collective; `scatters`:
/// of the scatter; `large`: what its large counts add.
Traffic expected_traffic(int starts, int scatters, int large) {
  Traffic doubles;
  for (int from = 0; from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) {
      if (from == to) continue;
      double& sum = doubles[{from, to}];
      sum += 2 + 1 + 6 + 1 + (from + 1) + (to + 1) + 2 * (to + 1);  // alltoall.., allgather..
      sum += 9 + (to + 1) + 10;                                     // allreduce, reduce_scatter..
      if (from == 1) sum += 5;                                      // bcast
      if (to == 2) sum += 3;                                        // gather
      if (to == 3) sum += from + 1;                                 // gatherv
      if (from == 2) sum += to + 1;                                 // scatterv
      if (to == 1) sum += 7;                                        // reduce
      if (to == from + 1) sum += 11 + 12;                           // scan, exscan
      sum *= starts;
      if (from == 0) sum += 4 * scatters;
      if (to == from + 1) sum += 100;  // the chain
    }
  }
  doubles[{3, 0}] += 3;                              // the persistent send
  doubles[{0, 1}] += (1 << 14) - 1 + 3 * (1 << 13);  // all kinds of messages, one started again
  doubles[{0, 2}] += large;
  for (auto& [pair, sum] : doubles) sum *= sizeof(double);
  return doubles;
}

class RecordMatrix : public ::testing::TestWithParam<testing_tools::MpiFamily> {
 protected:
  void SetUp() override {
    if (!testing_tools::can_launch(GetParam().launcher, program("mpi_traffic")))
      GTEST_SKIP() << GetParam().name << " is not installed, or this is a sanitizer's build";
  }
  void TearDown() override { std::filesystem::remove(file_); }

  static std::string program(const std::string& name) {
    return testing_tools::bin_dir() + "/" + name + "_" + GetParam().name;
  }
  bool is_mpich() const { return GetParam().name == "mpich"; }
  /// Runs a program by the documented line; `settings`: NAME=VALUE, with a blank behind each.
  testing_tools::CommandRan run(const std::string& program, const std::string& file,
                                const std::string& settings = "") const {
    std::string command = documented(GetParam().launcher);
    command.replace(0, command.find(' '), GetParam().launcher);
    replace(command, " -n 64 ", " -n 4 ");
    replace(command, "/usr/local/lib/", testing_tools::bin_dir() + "/");
    replace(command, "halo.edges", file);
    replace(command, "./program", "env " + settings + program);
    return testing_tools::run_command(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 " + command +
        " 2>&1");
  }
  void expect_record(const std::string& program, const Traffic& expected,
                     const std::string& settings = "") const {
    const testing_tools::CommandRan ran = run(program, file_, settings);
    ASSERT_EQ(ran.status, 0) << ran.out;
    const auto matrix = read_matrix_file(file_);
    ASSERT_TRUE(matrix) << matrix.error().message;
    EXPECT_EQ(matrix->tasks(), kRanks);
    Traffic recorded;
    for (const Flow& flow : matrix->flows()) recorded[{flow.from, flow.to}] = flow.bytes;
    EXPECT_EQ(recorded, expected) << program << " with " << settings;
  }

  const std::string file_ = ::testing::TempDir() + "record_" + std::to_string(getpid()) + ".edges";
};

TEST_P(RecordMatrix, CountsMessagesAndCollectivesWhoeverCarriesThem) {
  const int large = is_mpich() ? 31 : 0;
  for (const char* mode : {"IBCOLL_MPI=on ", "IBCOLL_MPI=off "}) {
    expect_record(program("mpi_traffic") + " blocking", expected_traffic(1, 1, large), mode);
    expect_record(program("mpi_traffic") + " nonblocking", expected_traffic(1, 1, large), mode);
    expect_record(program("mpi_traffic") + " persistent",
                  expected_traffic(2, is_mpich() ? 1 : 2, large), mode);
  }
}

TEST_P(RecordMatrix, CountsCallsFromFortranOnce) {
  Traffic expected;
  for (int from = 0; from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) {
      if (from == to) continue;
      double& bytes = expected[{from, to}];
      bytes = 8 * 3;                             // alltoall
      if (to == 1) bytes += 8 * 5;               // reduce, nonblocking
      if (to == from + 1) bytes += 8 * (7 + 9);  // a message, and one that is not waited for
    }
  }
  expected[{3, 0}] += 8 * (7 + 9);
  expected[{0, 3}] += 2 * 8 * 11;  // a persistent one, twice
  int found = 0;
  for (const char* interface : {"0", "1", "2"}) {
    const std::string fortran = program(std::string("mpi_fortran_traffic") + interface);
    if (!std::filesystem::exists(fortran)) continue;
    ++found;
    expect_record(fortran, expected);
  }
  if (found == 0) GTEST_SKIP() << "no Fortran programs were built";
}

TEST_P(RecordMatrix, AFileThatCannotBeWrittenIsNamedOnceAndTheProgramRuns) {
  const testing_tools::CommandRan ran = run(program("mpi_traffic"), "/nosuch/x.edges");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("ibcoll: IBCOLL_MPI_RECORD: can't write /nosuch/x.edges: No such "
                                 "file or directory"));
  EXPECT_EQ(ran.out.find("/nosuch"), ran.out.rfind("/nosuch")) << ran.out;
  const testing_tools::CommandRan full = run(program("mpi_traffic"), "/dev/full");
  EXPECT_EQ(full.status, 0) << full.out;
  EXPECT_THAT(full.out, HasSubstr("/dev/full"));
  EXPECT_EQ(full.out.find("/dev/full"), full.out.rfind("/dev/full")) << full.out;
}

INSTANTIATE_TEST_SUITE_P(Families, RecordMatrix, ::testing::ValuesIn(testing_tools::debian_mpis()),
                         testing::named);

}  // namespace
}  // namespace ibcoll::topology
