#pragma once
/// What the tests of short calls send, and who is late to them.

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace ibcoll::testing {

inline constexpr int kRepeated = 12;  ///< the first ones are carried out as all calls are
inline constexpr int kRoot = 1;

inline int64_t number_at(int rank, int round, size_t place) {
  return 100'000 * (rank + 1) + 1000 * round + static_cast<int64_t>(place);
}

inline std::vector<int64_t> numbers_of(int rank, int round, size_t first, size_t elements) {
  std::vector<int64_t> block;
  for (size_t i = 0; i < elements; ++i) block.push_back(number_at(rank, round, first + i));
  return block;
}

/// Somebody comes late to most calls, so that they stop at every place at which they may.
inline void be_late(int rank, int ranks, int round) {
  if (round % (ranks + 1) == rank) std::this_thread::sleep_for(std::chrono::microseconds(300));
}

}  // namespace ibcoll::testing
