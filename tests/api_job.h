#pragma once
/// Jobs of the C interface whose ranks have threads of their own.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "ibcoll/ibcoll.h"
#include "tests/joined_job.h"
#include "tests/shared_host.h"

namespace ibcoll::testing {

/// One rank of a job, and a place to complain.
struct ApiRank {
  ibcoll_context* context;
  Complaints& complaints;

  void complain(const std::string& text) const { complaints.add(ibcoll_rank(context), text); }
  /// Complains unless `status` is good, with the error's line; gives whether it is.
  bool good(ibcoll_status status, const std::string& what) const;
};

/// Runs `body` on every rank of an ibcoll_launch; gives what the ranks complain of. `status`: the
/// launch's, 0 where it is null. `placement`: null is "block". `keep_survivors`: whoever outlives a
/// death may take its time. A rank complains where a sanitizer finds something in it.
std::string launched(const char* layout, int ranks, const std::function<void(const ApiRank&)>& body,
                     int* status = nullptr, const char* placement = nullptr,
                     bool keep_survivors = false);

/// As IBCOLL_LAYOUT has it, where the ranks of a server follow each other. `servers`: of each rank.
std::string layout_of(const std::vector<int>& servers);

/// Runs `body` on every rank of a job whose processes some launcher has started, on machines that
/// may be pretended; these are its servers, too, which the loopback joins. Gives what the ranks
/// complain of. `end`: what may end the job, besides a death.
std::string joined(JoinedRun run, const std::function<void(const ApiRank&)>& body,
                   ibcoll_status end = IBCOLL_OK);

/// A group of these ranks, with an identifier.
ibcoll_group* group_of(const ApiRank& rank, const std::vector<int>& ranks, uint64_t id);

/// Threads of a rank, each of which gives its complaint.
class ThreadsOf {
 public:
  explicit ThreadsOf(const ApiRank& rank) : rank_(rank) {}
  ~ThreadsOf() { join(); }
  ThreadsOf(const ThreadsOf&) = delete;
  ThreadsOf& operator=(const ThreadsOf&) = delete;

  void add(std::function<std::string()> body);
  void join() { join_from(threads_.begin()); }
  void join_but_first();

 private:
  struct Running {
    std::string wrong;
    std::thread thread;
  };
  void join_from(std::list<Running>::iterator from);

  const ApiRank& rank_;
  std::list<Running> threads_;
};

/// What the processes of a job tell each other past the engine.
class SharedFlags {
 public:
  /// As long as the test's process lives.
  static SharedFlags& create();
  void raise(size_t flag) { raised_[flag] += 1; }
  int raised(size_t flag) const { return raised_[flag]; }
  void await(size_t flag, int times) const;
  /// Where it may be raised in vain: goes on after so many naps of 1 ms.
  void await(size_t flag, int times, int naps) const;

 private:
  std::atomic<int> raised_[4] = {};
};

}  // namespace ibcoll::testing
