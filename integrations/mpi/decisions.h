#pragma once
/// What was decided of who carries out which calls, and by which algorithm: as reports tell it, and
/// as a file holds it from one run to the next.

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "integrations/mpi/contest.h"
#include "integrations/mpi/takeover_report.h"

namespace ibcoll::mpi {

/// Of the calls of a function, of one class of sizes, on communicators of so many ranks on so many
/// servers. Travels between ranks as its bytes.
struct Decision {
  int32_t ranks = 0, servers = 0;
  Function function = Function::kBarrier;
  uint8_t size_class = 0;
  Candidate kept = Candidate::kEngine;  ///< kFirstOther: the engine, by `algorithm`
  uint8_t is_of_file = 0;
  uint8_t is_exact = 1;  ///< 0: of reductions whose bits depend on who computes them
  std::array<char, 32> algorithm = {};
  /// Nanoseconds of the slowest rank, by the three that may be kept; 0: it was not measured.
  std::array<uint32_t, 3> found = {};
  uint64_t calls = 0;  ///< of a rank, on the communicators that it was decided for
};

/// One of each kind, in the order of functions, ranks, servers and sizes: where communicators
/// differ, the one of those that have made most calls.
std::vector<Decision> merged(std::vector<Decision> decisions);

/// Which MPI they are of.
struct MpiName {
  std::string family, version;
};

/// Of a file's lines those of this MPI, of several about the same calls the last one. The error
/// names the line that is none.
Result<std::vector<Decision>> read_decisions(const std::string& path, const MpiName& mpi);
/// As a whole: nobody reads a part of it meanwhile.
Status write_decisions(const std::string& path, const MpiName& mpi,
                       const std::vector<Decision>& decisions);

/// For people: a table; empty where there are none.
std::string decisions_text(const std::vector<Decision>& decisions);
/// For programs: what a line of the file says, but for the MPI and the function.
nlohmann::ordered_json decision_json(const Decision& decision);

}  // namespace ibcoll::mpi
