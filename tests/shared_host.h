#pragma once
/// Processes that a test has forked, and their host: an allgather through memory they share.

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>

#include "ibcoll/ibcoll.h"
#include "tests/job.h"

namespace ibcoll::testing {

/// What all processes of the host share. One allgather after the other.
class SharedHost {
 public:
  /// As long as the test's process lives.
  static SharedHost& create();

  /// One process's end of it, which must stay where it is.
  class Member {
   public:
    Member(SharedHost& host, int rank, int size) : host_(&host), rank_(rank), size_(size) {}

    /// Its allgather comes back when it is done.
    ibcoll_bootstrap blocking();
    /// Its allgather is posted, and asked whether it is done.
    ibcoll_bootstrap posting();
    /// So many times the host was asked.
    int calls() const { return calls_; }

   private:
    ibcoll_bootstrap named();
    int post(const void* mine, size_t bytes, void* all);
    bool test();

    SharedHost* host_;
    int rank_, size_, calls_ = 0;
    char* all_ = nullptr;
    size_t bytes_ = 0;
  };

 private:
  static constexpr int kRanks = 8;
  static constexpr size_t kBytes = 4096;
  std::atomic<int> posted_{0};
  /// By turns: who posts to one of them again has everybody's of the one before.
  char slots_[2][kRanks][kBytes] = {};
};

/// Runs `main` in one process a rank; gives their complaints. None may end by a signal, except
/// `victim`.
std::string run_ranks(int ranks, const std::function<std::string(int rank)>& main, int victim = -1);

/// An alltoall of numbers that tell sender, receiver and call, and its check.
std::string exchange(ibcoll_group* group, int call, size_t numbers = 100);

}  // namespace ibcoll::testing
