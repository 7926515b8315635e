#pragma once
/// What has happened in runs: numbers that are added up over runs, processes and days.

#include <array>
#include <cstdint>
#include <string>

#include "engine/base/json.h"
#include "engine/base/result.h"
#include "engine/sharing/test_hooks.h"
#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

/// What goes wrong in runs, as far as it came to pass.
enum class Fault : uint8_t {
  kDeath,
  kStop,
  kLate,      ///< a rank computes while others have made their calls
  kCancel,    ///< a call or group is cancelled
  kDeadline,  ///< a call passes its own deadline
  kClock,     ///< a clock jumps
  kMemory,    ///< shared memory is refused
  kHeap,      ///< private memory is refused inside of the library
  kCall,      ///< a system call fails
  kFlip,      ///< a bit of data that have come is flipped
  kOutage,    ///< connections between machines break, or carry nothing
  // Smaller ones, of which a run has many.
  kRoom,       ///< there is no room, whatever there is
  kLateWake,   ///< a wake-up comes late
  kEarlyWake,  ///< a sleeper wakes for no reason
  kReordered,  ///< a store is seen before an earlier one
  kExchange,   ///< a weak compare_exchange fails for no reason
};
inline constexpr int kFaults = static_cast<int>(Fault::kExchange) + 1;
/// Those before are what is meant by the number of faults.
inline constexpr int kLargeFaults = static_cast<int>(Fault::kRoom);
const char* to_string(Fault fault);

/// Plain words, which a process can leave in shared memory.
struct Tally {
  static constexpr int kStatuses = 12;
  /// Operations of each kind, by how they ended.
  std::array<std::array<uint64_t, kStatuses>, kOperations> ended{};
  std::array<uint64_t, kWays> ways{};
  std::array<uint64_t, kFaults> faults{};
  uint64_t calls = 0;  ///< operations that ended well, and were checked
  uint64_t runs = 0, failures = 0, jobs_over = 0;
  uint64_t steps = 0;     ///< accesses that changed something for others
  uint64_t accesses = 0;  ///< all
  uint64_t switches = 0;
  uint64_t virtual_ns = 0, cpu_ns = 0;

  void add(const Tally& other);
  uint64_t& fault(Fault kind) { return faults[static_cast<size_t>(kind)]; }
  uint64_t large_faults() const;
  /// Operations that ended with that status.
  uint64_t with_status(int status) const;
  uint64_t of_kind(Operation kind) const;
};

nlohmann::ordered_json to_json(const Tally& tally);
/// What to_json() has made; what is not in it counts as 0.
Tally tally_of(const nlohmann::ordered_json& json);
/// For people.
std::string to_table(const Tally& tally);

}  // namespace ibcoll::lockstep
