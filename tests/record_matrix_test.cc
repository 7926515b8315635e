// The recorder of communication matrices, preloaded into a real MPI program of each family.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "topology/mapping/matrix_file.h"

namespace ibcoll::topology {
namespace {

struct Family {
  const char* name;
  const char* launcher;
};

void replace(std::string& text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  ASSERT_NE(at, std::string::npos) << what << " in " << text;
  text.replace(at, what.size(), by);
}

/// The line of docs/results/mapping.md for a family.
std::string documented(const std::string& library) {
  std::ifstream in(IBCOLL_SOURCE_DIR "/docs/results/mapping.md");
  for (std::string line; std::getline(in, line);)
    if (line.find(library) != std::string::npos) return line;
  return "";
}

class RecordMatrix : public ::testing::TestWithParam<Family> {};

TEST_P(RecordMatrix, CountsPointToPointAndCollectives) {
  const std::string bin = IBCOLL_BIN_DIR, family = GetParam().name;
  const std::string launcher = GetParam().launcher;
  const std::string found = "command -v " + launcher.substr(0, launcher.find(' ')) + " >/dev/null";
  if (std::system(found.c_str()) != 0 || !std::filesystem::exists(bin + "/mpi_traffic_" + family))
    GTEST_SKIP() << family << " is not installed";
  const auto file =
      std::filesystem::temp_directory_path() / ("record_" + std::to_string(getpid()) + ".edges");
  std::string command = documented("/libibcoll_record_" + family + ".so");
  command.replace(0, command.find(' '), launcher);
  replace(command, " -n 64 ", " -n 4 ");
  replace(command, "/usr/local/lib/", bin + "/");
  replace(command, "halo.edges", file.string());
  replace(command, "./program", bin + "/mpi_traffic_" + family);
  command = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 " + command;
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const auto matrix = read_matrix_file(file);
  std::filesystem::remove(file);
  ASSERT_TRUE(matrix) << matrix.error().message;
  ASSERT_EQ(matrix->tasks(), 4);
  std::map<std::pair<int, int>, double> recorded;
  for (const Flow& flow : matrix->flows()) recorded[{flow.from, flow.to}] = flow.bytes;
  std::map<std::pair<int, int>, double> expected;
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      if (from != to) expected[{from, to}] += 16;               // alltoall
      if (to == from + 1) expected[{from, to}] += 800;          // the chain
      if (from == 1 && to != 1) expected[{from, to}] += 40;     // bcast
      if (from == 3 && to == 0) expected[{from, to}] += 3 * 8;  // the persistent send
    }
  }
  EXPECT_EQ(recorded, expected);
}

INSTANTIATE_TEST_SUITE_P(Families, RecordMatrix,
                         ::testing::Values(Family{"openmpi", "mpirun.openmpi --oversubscribe"},
                                           Family{"mpich", "mpiexec.mpich"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ibcoll::topology
