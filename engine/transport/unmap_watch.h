#pragma once
/// Notices when memory of this process is unmapped (munmap, brk, mremap, madvise and what calls
/// them), through UCX's memory hooks where the project was built with them and their library is
/// there.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ibcoll {

/// A range of addresses, [begin, end).
struct AddressRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

class UnmapWatch {
 public:
  /// Null where unmapping can't be noticed: registrations must not outlive their use then. Loads
  /// the hooks into this process, for good.
  static std::unique_ptr<UnmapWatch> create();
  /// Why create() gives null; empty: it does not. Loads the hooks, too.
  static std::string missing();
  ~UnmapWatch();
  UnmapWatch(const UnmapWatch&) = delete;
  UnmapWatch& operator=(const UnmapWatch&) = delete;

  /// True if something was unmapped since the last take(): one load.
  bool any() const { return any_.load(std::memory_order_acquire); }
  /// Moves what was unmapped to `ranges` (cleared first). False: too much to remember, any memory
  /// may have gone.
  bool take(std::vector<AddressRange>& ranges);

 private:
  friend struct UnmapHook;
  UnmapWatch() = default;
  void note(AddressRange range);

  /// Called inside munmap: no allocation, and nothing held long.
  static constexpr size_t kRemembered = 256;
  std::atomic<bool> any_{false};
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::array<AddressRange, kRemembered> ranges_;
  size_t count_ = 0;
  bool overflow_ = false;
};

}  // namespace ibcoll
