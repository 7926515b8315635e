#pragma once
/// The machine that lockstep puts under the engine: ranks are fibers of one thread, and one seed
/// says who runs, how time passes, and what goes wrong.
///
/// A process is a rank with the fibers that stand for its threads. What the engine asks of the
/// system, system_calls.cc answers from here: the clock, sleeping, locks, threads, process ids,
/// memory of other processes. Time stands still while somebody runs and moves to the next thing
/// that somebody waits for when nobody can.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/sharing/test_hooks.h"

namespace ibcoll::lockstep {

/// What goes wrong in a run, and how it is ordered; a run is all of this and the program.
struct Disturbance {
  enum class Kind : uint8_t {
    kKill,      ///< the rank dies at its access number `at`
    kStop,      ///< it stands still there for `ns`
    kNoMemory,  ///< its `at`-th request for shared memory is refused
    kClock,     ///< its clock is `ns` later all at once
    kNoHeap,    ///< its `at`-th request for private memory inside of the library is refused
    kNoCall,    ///< its `at`-th system call of those that may fail does
    kFlip,      ///< a bit is flipped in its `at`-th piece of data that has come; `ns` says which
  };
  Kind kind = Kind::kStop;
  int rank = 0;
  uint64_t at = 0;
  int64_t ns = 0;
  /// What `at` counts of the rank. If no accesses, it happens `after` of those later.
  enum class By : uint8_t {
    kAccess,
    kUpdate,  ///< read-modify-writes, which claim things
    kRoom,    ///< looks for room of that kind: what goes there is on its way
  };
  By by = By::kAccess;
  uint64_t after = 0;
  Room room = Room::kRing;
};
std::string to_string(const Disturbance& disturbance);

struct Conditions {
  uint64_t seed = 1;
  /// How many accesses a rank makes in a row, on average.
  uint32_t accesses_in_a_row = 8;
  /// How long each turn of a rank takes beside its accesses. Where that is long, others have the
  /// core for long between any two steps of a rank.
  int64_t turn_ns = 10;
  /// Whether that is so.
  bool long_turns() const { return turn_ns > 1000; }
  /// How many times as long as elsewhere things may take.
  int64_t patience() const { return long_turns() ? 20 : 1; }
  /// One of so many hardly runs while others can, until the job has taken long (kUnevenAccesses);
  /// 0: all are alike.
  uint32_t slow_ranks = 0;
  bool delays_stores = false;
  /// One of so many turns shows others a store that was kept back.
  uint32_t store_patience = 3;
  bool weak_order = false;          ///< stores that are not released may pass each other
  bool forbids_process_vm = false;  ///< ranks can't read or write each other's private memory
  bool wakes_early = true;          ///< sleepers wake now and then for no reason
  /// One of so many who wake others is heard later, by each of them at another time; 0: all at
  /// once.
  uint32_t late_wakes = 0;
  /// One of so many looks for room finds none, whatever there is; 0: none does.
  uint32_t refused_rooms = 0;
  /// Bit r: the kernel lets rank r fence for nobody else (membarrier).
  uint64_t no_fences_of = 0;
  int cores = 1;  ///< that the kernel says ranks may run on
  /// Nothing in the run needs time to pass: ranks that all sleep until their time is over have
  /// missed a wake-up.
  bool must_be_woken = false;
  std::vector<Disturbance> disturbances;
};

/// What has happened in a run.
struct Counts {
  uint64_t switches = 0;  ///< from one fiber to another
  uint64_t accesses = 0;  ///< all of them
  uint64_t changes = 0;   ///< those that change something for others
  uint64_t kills = 0, stops = 0, refusals = 0, clock_steps = 0;  ///< that came to pass
  uint64_t heap_refusals = 0, failed_calls = 0, flips = 0;       ///< the same
  uint64_t early_wakes = 0, late_wakes = 0;  ///< sleepers that woke for no reason, or after a while
  uint64_t stores_kept_back = 0, stores_reordered = 0, exchanges_failed = 0, rooms_refused = 0;
  int64_t virtual_ns = 0;
};

class Bed {
 public:
  explicit Bed(const Conditions& conditions, int processes);
  ~Bed();
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;

  /// A process's first thread. Returns nothing; `body` is its main function, which gives its
  /// status.
  void start(int process, std::function<int()> body);
  /// Calls `ended(process, status)` some time after a process has ended, with what waitpid() gives.
  std::function<void(int, int)> ended;
  /// Called between two slices now and then, outside of all fibers.
  std::function<void()> between;
  /// Runs until all fibers have ended, or nothing can happen any more.
  void run();
  /// Why run() came back with fibers left; "" if there are none.
  const std::string& stuck() const;
  const Counts& counts() const;
  /// Bit r: process r was killed.
  uint64_t dead() const;
  bool memory_failed() const;
  bool call_failed() const { return counts().failed_calls != 0; }
  bool flipped() const { return counts().flips != 0; }
  /// The job is over for that process: what others still write to its memory goes nowhere, for in
  /// the bed it may be somebody else's.
  void let_go(int process);
  /// How long the longest stop, pause of the clock or slow rank has kept somebody, so far.
  int64_t longest_delay_ns() const;
  int64_t now_ns() const;
  /// For a rank that does not end by itself; with trace() on it is said where it is.
  void kill(int process);
  /// Of the fiber that runs: it computes for so long.
  void sleep(int64_t ns);
  /// Prints who runs when, and what happens, to standard error.
  void trace(bool on);

  struct State;  ///< state.h

 private:
  std::unique_ptr<State> state_;
};

}  // namespace ibcoll::lockstep
