#pragma once
/// Refuses use of a context by two threads at once and use in a forked child.

#include <atomic>
#include <cstdint>

namespace ibcoll {

class EntryGuard {
 public:
  EntryGuard();

  /// Held for the length of an API call.
  class Entry {
   public:
    explicit Entry(EntryGuard& guard);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    /// Null if the call may go on.
    const char* refused() const { return refused_; }

   private:
    EntryGuard& guard_;
    const char* refused_ = nullptr;
  };

 private:
  std::atomic<bool> inside_{false};
  uint32_t forks_;  ///< of this process when the guard was made
};

}  // namespace ibcoll
