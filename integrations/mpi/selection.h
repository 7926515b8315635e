#pragma once
/// Which calls the engine carries out: by function, and by size where all ranks know that alike.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/mpi/takeover_report.h"

namespace ibcoll::mpi {

struct SizeRange {
  uint64_t low = 0, high = UINT64_MAX;
  bool has(uint64_t bytes) const { return low <= bytes && bytes <= high; }
};

/// What is left to an MPI that is faster.
struct Faster {
  std::string_view family;  ///< as Library has it
  Function function;
  int least_ranks, most_ranks;  ///< of the communicator
  SizeRange sizes;
};

struct Selection {
  uint64_t functions = 0;                            ///< that may be taken over: a bit each
  std::array<SizeRange, kFunctions> sizes = {};      ///< in which they are
  uint64_t has_range = 0;                            ///< functions with a size that is left out
  std::array<std::vector<Faster>, kFunctions> left;  ///< sizes that are, too

  bool has(Function function) const { return has_bit(functions, function); }
  /// Whether size decides.
  bool looks_at_size(Function function) const { return has_bit(has_range, function); }
  /// `bytes`: of a block, or of the vector, as all ranks know it.
  bool takes(Function function, uint64_t bytes, int ranks) const {
    return !looks_at_size(function) || takes_size(function, bytes, ranks);
  }

 private:
  bool takes_size(Function function, uint64_t bytes, int ranks) const;
  static bool has_bit(uint64_t bits, Function function) {
    return (bits >> static_cast<int>(function) & 1) != 0;
  }
};

/// From a list like "alltoall:0-4K,allreduce"; everything for an empty one.
Result<Selection> selection_of(const std::string& list);
/// Of a job on one server: reductions that are known to be faster in the MPI underneath, and must
/// not change hands in a job, stay there.
void leave_what_is_faster(Selection& selection, std::string_view family);
/// To be called where ranges have changed.
void look_at_sizes(Selection& selection);

}  // namespace ibcoll::mpi
