#pragma once
/// What the bed is made of: processes, the fibers that stand for their threads, and what is under
/// way. Not for users of bed.h.

#include <array>
#include <boost/context/detail/fcontext.hpp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tests/lockstep/bed/bed.h"
#include "tests/lockstep/bed/shared_word.h"
#include "tests/lockstep/random.h"

namespace ibcoll::lockstep {

using boost::context::detail::fcontext_t;
using boost::context::detail::transfer_t;

/// How far time moves on when all that could run have looked in vain: so far at first, twice as far
/// each time, up to the other.
constexpr int64_t kFirstIdleNs = 500, kLongestIdleNs = 5'000'000;
/// A run in which so much happens will not end any more.
constexpr uint64_t kMostAccesses = 400'000'000;
constexpr int64_t kMostNs = int64_t{600} * 1'000'000'000;
/// After so many, slow ranks run as often as the others. Where turns are long, threads of the
/// others that nap and look again are never all asleep, and may look for what only a slow rank can
/// do: it would hardly get a turn, and the job would seem to hang.
constexpr uint64_t kUnevenAccesses = kMostAccesses / 16;

/// The executable's thread-local variables, which each fiber has of its own.
struct ThreadLocals {
  char* live = nullptr;
  size_t bytes = 0;
  const char* image = nullptr;
  size_t image_bytes = 0;

  static ThreadLocals find();
};

/// A store that others do not see yet.
struct Delayed {
  void* word;
  uint64_t value;
  uint8_t bytes;
  bool released;

  void show() const { std::memcpy(word, &value, bytes); }
};

struct Fiber {
  enum class Is : uint8_t { kReady, kYielded, kWaiting, kEnded };

  fcontext_t context = nullptr;
  void* stack = nullptr;
  int process = 0;
  uint64_t number = 0;
  Is is = Is::kReady;
  bool first = false;  ///< of its process
  bool woken = false;
  uint64_t key = 0;            ///< kWaiting
  int64_t wake_ns = 0;         ///< kWaiting; 0: never by itself
  int64_t since_ns = 0;        ///< kWaiting
  uint64_t yielded_after = 0;  ///< kYielded: g_changes then
  std::function<int()> main;
  void* (*body)(void*) = nullptr;
  void* argument = nullptr;
  void* result = nullptr;
  std::vector<char> locals;
  void* exceptions[2] = {};
  int error_number = 0;
  std::vector<Delayed> delayed;
};

struct Process {
  bool started = false, ended = false, dead = false, slow = false;
  int end_fd = -1;
  uint64_t accesses = 0;
  uint64_t requests = 0;       ///< for shared memory
  uint64_t heap_requests = 0;  ///< for private memory inside of the library
  uint64_t calls = 0;          ///< system calls that may fail
  uint64_t pieces = 0;         ///< of data that have come
  bool let_go = false;
  int64_t stopped_until = 0;
  int64_t clock_ahead = 0;
  int status = 0;
  std::vector<Disturbance> due;            ///< in order
  std::vector<Disturbance> due_by_update;  ///< in order
  std::vector<Disturbance> due_by_room;    ///< in any
  int64_t updates = 0;
  std::array<uint64_t, kRooms> looks{};  ///< for room of each kind
};

struct Mapping {
  size_t bytes;
  uint64_t inode;
  int64_t offset;
};

struct Bed::State {
  explicit State(const Conditions& given) : conditions(given), random(drawn({given.seed, 77})) {}

  const Conditions conditions;
  Random random;
  Counts counts;
  ThreadLocals locals = ThreadLocals::find();
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Process> processes;
  std::multimap<int64_t, std::function<void()>> events;
  std::map<uintptr_t, Mapping> mappings;
  std::map<int, int> ends;  ///< descriptors of ranks' that tell of a process's end
  Fiber* running = nullptr;
  Fiber* loaded = nullptr;  ///< whose thread-locals are in place
  fcontext_t scheduler = nullptr;
  int64_t now = 1'000'000'000;
  int64_t idle_ns = kFirstIdleNs;
  int64_t longest_delay = 0;
  uint64_t changes_at_start = g_changes;
  int64_t slice = 0;
  std::string why_stuck;
  bool memory_failed = false, traces = false, tells_where = false;
  std::vector<Fiber*> ready, idle, waiting;
  Bed* bed = nullptr;

  /// What happens to the rank that runs.
  void tell(std::string_view what) const {
    if (traces) fmt::print(stderr, "{:>12} rank {} {}\n", now, running->process, what);
  }

  // ---- turns, and who has the next one (scheduler.cc)
  void begin_slice(Fiber& fiber);
  /// Whoever gives the core away may have ended it before.
  void end_slice();
  void sort_fibers();
  Fiber* choose();
  /// To the next thing that happens by itself. False: nothing does.
  bool move_time();
  /// Whether the next thing that happens is that somebody has slept in vain for long.
  bool missed_wake(int64_t next) const;
  void run_events();
  void run();

  // ---- fibers (fibers.cc)
  void load(Fiber& fiber);
  void save(Fiber& fiber);
  Fiber& make_fiber(int process);
  static void enter(transfer_t from);
  /// Back to the scheduler, until this fiber is chosen again.
  void leave();
  /// Where the fiber that runs is, as a command that names the functions.
  static void tell_where(const Fiber& self);
  /// Of all fibers of a process that are left; they are not run again.
  void tell_all(int process);
  void resume(Fiber& fiber);
  void end_fiber(Fiber& fiber);
  void end_process(int number, int status);
  void kill(int number);

  // ---- what goes wrong (disturbances.cc)
  /// The disturbance of that kind that happens to the running rank at this one of what it counts.
  const Disturbance* due_now(Disturbance::Kind kind, uint64_t number) const;
  /// To the fiber that runs, `after` accesses from now.
  void happens_soon(Process& process, Disturbance one);
  void look_for_room(Room room);
  /// After an access that the running fiber is about to make.
  void disturb();

  // ---- stores (stores.cc)
  /// Shows others a store that was kept back.
  void show_some(Fiber& fiber);
};

/// The bed of the job that is under way, and the fiber that runs.
extern Bed::State* g_state;
inline Bed::State& state() { return *g_state; }
inline Fiber& self() { return *g_state->running; }
/// What `at` of a disturbance counts is neither accesses nor what the bed counts by them.
bool counts_for_itself(Disturbance::Kind kind);
void free_stack(const Fiber& fiber);

}  // namespace ibcoll::lockstep
