#include "tests/lockstep/bed/bed.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <link.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/context/detail/fcontext.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "tests/lockstep/bed/machine.h"
#include "tests/lockstep/bed/network.h"
#include "tests/lockstep/bed/shared_word.h"
#include "tests/lockstep/random.h"

namespace ibcoll::lockstep {

int64_t g_accesses_left = INT64_MAX;
int64_t g_updates_left = INT64_MAX;
uint64_t g_changes = 0;
bool g_delays_stores = false, g_has_delayed = false;

namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr size_t kStackBytes = 512 << 10;
constexpr int64_t kAccessNs = 2, kClockNs = 20;
/// How far time moves on when all that could run have looked in vain: so far at first, twice as far
/// each time, up to the other.
constexpr int64_t kFirstIdleNs = 500, kLongestIdleNs = 5'000'000;
/// A run in which so much happens will not end any more.
constexpr uint64_t kMostAccesses = 400'000'000;
constexpr int64_t kMostNs = int64_t{600} * 1'000'000'000;
/// Whoever started the ranks learns of an end so much later.
constexpr uint64_t kLatestWordNs = 3'000'000;
/// A wake-up that is late is so much later.
constexpr uint64_t kLatestWakeNs = 200'000;
/// No sleep on a word of shared memory needs to be as long.
constexpr int64_t kLongSleepNs = 40'000'000;
constexpr size_t kMostDelayed = 12;

/// The executable's thread-local variables, which each fiber has of its own.
struct ThreadLocals {
  char* live = nullptr;
  size_t bytes = 0;
  const char* image = nullptr;
  size_t image_bytes = 0;

  static ThreadLocals find() {
    ThreadLocals found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* data) {
          auto& result = *static_cast<ThreadLocals*>(data);
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const ElfW(Phdr)& header = info->dlpi_phdr[i];
            if (header.p_type != PT_TLS) continue;
            result.live = static_cast<char*>(info->dlpi_tls_data);
            result.bytes = header.p_memsz;
            result.image = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
            result.image_bytes = header.p_filesz;
          }
          return 1;  // the first one is the executable
        },
        &found);
    return found;
  }
};

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

void** exceptions_of_thread() { return reinterpret_cast<void**>(abi::__cxa_get_globals()); }

}  // namespace

std::string to_string(const Disturbance& one) {
  static constexpr const char* kRoomNames[kRooms] = {"ring", "mail queue", "put", "mail", "signal"};
  std::string moment = std::to_string(one.at);
  if (one.by == Disturbance::By::kUpdate) moment = "update " + moment;
  if (one.by == Disturbance::By::kRoom)
    moment = fmt::format("{} {}", kRoomNames[static_cast<size_t>(one.room)], moment);
  if (one.by != Disturbance::By::kAccess) moment += fmt::format(" and {}", one.after);
  switch (one.kind) {
    case Disturbance::Kind::kKill:
      return fmt::format("kill:{}@{}", one.rank, moment);
    case Disturbance::Kind::kStop:
      return fmt::format("stop:{}@{}+{}", one.rank, moment, one.ns);
    case Disturbance::Kind::kNoMemory:
      return fmt::format("memory:{}@{}", one.rank, one.at);
    case Disturbance::Kind::kNoHeap:
      return fmt::format("heap:{}@{}", one.rank, one.at);
    case Disturbance::Kind::kNoCall:
      return fmt::format("call:{}@{}", one.rank, one.at);
    case Disturbance::Kind::kFlip:
      return fmt::format("flip:{}@{}+{}", one.rank, one.at, one.ns);
    default:
      return fmt::format("clock:{}@{}+{}", one.rank, one.at, one.ns);
  }
}

/// What `at` counts is neither accesses nor what the bed counts by them.
bool counts_for_itself(Disturbance::Kind kind) {
  return kind == Disturbance::Kind::kNoMemory || kind >= Disturbance::Kind::kNoHeap;
}

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

  // ---- accounting

  void begin_slice(Fiber& fiber) {
    Process& process = processes[static_cast<size_t>(fiber.process)];
    slice = 1 + static_cast<int64_t>(random.below(2 * conditions.accesses_in_a_row));
    if (!process.due.empty() && process.due.front().at > process.accesses)
      slice = std::min(slice, static_cast<int64_t>(process.due.front().at - process.accesses));
    g_accesses_left = slice;
    g_updates_left = process.due_by_update.empty()
                         ? INT64_MAX
                         : static_cast<int64_t>(process.due_by_update.front().at) - process.updates;
  }
  /// Whoever gives the core away may have ended it before.
  void end_slice() {
    if (slice == 0) return;
    Process& process = processes[static_cast<size_t>(running->process)];
    if (!process.due_by_update.empty())
      process.updates = static_cast<int64_t>(process.due_by_update.front().at) - g_updates_left;
    g_updates_left = INT64_MAX;
    const int64_t used = slice - std::max<int64_t>(g_accesses_left, 0);
    process.accesses += static_cast<uint64_t>(used);
    counts.accesses += static_cast<uint64_t>(used);
    now += used * kAccessNs + conditions.turn_ns;
    slice = g_accesses_left = 0;
  }

  // ---- fibers

  void load(Fiber& fiber) {
    if (loaded == &fiber) return;
    if (loaded != nullptr) save(*loaded);
    std::memcpy(locals.live, fiber.locals.data(), locals.bytes);
    std::memcpy(exceptions_of_thread(), fiber.exceptions, sizeof fiber.exceptions);
    loaded = &fiber;
  }
  void save(Fiber& fiber) {
    std::memcpy(fiber.locals.data(), locals.live, locals.bytes);
    std::memcpy(fiber.exceptions, exceptions_of_thread(), sizeof fiber.exceptions);
  }

  Fiber& make_fiber(int process) {
    auto fiber = std::make_unique<Fiber>();
    fiber->process = process;
    fiber->number = fibers.size() + 1;
    fiber->locals.assign(locals.bytes, 0);
    std::copy_n(locals.image, locals.image_bytes, fiber->locals.begin());
    fiber->stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (fiber->stack == MAP_FAILED) std::abort();
    mprotect(fiber->stack, 4096, PROT_NONE);
    fiber->context =
        make_fcontext(static_cast<char*>(fiber->stack) + kStackBytes, kStackBytes, enter);
    fibers.push_back(std::move(fiber));
    return *fibers.back();
  }

  static void enter(transfer_t from) {
    State& self = *static_cast<State*>(from.data);
    self.scheduler = from.fctx;
    Fiber& fiber = *self.running;
    if (fiber.first) {
      const int status = fiber.main();
      self.processes[static_cast<size_t>(fiber.process)].status = status;
    } else {
      fiber.result = fiber.body(fiber.argument);
    }
    show_stores();
    fiber.is = Fiber::Is::kEnded;
    ++g_changes;
    self.leave();
    std::abort();
  }

  /// Back to the scheduler, until this fiber is chosen again.
  void leave() {
    Fiber& self = *running;
    end_slice();
    self.error_number = errno;
    transfer_t from = jump_fcontext(scheduler, this);
    if (tells_where) [[unlikely]] {
      tell_where(self);
      from = jump_fcontext(from.fctx, this);  // for good
    }
    scheduler = from.fctx;
    errno = self.error_number;
  }

  /// Where the fiber that runs is, as a command that names the functions.
  static void tell_where(const Fiber& self) {
    void* frames[24];
    const int count = backtrace(frames, 24);
    fmt::print(stderr, "rank {} is in: addr2line -Cfpse build/bin/lockstep", self.process);
    for (int i = 0; i < count; ++i) {
      Dl_info info{};
      if (dladdr(frames[i], &info) != 0)
        fmt::print(stderr, " {:#x}",
                   static_cast<char*>(frames[i]) - static_cast<char*>(info.dli_fbase) - 1);
    }
    fmt::print(stderr, "\n");
  }

  /// Of all fibers of a process that are left; they are not run again.
  void tell_all(int process) {
    tells_where = true;
    for (const auto& fiber : fibers) {
      if (fiber->process == process && fiber->is != Fiber::Is::kEnded) resume(*fiber);
    }
    tells_where = false;
  }

  void resume(Fiber& fiber) {
    if (&fiber != running) ++counts.switches;
    load(fiber);
    running = &fiber;
    fiber.is = Fiber::Is::kReady;
    g_has_delayed = !fiber.delayed.empty();
    g_delays_stores = conditions.delays_stores;
    begin_slice(fiber);
    const transfer_t from = jump_fcontext(fiber.context, this);
    fiber.context = from.fctx;
    if (fiber.is == Fiber::Is::kEnded) end_fiber(fiber);
    g_accesses_left = INT64_MAX;
    g_has_delayed = g_delays_stores = false;
  }

  void end_fiber(Fiber& fiber) {
    if (!fiber.first) return;
    Process& process = processes[static_cast<size_t>(fiber.process)];
    if (process.dead) return;
    end_process(fiber.process, process.status << 8);
  }

  void end_process(int number, int status) {
    Process& process = processes[static_cast<size_t>(number)];
    process.ended = true;
    process.status = status;
    network::process_ended(number);
    for (auto& fiber : fibers) {
      if (fiber->process != number) continue;
      for (const Delayed& store : fiber->delayed) store.show();
      fiber->delayed.clear();
      fiber->is = Fiber::Is::kEnded;
    }
    ++g_changes;
    eventfd_write(process.end_fd, 1);
    events.emplace(now + 1000 + static_cast<int64_t>(random.below(kLatestWordNs)),
                   [this, number, status] { bed->ended(number, status); });
  }

  void kill(int number) {
    Process& process = processes[static_cast<size_t>(number)];
    if (process.ended || process.dead) return;
    process.dead = true;
    ++counts.kills;
    if (traces) fmt::print(stderr, "{:>12} rank {} dies\n", now, number);
    end_process(number, SIGKILL);
  }

  // ---- what goes wrong

  /// The disturbance of that kind that happens to the running rank at this one of what it counts.
  const Disturbance* due_now(Disturbance::Kind kind, uint64_t number) const {
    for (const Disturbance& one : conditions.disturbances) {
      if (one.kind == kind && one.rank == running->process && one.at == number) return &one;
    }
    return nullptr;
  }

  /// To the fiber that runs, `after` accesses from now.
  void happens_soon(Process& process, Disturbance one) {
    const auto used = static_cast<uint64_t>(slice - g_accesses_left);
    one.at = process.accesses + used + 1 + one.after;
    const auto later = std::find_if(process.due.begin(), process.due.end(),
                                    [&](const Disturbance& other) { return other.at > one.at; });
    process.due.insert(later, one);
    const auto left = static_cast<int64_t>(1 + one.after);
    slice -= std::max<int64_t>(g_accesses_left - left, 0);
    g_accesses_left = std::min(g_accesses_left, left);
  }

  void look_for_room(Room room) {
    Process& process = processes[static_cast<size_t>(running->process)];
    const uint64_t look = ++process.looks[static_cast<size_t>(room)];
    for (const Disturbance& one : process.due_by_room) {
      if (one.room == room && one.at == look) happens_soon(process, one);
    }
  }

  /// After an access that the running fiber is about to make.
  void disturb() {
    Process& process = processes[static_cast<size_t>(running->process)];
    while (!process.due.empty() && process.due.front().at <= process.accesses) {
      const Disturbance one = process.due.front();
      process.due.erase(process.due.begin());
      switch (one.kind) {
        case Disturbance::Kind::kKill:
          kill(running->process);
          leave();
          std::abort();
        case Disturbance::Kind::kStop:
          ++counts.stops;
          longest_delay = std::max(longest_delay, one.ns);
          process.stopped_until = now + one.ns;
          if (traces)
            fmt::print(stderr, "{:>12} rank {} stops for {} ns\n", now, running->process, one.ns);
          break;
        case Disturbance::Kind::kClock:
          ++counts.clock_steps;
          longest_delay = std::max(longest_delay, one.ns);
          process.clock_ahead += one.ns;
          break;
        default:
          break;
      }
    }
  }

  void show_some(Fiber& fiber) {
    if (fiber.delayed.empty()) return;
    size_t at = 0;
    if (conditions.weak_order) {
      // One that is not released may pass others, but none to the same word.
      at = random.below(fiber.delayed.size());
      const Delayed& chosen = fiber.delayed[at];
      const auto earlier = fiber.delayed.begin() + static_cast<ptrdiff_t>(at);
      if (chosen.released ||
          std::any_of(fiber.delayed.begin(), earlier,
                      [&chosen](const Delayed& one) { return one.word == chosen.word; }))
        at = 0;
    }
    counts.stores_reordered += at != 0;
    fiber.delayed[at].show();
    fiber.delayed.erase(fiber.delayed.begin() + static_cast<ptrdiff_t>(at));
    ++g_changes;
  }

  // ---- the scheduler

  void sort_fibers() {
    ready.clear();
    idle.clear();
    waiting.clear();
    for (const auto& owned : fibers) {
      Fiber& fiber = *owned;
      if (fiber.is == Fiber::Is::kEnded) continue;
      Process& process = processes[static_cast<size_t>(fiber.process)];
      if (process.stopped_until > now) continue;
      switch (fiber.is) {
        case Fiber::Is::kReady:
          ready.push_back(&fiber);
          break;
        case Fiber::Is::kYielded:
          (fiber.yielded_after == g_changes ? idle : ready).push_back(&fiber);
          break;
        default:
          if (fiber.wake_ns != 0 && fiber.wake_ns <= now) {
            ready.push_back(&fiber);
          } else {
            waiting.push_back(&fiber);
          }
      }
    }
  }

  Fiber* choose() {
    if (conditions.wakes_early && !waiting.empty() && random.one_in(1024)) {
      Fiber& early = *waiting[random.below(waiting.size())];
      early.woken = true;
      ++counts.early_wakes;
      return &early;
    }
    Fiber* chosen = ready[random.below(ready.size())];
    for (int i = 0; i < 12 && processes[static_cast<size_t>(chosen->process)].slow; ++i)
      chosen = ready[random.below(ready.size())];
    return chosen;
  }

  /// To the next thing that happens by itself. False: nothing does.
  bool move_time() {
    int64_t next = INT64_MAX;
    bool running_somewhere = false;
    for (const auto& fiber : fibers) {
      if (fiber->is == Fiber::Is::kEnded) continue;
      running_somewhere = true;
      const int64_t stopped = processes[static_cast<size_t>(fiber->process)].stopped_until;
      if (stopped > now) {
        next = std::min(next, stopped);
      } else if (fiber->is == Fiber::Is::kWaiting && fiber->wake_ns != 0) {
        next = std::min(next, std::max(fiber->wake_ns, now));
      }
    }
    if (!events.empty()) next = std::min(next, std::max(events.begin()->first, now));
    if (!idle.empty()) {
      // Stores that nobody has seen yet are seen before anything else happens.
      for (const auto& fiber : fibers) {
        while (!fiber->delayed.empty()) show_some(*fiber);
      }
      next = std::min(next, now + idle_ns);
      idle_ns = std::min(2 * idle_ns, kLongestIdleNs);
      for (Fiber* const fiber : idle) fiber->yielded_after = g_changes - 1;
    }
    if (next == INT64_MAX) {
      if (running_somewhere) why_stuck = "all ranks wait, and nothing can wake them";
      return false;
    }
    if (conditions.must_be_woken && missed_wake(next)) {
      why_stuck = "all ranks sleep, and only time wakes one: a wake-up was lost";
      return false;
    }
    now = std::max(now, next);
    return true;
  }

  /// Whether the next thing that happens is that somebody has slept in vain for long.
  bool missed_wake(int64_t next) const {
    bool in_vain = false;
    for (const auto& fiber : fibers) {
      if (fiber->is == Fiber::Is::kEnded) continue;
      if (fiber->is != Fiber::Is::kWaiting || fiber->key == 0 || fiber->woken) return false;
      in_vain |= fiber->wake_ns == next && next - fiber->since_ns > kLongSleepNs;
    }
    return in_vain && events.empty();
  }

  void run_events() {
    while (!events.empty() && events.begin()->first <= now) {
      const auto event = std::move(events.begin()->second);
      events.erase(events.begin());
      event();
    }
  }

  void run() {
    uint64_t changes = g_changes;
    for (uint64_t round = 0;; ++round) {
      run_events();
      if (round % 64 == 0 && bed->between) bed->between();
      if (counts.accesses > kMostAccesses || now > kMostNs * conditions.patience()) {
        why_stuck = "the job does not end";
        return;
      }
      sort_fibers();
      if (ready.empty()) {
        if (!move_time()) return;
        continue;
      }
      if (g_changes != changes) {
        changes = g_changes;
        idle_ns = kFirstIdleNs;
      }
      resume(*choose());
    }
  }
};

namespace {

Bed::State* g_state = nullptr;

Bed::State& state() { return *g_state; }
Fiber& self() { return *g_state->running; }

}  // namespace

void decide() {
  if (!machine::in_fiber()) {  // the launcher's own accesses
    g_accesses_left = INT64_MAX;
    return;
  }
  Bed::State& bed = state();
  bed.end_slice();
  bed.disturb();
  if (g_has_delayed && bed.random.one_in(bed.conditions.store_patience)) bed.show_some(self());
  self().is = Fiber::Is::kReady;
  bed.leave();
}

void delay_store(void* word, const void* value, size_t bytes, std::memory_order order) {
  std::vector<Delayed>& delayed = self().delayed;
  if (delayed.size() >= kMostDelayed) state().show_some(self());
  Delayed store{word, 0, static_cast<uint8_t>(bytes), order != std::memory_order_relaxed};
  std::memcpy(&store.value, value, bytes);
  delayed.push_back(store);
  ++state().counts.stores_kept_back;
  g_has_delayed = true;
}

bool find_delayed(const void* word, void* value, size_t bytes) {
  const std::vector<Delayed>& delayed = self().delayed;
  const auto found = std::find_if(delayed.rbegin(), delayed.rend(),
                                  [word](const Delayed& one) { return one.word == word; });
  if (found == delayed.rend()) return false;
  std::memcpy(value, &found->value, bytes);
  return true;
}

void show_stores() {
  g_has_delayed = false;
  if (!machine::in_fiber() || self().delayed.empty()) return;
  for (const Delayed& store : self().delayed) store.show();
  self().delayed.clear();
  ++g_changes;
}

void reach_update() {
  if (!machine::in_fiber()) return;
  Bed::State& bed = state();
  Process& process = bed.processes[static_cast<size_t>(self().process)];
  if (process.due_by_update.empty()) return;
  const Disturbance one = process.due_by_update.front();
  process.due_by_update.erase(process.due_by_update.begin());
  process.updates = static_cast<int64_t>(one.at);
  bed.happens_soon(process, one);
  g_updates_left = process.due_by_update.empty()
                       ? INT64_MAX
                       : static_cast<int64_t>(process.due_by_update.front().at) - process.updates;
}

bool fails_spuriously() {
  if (!machine::in_fiber() || !state().random.one_in(16)) return false;
  ++state().counts.exchanges_failed;
  return true;
}

namespace machine {

bool active() { return g_state != nullptr; }
bool in_fiber() { return g_state != nullptr && g_state->slice != 0; }

int64_t now_ns() {
  Bed::State& bed = state();
  if (!in_fiber()) return bed.now;
  bed.now += kClockNs;
  return bed.now + bed.processes[static_cast<size_t>(self().process)].clock_ahead;
}

int process_id() { return kFirstPid + self().process; }

int process_of(int pid) {
  const int process = pid - kFirstPid;
  return process >= 0 && process < static_cast<int>(state().processes.size()) ? process : -1;
}

bool is_dead(int process) { return state().processes[static_cast<size_t>(process)].ended; }

int64_t true_ns() { return state().now; }
int current_process() { return self().process; }
int status_of(int process) { return state().processes[static_cast<size_t>(process)].status; }

int open_end_of(int process) {
  const int fd = dup(end_of(process));
  if (fd >= 0) state().ends[fd] = process;
  return fd;
}
int process_of_descriptor(int fd) {
  const auto found = state().ends.find(fd);
  return found == state().ends.end() ? -1 : found->second;
}
void forget_descriptor(int fd) { state().ends.erase(fd); }

int end_of(int process) { return state().processes[static_cast<size_t>(process)].end_fd; }

void yield() {
  show_stores();
  Fiber& fiber = self();
  state().end_slice();
  state().disturb();
  fiber.is = Fiber::Is::kYielded;
  fiber.yielded_after = g_changes;
  state().leave();
}

void sleep_until(int64_t ns) {
  Bed::State& bed = state();
  ns -= bed.processes[static_cast<size_t>(self().process)].clock_ahead;
  int64_t late = static_cast<int64_t>(bed.random.below(2000));
  if (bed.random.one_in(8)) late = static_cast<int64_t>(bed.random.below(1'000'000));
  wait_on(0, std::max(ns, bed.now + 1) + late);
}

bool wait_on(uint64_t key, int64_t until_ns) {
  show_stores();
  Fiber& fiber = self();
  state().end_slice();
  state().disturb();
  fiber.is = Fiber::Is::kWaiting;
  fiber.key = key;
  fiber.wake_ns = until_ns;
  fiber.since_ns = state().now;
  fiber.woken = false;
  state().leave();
  fiber.key = 0;
  return fiber.woken;
}

int wake(uint64_t key, int most) {
  Bed::State& bed = state();
  int woken = 0;
  // In any order.
  const size_t count = bed.fibers.size(), begin = bed.random.below(count);
  for (size_t i = 0; i < count && woken < most; ++i) {
    Fiber& fiber = *bed.fibers[(begin + i) % count];
    if (fiber.is != Fiber::Is::kWaiting || fiber.key != key || fiber.woken) continue;
    fiber.woken = true;
    ++woken;
    if (bed.conditions.late_wakes != 0 && bed.random.one_in(bed.conditions.late_wakes)) {
      ++bed.counts.late_wakes;
      const int64_t later = bed.now + 1 + static_cast<int64_t>(bed.random.below(kLatestWakeNs));
      fiber.wake_ns = fiber.wake_ns == 0 ? later : std::min(fiber.wake_ns, later);
    } else {
      fiber.is = Fiber::Is::kReady;
    }
  }
  if (woken != 0) ++g_changes;
  return woken;
}

uint64_t key_of(const void* word) {
  const auto address = reinterpret_cast<uintptr_t>(word);
  const auto& mappings = state().mappings;
  auto found = mappings.upper_bound(address);
  if (found == mappings.begin()) return address;
  --found;
  const auto& [begin, mapping] = *found;
  if (address >= begin + mapping.bytes) return address;
  return drawn({mapping.inode, static_cast<uint64_t>(mapping.offset) + (address - begin)}) | 1;
}

void note_mapping(void* address, size_t bytes, int fd, int64_t offset) {
  struct stat info {};
  if (fstat(fd, &info) == 0)
    state().mappings[reinterpret_cast<uintptr_t>(address)] = {bytes, info.st_ino, offset};
}

void forget_mapping(void* address, size_t) {
  state().mappings.erase(reinterpret_cast<uintptr_t>(address));
}

void fence_everybody() {
  for (const auto& fiber : state().fibers) {
    g_changes += fiber->delayed.size();
    for (const Delayed& store : fiber->delayed) store.show();
    fiber->delayed.clear();
  }
  g_has_delayed = false;
}

uint64_t start_thread(void* (*body)(void*), void* argument) {
  step();
  Fiber& fiber = state().make_fiber(self().process);
  fiber.body = body;
  fiber.argument = argument;
  ++g_changes;
  return fiber.number;
}

void* join_thread(uint64_t thread) {
  Fiber& other = *state().fibers[thread - 1];
  while (other.is != Fiber::Is::kEnded) yield();
  return other.result;
}

uint64_t current_thread() { return self().number; }

bool is_thread_dead(uint64_t thread) {
  if (thread == 0 || thread > state().fibers.size()) return true;
  return is_dead(state().fibers[thread - 1]->process);
}

bool forbids_process_vm() { return state().conditions.forbids_process_vm; }

bool refuses_memory() {
  Bed::State& bed = state();
  Process& process = bed.processes[static_cast<size_t>(self().process)];
  if (bed.due_now(Disturbance::Kind::kNoMemory, ++process.requests) == nullptr) return false;
  ++bed.counts.refusals;
  bed.memory_failed = true;
  bed.tell("is refused memory");
  return true;
}

bool refuses_heap() {
  Bed::State& bed = state();
  Process& process = bed.processes[static_cast<size_t>(self().process)];
  if (bed.due_now(Disturbance::Kind::kNoHeap, ++process.heap_requests) == nullptr) return false;
  ++bed.counts.heap_refusals;
  bed.memory_failed = true;
  bed.tell("is refused private memory");
  return true;
}

bool refuses_call() {
  Bed::State& bed = state();
  Process& process = bed.processes[static_cast<size_t>(self().process)];
  if (bed.due_now(Disturbance::Kind::kNoCall, ++process.calls) == nullptr) return false;
  ++bed.counts.failed_calls;
  bed.tell("makes a system call that fails");
  return true;
}

void data_came(void* data, size_t bytes) {
  Bed::State& bed = state();
  Process& process = bed.processes[static_cast<size_t>(self().process)];
  if (bytes == 0) return;
  const Disturbance* const one = bed.due_now(Disturbance::Kind::kFlip, ++process.pieces);
  if (one == nullptr) return;
  const auto bit = static_cast<uint64_t>(one->ns) % (8 * bytes);
  static_cast<unsigned char*>(data)[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
  ++bed.counts.flips;
  bed.tell("gets data with a flipped bit");
}

bool is_let_go(int process) { return state().processes[static_cast<size_t>(process)].let_go; }

bool forbids_membarrier() { return (state().conditions.no_fences_of >> self().process & 1) != 0; }

bool refuses_room(Room room) {
  Bed::State& bed = state();
  bed.look_for_room(room);
  if (bed.conditions.refused_rooms == 0 || !bed.random.one_in(bed.conditions.refused_rooms))
    return false;
  ++bed.counts.rooms_refused;
  return true;
}

void note_change() { ++g_changes; }

}  // namespace machine

Bed::Bed(const Conditions& conditions, int processes)
    : state_(std::make_unique<State>(conditions)) {
  State& self = *state_;
  self.bed = this;
  self.processes.resize(static_cast<size_t>(processes));
  for (size_t i = 0; i < self.processes.size(); ++i) {
    Process& process = self.processes[i];
    process.end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    process.slow = conditions.slow_ranks != 0 && self.random.one_in(conditions.slow_ranks);
    for (const Disturbance& one : conditions.disturbances) {
      if (one.rank != static_cast<int>(i) || counts_for_itself(one.kind)) continue;
      (one.by == Disturbance::By::kUpdate ? process.due_by_update
       : one.by == Disturbance::By::kRoom ? process.due_by_room
                                          : process.due)
          .push_back(one);
    }
    for (auto* const list : {&process.due, &process.due_by_update}) {
      std::stable_sort(list->begin(), list->end(),
                       [](const Disturbance& a, const Disturbance& b) { return a.at < b.at; });
    }
  }
  if (conditions.long_turns()) self.longest_delay = kMostNs;
  g_state = &self;
}

Bed::~Bed() {
  g_state = nullptr;
  g_delays_stores = g_has_delayed = false;
  g_accesses_left = INT64_MAX;
  for (const Process& process : state_->processes) close(process.end_fd);
  for (const auto& fiber : state_->fibers) munmap(fiber->stack, kStackBytes);
}

void Bed::start(int process, std::function<int()> body) {
  Fiber& fiber = state_->make_fiber(process);
  fiber.first = true;
  fiber.main = std::move(body);
  state_->processes[static_cast<size_t>(process)].started = true;
}

void Bed::run() {
  state_->run();
  state_->counts.changes = g_changes - state_->changes_at_start;
  state_->counts.virtual_ns = state_->now;
}

const std::string& Bed::stuck() const { return state_->why_stuck; }
const Counts& Bed::counts() const { return state_->counts; }

uint64_t Bed::dead() const {
  uint64_t dead = 0;
  for (size_t i = 0; i < state_->processes.size(); ++i)
    dead |= uint64_t{state_->processes[i].dead} << i;
  return dead;
}

void Bed::let_go(int process) { state_->processes[static_cast<size_t>(process)].let_go = true; }
bool Bed::memory_failed() const { return state_->memory_failed; }
int64_t Bed::longest_delay_ns() const { return state_->longest_delay; }
int64_t Bed::now_ns() const { return state_->now; }
void Bed::kill(int process) {
  if (state_->traces) state_->tell_all(process);
  state_->kill(process);
}
void Bed::sleep(int64_t ns) { machine::sleep_until(machine::now_ns() + ns); }
void Bed::trace(bool on) { state_->traces = on; }

}  // namespace ibcoll::lockstep
