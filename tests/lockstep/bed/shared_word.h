#pragma once
/// What stands in for engine/sharing/shared_access.h where the engine is built for lockstep: each
/// access is a step after which another rank may run, and a store is seen by others when the seed
/// says so, as a processor's store buffer has it.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace ibcoll::lockstep {

/// Accesses until somebody else may run; without a job under way it never gets to 0.
extern int64_t g_accesses_left;
/// Counts what ranks may wait for: stores, wake-ups, data that was written.
extern uint64_t g_changes;
/// Read-modify-writes until something happens to the one who runs.
extern int64_t g_updates_left;
/// Whether stores are kept back at all, and whether the one who runs has some.
extern bool g_delays_stores, g_has_delayed;

void decide();
void reach_update();
inline void step() {
  if (--g_accesses_left <= 0) [[unlikely]]
    decide();
}

void delay_store(void* word, const void* value, size_t bytes, std::memory_order order);
/// What the one who runs has last stored to that word, if others do not see it yet.
bool find_delayed(const void* word, void* value, size_t bytes);
/// Makes all stores of the one who runs visible.
void show_stores();
/// A compare_exchange_weak that fails for no reason.
bool fails_spuriously();

}  // namespace ibcoll::lockstep

namespace ibcoll {

/// As much of std::atomic as the engine uses.
template <class T>
class Shared {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr bool is_always_lock_free = true;

  Shared() = default;
  constexpr Shared(T value) : value_(value) {}  // NOLINT: as std::atomic's
  /// What was stored may not be written once the memory is somebody else's.
  ~Shared() {
    if (lockstep::g_has_delayed) [[unlikely]]
      lockstep::show_stores();
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst) const {
    lockstep::step();
    if (lockstep::g_has_delayed) [[unlikely]] {
      T own;
      if (lockstep::find_delayed(&value_, &own, sizeof own)) return own;
    }
    return now();
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    lockstep::step();
    if (now() != value) ++lockstep::g_changes;
    if (lockstep::g_delays_stores && order != std::memory_order_seq_cst) [[unlikely]] {
      lockstep::delay_store(&value_, &value, sizeof value, order);
    } else {
      if (lockstep::g_has_delayed) lockstep::show_stores();
      set(value);
    }
  }
  T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
    begin_update();
    const T before = now();
    change(value);
    return before;
  }
  bool compare_exchange_strong(T& expected, T value,
                               std::memory_order = std::memory_order_seq_cst) {
    begin_update();
    const T before = now();
    if (before != expected) {
      expected = before;
      return false;
    }
    change(value);
    return true;
  }
  bool compare_exchange_weak(T& expected, T value,
                             std::memory_order order = std::memory_order_seq_cst) {
    if (!lockstep::fails_spuriously()) return compare_exchange_strong(expected, value, order);
    expected = load();
    return false;
  }
  T fetch_add(T value, std::memory_order = std::memory_order_seq_cst) {
    begin_update();
    const T before = now();
    change(static_cast<T>(before + value));
    return before;
  }
  T fetch_sub(T value, std::memory_order = std::memory_order_seq_cst) {
    begin_update();
    const T before = now();
    change(static_cast<T>(before - value));
    return before;
  }
  T fetch_or(T value, std::memory_order = std::memory_order_seq_cst) {
    begin_update();
    const T before = now();
    change(static_cast<T>(before | value));
    return before;
  }
  T fetch_and(T value, std::memory_order = std::memory_order_seq_cst) {
    begin_update();
    const T before = now();
    change(static_cast<T>(before & value));
    return before;
  }
  // NOLINTNEXTLINE: as std::atomic's
  operator T() const { return load(); }

 private:
  /// Reads and writes at once see what all others have stored, and show what this one has.
  static void begin_update() {
    if (--lockstep::g_updates_left == 0) [[unlikely]]
      lockstep::reach_update();
    lockstep::step();
    if (lockstep::g_has_delayed) [[unlikely]]
      lockstep::show_stores();
  }
  void change(T value) {
    if (now() != value) ++lockstep::g_changes;
    set(value);
  }

  // One thread runs them all: volatile so that no access is left out or moved over a step.
  T now() const { return *const_cast<const volatile T*>(&value_); }
  void set(T value) { *const_cast<volatile T*>(&value_) = value; }

  T value_;
};

inline void shared_fence(std::memory_order order) {
  lockstep::step();
  if (order != std::memory_order_acquire && lockstep::g_has_delayed) lockstep::show_stores();
}

}  // namespace ibcoll
