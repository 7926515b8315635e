#pragma once
/// Jobs of the C interface whose ranks have threads of their own.

#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#endif

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "ibcoll/ibcoll.h"
#include "tests/shared_host.h"

namespace ibcoll::testing {

/// One rank of a job, and a place to complain.
struct ApiRank {
  ibcoll_context* context;
  Complaints& complaints;

  void complain(const std::string& text) const { complaints.add(ibcoll_rank(context), text); }
  bool good(ibcoll_status status, const std::string& what) const {
    if (status != IBCOLL_OK) complain(what + ": " + ibcoll_last_error());
    return status == IBCOLL_OK;
  }
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/// Whose errors are told, as this process's rank; null in the test's own process.
inline Complaints* watched = nullptr;
inline int watched_rank = 0;
inline void complain_of_sanitizer() {
  // So short that a string needs no allocator.
  if (watched != nullptr) watched->add(watched_rank, "sanitizer error");
}
/// UBSan, which has no callback of its own, finds this by its name.
extern "C" __attribute__((used, visibility("default"))) inline void __ubsan_on_report() {
  complain_of_sanitizer();
}
#endif

/// The rank complains where a sanitizer finds something, from here to its end: a test that means
/// its job to fail would take the status for its own.
inline void watch_for_sanitizer([[maybe_unused]] const ApiRank& rank) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  watched_rank = ibcoll_rank(rank.context);
  watched = &rank.complaints;
  __sanitizer_set_death_callback(complain_of_sanitizer);
#endif
}

/// Runs `body` on every rank of an ibcoll_launch; gives what the ranks complain of. `status`: the
/// launch's, 0 where it is null. `placement`: null is "block".
inline std::string launched(const char* layout, int ranks,
                            const std::function<void(const ApiRank&)>& body, int* status = nullptr,
                            const char* placement = nullptr) {
  Complaints complaints(ranks);
  struct Argument {
    const std::function<void(const ApiRank&)>& body;
    Complaints& complaints;
  } argument{body, complaints};
  ibcoll_launch_options options = IBCOLL_LAUNCH_OPTIONS_INIT;
  options.ranks = ranks;
  options.layout = layout;
  options.placement = placement;
  int result = 0;
  const auto main = [](ibcoll_context* context, void* data) {
    const auto* to_run = static_cast<Argument*>(data);
    const ApiRank rank{context, to_run->complaints};
    watch_for_sanitizer(rank);
    to_run->body(rank);
    return 0;
  };
  if (ibcoll_launch(&options, main, &argument, &result) != IBCOLL_OK) return ibcoll_last_error();
  if (status != nullptr)
    *status = result;
  else if (result != 0 && complaints.all().empty())
    return fmt::format("a rank returned {}", result);
  return complaints.all();
}

/// A group of these ranks, with an identifier.
inline ibcoll_group* group_of(const ApiRank& rank, const std::vector<int>& ranks, uint64_t id) {
  const ibcoll_group_options options{sizeof options, id};
  ibcoll_group* group = nullptr;
  rank.good(ibcoll_group_create_with(rank.context, ranks.data(), static_cast<int>(ranks.size()),
                                     &options, &group),
            "group");
  return group;
}

/// Threads of a rank, each of which gives its complaint.
class ThreadsOf {
 public:
  explicit ThreadsOf(const ApiRank& rank) : rank_(rank) {}
  ~ThreadsOf() { join(); }
  ThreadsOf(const ThreadsOf&) = delete;
  ThreadsOf& operator=(const ThreadsOf&) = delete;

  void add(std::function<std::string()> body) {
    const int number = static_cast<int>(threads_.size());
    Running& running = threads_.emplace_back();
    running.thread = std::thread([&running, body = std::move(body), number] {
      const std::string wrong = body();
      if (!wrong.empty()) running.wrong = fmt::format("thread {}: {}", number, wrong);
    });
  }
  void join() { join_from(threads_.begin()); }
  void join_but_first() { join_from(std::next(threads_.begin())); }

 private:
  struct Running {
    std::string wrong;
    std::thread thread;
  };
  void join_from(std::list<Running>::iterator from) {
    for (; from != threads_.end(); ++from) {
      if (!from->thread.joinable()) continue;
      from->thread.join();
      if (!from->wrong.empty()) rank_.complain(from->wrong);
    }
  }
  const ApiRank& rank_;
  std::list<Running> threads_;
};

/// What the processes of a job tell each other past the engine.
class SharedFlags {
 public:
  /// As long as the test's process lives.
  static SharedFlags& create() {
    void* const memory = mmap(nullptr, sizeof(SharedFlags), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *new (memory) SharedFlags;
  }
  void raise(size_t flag) { raised_[flag] += 1; }
  int raised(size_t flag) const { return raised_[flag]; }
  void await(size_t flag, int times) const {
    while (raised_[flag] < times) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  /// Where it may be raised in vain: goes on after so many naps of 1 ms.
  void await(size_t flag, int times, int naps) const {
    for (; raised_[flag] < times && naps > 0; --naps)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  std::atomic<int> raised_[4] = {};
};

}  // namespace ibcoll::testing
