#pragma once
/// What the parts of the engine take of memory on one rank, for people who size jobs (ib_info
/// --job). Each part reckons its own from the constants and types that it works with.

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ibcoll {

enum class MemoryPart : uint8_t {
  kQueuePairs,  ///< what a connection to another rank takes, with the queues of all
  kMails,       ///< places of short messages
  kReceives,    ///< what arrives from the network unasked
  kTables,      ///< what the engine knows of the job
  kPrograms,
  kCalls,   ///< what calls know of their peers, and what they work in
  kShared,  ///< a rank's share of what its server or machine has in shared memory
};

struct MemoryItem {
  MemoryPart part{};
  std::string_view what;
  /// Of one rank, as far as it is touched; of shared memory its share.
  uint64_t bytes = 0;
  /// On top: taken from the machine beforehand and not touched by the calls in question.
  uint64_t reserved = 0;
  /// Of `bytes`, what each rank of the job adds; 0: it does not grow with the job.
  double each_rank = 0;
  /// Why it does.
  std::string_view why = {};
};

using MemoryItems = std::vector<MemoryItem>;

/// A table with an entry for each rank of the job.
inline MemoryItem table_of_ranks(std::string_view what, uint64_t ranks, uint64_t each,
                                 std::string_view why) {
  return {.part = MemoryPart::kTables,
          .what = what,
          .bytes = ranks * each,
          .each_rank = static_cast<double>(each),
          .why = why};
}

/// What a vector comes to hold that was filled element by element: the next power of two.
constexpr uint64_t grown(uint64_t elements) { return elements == 0 ? 0 : std::bit_ceil(elements); }

/// What malloc takes for so many bytes.
constexpr uint64_t allocated(uint64_t bytes) {
  constexpr uint64_t kHead = sizeof(size_t), kAlign = 2 * sizeof(size_t);
  return (bytes + kHead + kAlign - 1) / kAlign * kAlign;
}

}  // namespace ibcoll
