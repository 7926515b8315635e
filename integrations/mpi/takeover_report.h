#pragma once
/// What was taken over, what was not and why: counted where the user asks for a report, and told at
/// the end.

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/collective_traits.h"
#include "ibcoll/ibcoll.h"

namespace ibcoll::mpi {

/// What this library stands in for: all collectives.
using Function = Collective;
inline constexpr int kFunctions = static_cast<int>(kCollectives.size());
inline const char* name_of(int function) { return to_string(kCollectives[function]); }

/// How it was called. IBCOLL_MPI_FUNCTIONS names all forms at once.
enum class Form : uint8_t {
  kBlocking,     ///< "alltoall"
  kNonblocking,  ///< "ialltoall"
  kPersistent,   ///< "alltoall_init": on the engine those that were started, else those prepared
};
inline constexpr int kForms = 3;

/// Why a call went to the MPI.
enum class Reason : uint8_t {
  kNotChosen,      ///< IBCOLL_MPI_FUNCTIONS
  kSize,           ///< the same, or the MPI was found to be faster with it
  kOneRank,        ///< a communicator of one rank
  kBetweenGroups,  ///< an intercommunicator
  kOtherWorld,     ///< processes that are not of MPI_COMM_WORLD
  kNoEngine,       ///< it could not start
  kTooEarly,       ///< nonblocking, and no blocking one on its communicator before
  kNoGroup,        ///< it could not make one of the communicator's ranks
  kCopies,         ///< of several edges between two neighbours the MPI says which is which
  kOperator,       ///< a reduction by an operator or of a type that the engine does not take over
  kArguments,      ///< what the MPI may have something to say about
  kMeasured,       ///< to find out who is faster
};
inline constexpr int kReasons = 12;
const char* to_string(Reason reason);

/// Of one rank, or the sum of all.
struct FunctionCounts {
  uint64_t calls = 0, bytes = 0, nanoseconds = 0;  ///< on the engine
  uint64_t mpi_calls = 0, mpi_nanoseconds = 0;
  std::array<uint64_t, kReasons> reasons = {};
};
using Counts = std::array<FunctionCounts, kForms * kFunctions>;

/// Counts of this rank, by any of its threads.
class Counters {
 public:
  void engine_call(Function function, Form form, uint64_t bytes, int64_t nanoseconds);
  void mpi_call(Function function, Form form, Reason reason, int64_t nanoseconds);
  Counts read() const;

 private:
  struct Cells {
    std::atomic<uint64_t> calls{0}, bytes{0}, nanoseconds{0}, mpi_calls{0}, mpi_nanoseconds{0};
    std::array<std::atomic<uint64_t>, kReasons> reasons = {};
  };
  Cells& cells_of(Function function, Form form) {
    return cells_[static_cast<size_t>(form) * kFunctions + static_cast<size_t>(function)];
  }
  std::array<Cells, kForms * kFunctions> cells_;
};

struct Decision;

/// What a report begins with.
struct ReportHead {
  std::string mpi, version;  ///< the MPI's family, and its own version
  std::string transport;     ///< between servers; why there is no engine, if there is none
  int ranks = 0, servers = 0;
  std::vector<ibcoll_learned_way> learned;  ///< by rank 0 of its messages
};
/// For people: a table, times as those of the mean rank; one of what was decided of who carries
/// calls out; and one of what rank 0 has learned of its messages.
std::string report_text(const ReportHead& head, const Counts& sums,
                        const std::vector<Decision>& decisions);
/// For programs: one line a function that was called, into `path`.
Status write_report(const std::string& path, const ReportHead& head, const Counts& sums,
                    const std::vector<Decision>& decisions);

}  // namespace ibcoll::mpi
