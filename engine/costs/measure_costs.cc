#include "engine/costs/measure_costs.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>

#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include "engine/base/clock.h"
#include "engine/base/copy.h"
#include "engine/base/pages.h"
#include "engine/base/quiet_thread.h"
#include "engine/base/stats.h"
#include "engine/bootstrap/binding.h"
#include "engine/bootstrap/hwloc_topology.h"
#include "engine/sharing/futex.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1; others refuse it
#endif

namespace ibcoll {
namespace {

constexpr size_t kBytes = kCopyBytes.back();
constexpr double kKb = kBytes / 1024.0;
constexpr size_t kLine = 64;
constexpr size_t kHugeBytes = size_t{2} << 20;
/// Round trips, yields and flushed copies are timed together, for the clock takes as long as some.
constexpr int kRoundTrips = 100, kYields = 50, kHandOvers = 25;
/// Who goes to sleep in the kernel is asleep by then.
constexpr int64_t kAsleepNs = 50'000;

/// Anonymous memory with pages behind it.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(memory);
    // Small pages unless asked for others.
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE);
  }
  ~Memory() { munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  void touch() {
    for (size_t i = 0; i < bytes_; i += kLine) data_[i] = std::byte{1};
  }
  /// Its first whole huge page, once there is one; null: there is none.
  std::byte* huge_page() {
    const auto begin = reinterpret_cast<uintptr_t>(data_);
    auto* const page = data_ + (round_up(begin, kHugeBytes) - begin);
    (void)madvise(data_, bytes_, MADV_HUGEPAGE);
    for (size_t i = 0; i < kHugeBytes; i += page_bytes()) page[i] = std::byte{1};
    return madvise(page, kHugeBytes, MADV_COLLAPSE) == 0 ? page : nullptr;
  }

 private:
  std::byte* data_ = nullptr;
  const size_t bytes_;
};

/// Thrown, for all that is waited for then is a thread that may never come.
struct TooLate {};

/// The second thread of a pair: does what the first one hands it.
class Partner {
 public:
  /// `yields`: it runs where the first one does.
  Partner(int processor, bool yields, int64_t until_ns) : yields_(yields), until_ns_(until_ns) {
    thread_ = quiet_thread([this, processor] {
      pinned_.store(bind_thread({processor}) ? 1 : 2, std::memory_order_release);
      serve();
    });
  }
  ~Partner() {
    turn_.value.store(kStop, std::memory_order_release);
    thread_.join();
  }
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;

  /// Whether it runs where it is to.
  bool is_pinned() {
    wait([this] { return pinned_.load(std::memory_order_acquire) != 0; });
    return pinned_.load(std::memory_order_relaxed) == 1;
  }
  /// What it does meanwhile, and has ended before what it touches goes. Work that is late ends by
  /// itself.
  class Work {
   public:
    Work(Partner& partner, const std::function<void()>& body) : partner_(partner) {
      partner_.work_ = &body;
      partner_.turn_.value.store(kWork, std::memory_order_release);
    }
    ~Work() { await(); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    void finish() {
      await();
      if (partner_.is_late()) throw TooLate();
    }

   private:
    void await() {
      while (partner_.turn_.value.load(std::memory_order_acquire) == kWork)
        if (partner_.yields_) sched_yield();
    }
    Partner& partner_;
  };
  /// For both threads: spins until `done`().
  template <class Done>
  void wait(const Done& done) const {
    for (int i = 1; !done(); ++i) {
      if (i % 256 == 0 && is_late()) throw TooLate();
      if (yields_) sched_yield();
    }
  }
  bool is_late() const { return now_ns() > until_ns_; }

 private:
  static constexpr uint32_t kIdle = 0, kWork = 1, kStop = 2;
  struct alignas(kLine) Word {
    Shared<uint32_t> value{kIdle};
  };

  void serve() {
    while (true) {
      const uint32_t turn = turn_.value.load(std::memory_order_acquire);
      if (turn == kStop) return;
      if (turn == kIdle && yields_) sched_yield();
      if (turn == kWork) {
        try {
          (*work_)();
        } catch (const TooLate&) {  // the other thread finds out, too
        }
        turn_.value.store(kIdle, std::memory_order_release);
      }
    }
  }

  Word turn_;
  const std::function<void()>* work_ = nullptr;
  const bool yields_;
  const int64_t until_ns_;
  Shared<uint32_t> pinned_{0};
  std::thread thread_;
};

/// Measures from the thread that makes it, which is pinned to the first processor of the pair.
class Bench {
 public:
  Bench(Partner& partner, int samples, double& spread)
      : partner_(partner), samples_(samples), spread_(spread) {
    for (Memory* const memory : {&shared_, &other_shared_, &mine_, &theirs_}) memory->touch();
  }

  PairCosts pair(bool all) {
    PairCosts costs;
    costs.round_trip = ping_pong(kRoundTrips);
    for (size_t i = 0; i < kCopyBytes.size(); ++i) {
      exchange(kCopyBytes[i], copy_plain, costs.write[i], costs.read[i]);
      exchange(kCopyBytes[i], copy_streaming, costs.stream_write[i], costs.stream_read[i]);
    }
    measure_reads_by_kernel(costs, all);
    if (all) costs.wake = wake();
    return costs;
  }

  void machine(MachineCosts& costs, bool all) {
    for (size_t i = 0; i < kCopyBytes.size(); ++i)
      costs.copy[i] = timed([&] { copy_plain(mine_.data(), shared_.data(), kCopyBytes[i]); });
    if (!all) return;
    costs.memory_per_kb = from_memory() / kKb;
    costs.yield = timed([] {
                    for (int i = 0; i < kYields; ++i) sched_yield();
                  }) /
                  kYields;
  }
  /// With both threads on one core.
  double hand_over() { return ping_pong(kHandOvers) / 2; }

 private:
  template <class Body>
  double timed(const Body& body) {
    return median_of([&] {
      const int64_t began = now_ns();
      body();
      return now_ns() - began;
    });
  }
  /// What it takes when the other thread does the same meanwhile, as ranks of a collective do.
  template <class Here, class There>
  int64_t at_once(const Here& here, const There& there) {
    const std::function<void()> other = there;
    Partner::Work work(partner_, other);
    const int64_t began = now_ns();
    here();
    const int64_t took = now_ns() - began;
    work.finish();
    return took;
  }
  /// Both threads write with `copy` what the other one reads then.
  void exchange(size_t bytes, CopyKernel copy, double& write, double& read) {
    std::vector<double> writes, reads;
    for (int i = 0; i <= samples_; ++i) {
      writes.push_back(
          static_cast<double>(at_once([&] { copy(shared_.data(), mine_.data(), bytes); },
                                      [&] { copy(other_shared_.data(), theirs_.data(), bytes); })));
      reads.push_back(static_cast<double>(
          at_once([&] { copy_plain(mine_.data(), other_shared_.data(), bytes); },
                  [&] { copy_plain(theirs_.data(), shared_.data(), bytes); })));
    }
    write = middle_of(writes);
    read = middle_of(reads);
  }
  template <class Sample>
  double median_of(const Sample& sample) {
    std::vector<double> times;
    for (int i = 0; i <= samples_; ++i) times.push_back(static_cast<double>(sample()));
    return middle_of(times);
  }
  /// Not the first one: caches and branches are cold.
  double middle_of(std::vector<double>& times) {
    times.erase(times.begin());
    const double middle = std::max(median(times), 1.0);
    // The clock ticks every ten nanoseconds on some machines.
    constexpr double kTelling = 200;
    if (middle > kTelling)
      spread_ = std::max(spread_, (quantile(times, 0.75) - quantile(times, 0.25)) / middle);
    return middle;
  }

  double ping_pong(int times) {
    struct alignas(kLine) Word {
      Shared<int> value{0};
    };
    Word ping, pong;
    const auto reach = [&](const Word& word, int number) {
      partner_.wait([&] { return word.value.load(std::memory_order_acquire) >= number; });
    };
    int first = 0;
    const std::function<void()> answer = [&] {
      for (int i = first + 1; i <= first + times; ++i) {
        reach(ping, i);
        pong.value.store(i, std::memory_order_release);
      }
    };
    return median_of([&] {
             Partner::Work work(partner_, answer);
             const int64_t began = now_ns();
             for (int i = first + 1; i <= first + times; ++i) {
               ping.value.store(i, std::memory_order_release);
               reach(pong, i);
             }
             const int64_t took = now_ns() - began;
             work.finish();
             first += times;
             return took;
           }) /
           times;
  }

  /// Both threads read what the other has just written; 0: the kernel forbids it.
  double read_by_kernel(std::byte* own, std::byte* other, size_t bytes) {
    const pid_t self = getpid();
    Shared<bool> reads{true};
    const auto read = [&](std::byte* target, std::byte* source) {
      const iovec to{target, bytes}, from{source, bytes};
      if (process_vm_readv(self, &to, 1, &from, 1, 0) != static_cast<ssize_t>(bytes))
        reads.store(false, std::memory_order_relaxed);
    };
    const double took = median_of([&] {
      at_once([&] { copy_plain(own, mine_.data(), kBytes); },
              [&] { copy_plain(other, theirs_.data(), kBytes); });
      return at_once([&] { read(mine_.data(), other); }, [&] { read(theirs_.data(), own); });
    });
    return reads.load(std::memory_order_relaxed) ? took : 0;
  }
  void measure_reads_by_kernel(PairCosts& costs, bool huge_pages) {
    const size_t page = page_bytes();
    if (kBytes < 2 * page) return;
    const double one = read_by_kernel(shared_.data(), other_shared_.data(), page);
    const double all = read_by_kernel(shared_.data(), other_shared_.data(), kBytes);
    if (one == 0 || all == 0) return;
    costs.vm_page =
        std::max((all - one) / (static_cast<double>(kBytes) / static_cast<double>(page) - 1), 0.1);
    costs.vm_call = std::max(one - costs.vm_page, 0.1);
    if (!huge_pages) return;
    Memory large(3 * kHugeBytes);
    std::byte* const huge = large.huge_page();
    if (huge == nullptr) return;
    const double whole = read_by_kernel(huge, huge + kHugeBytes / 2, kBytes);
    costs.vm_huge_per_kb = std::max(whole - costs.vm_call, 0.1) / kKb;
  }

  double wake() {
    struct alignas(kLine) Word {
      Shared<uint32_t> value{0};
    };
    Word sleeps, word;
    int64_t woke_ns = 0;
    const std::function<void()> sleep = [&] {
      sleeps.value.store(1, std::memory_order_release);
      while (word.value.load(std::memory_order_acquire) == 0 && !partner_.is_late())
        futex_wait(word.value, 0, 10'000'000);
      woke_ns = now_ns();
    };
    return median_of([&] {
      sleeps.value.store(0, std::memory_order_relaxed);
      word.value.store(0, std::memory_order_relaxed);
      Partner::Work work(partner_, sleep);
      partner_.wait([&] { return sleeps.value.load(std::memory_order_acquire) != 0; });
      const int64_t asleep = now_ns() + kAsleepNs;
      while (now_ns() < asleep) {
      }
      const int64_t began = now_ns();
      word.value.store(1, std::memory_order_release);
      futex_wake(word.value, 1);
      work.finish();
      return woke_ns - began;
    });
  }

  /// 0: this processor's caches can't be told to give something up.
  double from_memory() {
#ifdef __x86_64__
    return median_of([this] {
      for (const Memory* const memory : {&mine_, &shared_})
        for (size_t i = 0; i < kBytes; i += kLine) _mm_clflush(memory->data() + i);
      _mm_mfence();
      const int64_t began = now_ns();
      copy_plain(mine_.data(), shared_.data(), kBytes);
      return now_ns() - began;
    });
#else
    return 0;
#endif
  }

  Partner& partner_;
  const int samples_;
  double& spread_;
  Memory shared_{kBytes}, other_shared_{kBytes};  ///< which this thread writes, or the other one
  Memory mine_{kBytes}, theirs_{kBytes};
};

/// Runs `body` in a thread on that processor; false: it can't be pinned there.
bool run_pinned(int processor, const std::function<void()>& body) {
  bool pinned = false;
  std::exception_ptr thrown;
  quiet_thread([&] {
    pinned = bind_thread({processor}).has_value();
    try {
      if (pinned) body();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
  return pinned;
}

Status measure_into(MachineCosts& costs, const std::vector<CorePair>& pairs,
                    const MeasureEffort& effort) {
  const int64_t until_ns = now_ns() + effort.limit_ns;
  bool pinned = true;
  const auto between = [&](int first, int second, const std::function<void(Bench&)>& body) {
    pinned = pinned && run_pinned(first, [&] {
               Partner partner(second, first == second, until_ns);
               pinned = partner.is_pinned();
               if (!pinned) return;
               Bench bench(partner, effort.samples, costs.spread);
               body(bench);
             });
  };
  for (const CorePair& pair : pairs) {
    between(pair.first, pair.second, [&](Bench& bench) {
      costs.pair(pair.distance) = bench.pair(effort.all);
      if (&pair == &pairs.front()) bench.machine(costs, effort.all);
    });
  }
  if (effort.all && !pairs.empty())
    between(pairs.front().first, pairs.front().first,
            [&](Bench& bench) { costs.hand_over = bench.hand_over(); });
  if (!pinned) return fail(ErrorCode::kSystem, "a thread can't be pinned to a processor");
  return {};
}

}  // namespace

Result<std::vector<CorePair>> core_pairs(const cpu_set_t& processors) {
  IBCOLL_ASSIGN(const HwlocTopology topology, load_hwloc_topology());
  const hwloc_topology_t raw = topology.get();
  std::vector<hwloc_obj_t> units;
  for (hwloc_obj_t unit = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_PU, nullptr); unit != nullptr;
       unit = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_PU, unit))
    if (unit->os_index < CPU_SETSIZE && CPU_ISSET(unit->os_index, &processors))
      units.push_back(unit);
  const auto distance = [&](hwloc_obj_t one, hwloc_obj_t other) {
    const hwloc_obj_t common = hwloc_get_common_ancestor_obj(raw, one, other);
    if (common->type == HWLOC_OBJ_CORE) return Distance::kSiblings;
    // Virtual machines may not tell of caches: their cores count as near unless of other packages.
    for (hwloc_obj_t above = common; above != nullptr; above = above->parent)
      if (hwloc_obj_type_is_dcache(above->type) || above->type == HWLOC_OBJ_PACKAGE)
        return Distance::kNear;
    return Distance::kFar;
  };
  std::vector<CorePair> pairs;
  for (size_t i = 1; i < units.size(); ++i) {
    const Distance apart = distance(units[0], units[i]);
    const bool known = std::any_of(pairs.begin(), pairs.end(),
                                   [&](const CorePair& pair) { return pair.distance == apart; });
    if (!known)
      pairs.push_back(
          {apart, static_cast<int>(units[0]->os_index), static_cast<int>(units[i]->os_index)});
  }
  return pairs;
}

Result<MachineCosts> measure_costs(const std::vector<CorePair>& pairs,
                                   const MeasureEffort& effort) {
  MachineCosts costs;
  try {
    IBCOLL_TRY(measure_into(costs, pairs, effort));
  } catch (const TooLate&) {
    return fail(ErrorCode::kSystem, "to measure costs takes longer than {} ms: the machine is busy",
                effort.limit_ns / 1'000'000);
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kSystem, "no thread to measure costs: {}", error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kNoMemory, "out of memory");
  }
  return costs;
}

}  // namespace ibcoll
