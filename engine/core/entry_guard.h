#pragma once
/// Lets threads into a context: one at a time, or several that take turns. Refuses use in a forked
/// child.

#include <atomic>
#include <cstdint>

namespace ibcoll {

class SharedWaits;

class EntryGuard {
 public:
  EntryGuard();

  /// From now on those inside take turns, as `waits` gives them (null: they need not), and one
  /// thread is let in at a time, or `several`. With nobody inside.
  void share(SharedWaits* waits, bool several) {
    waits_ = waits;
    several_ = several;
  }
  bool lets_several_in() const { return several_; }

  /// Held for the length of an API call.
  class Entry {
   public:
    explicit Entry(EntryGuard& guard);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    /// Null if the call may go on.
    const char* refused() const { return refused_; }
    /// Whether other threads are inside, too, or wait to be.
    bool has_company() const { return guard_.inside_.load(std::memory_order_relaxed) > 1; }

   private:
    EntryGuard& guard_;
    const char* refused_ = nullptr;
  };

 private:
  std::atomic<uint32_t> inside_{0};
  uint32_t forks_;  ///< of this process when the guard was made
  SharedWaits* waits_ = nullptr;
  bool several_ = false;
};

/// Held, on the thread that runs it, while a handler of the program's runs inside of progress:
/// calls on that context which it makes are refused, for they would wait for the one it runs in.
class InsideHandler {
 public:
  explicit InsideHandler(const EntryGuard& guard);
  ~InsideHandler();
  InsideHandler(const InsideHandler&) = delete;
  InsideHandler& operator=(const InsideHandler&) = delete;

  /// Whether one of that context's runs on this thread.
  static bool is_of(const EntryGuard& guard);

 private:
  const EntryGuard& guard_;
  const InsideHandler* outer_;  ///< of another context, in which this one has been called
};

}  // namespace ibcoll
