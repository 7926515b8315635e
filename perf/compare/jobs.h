#pragma once
/// The contenders of compare_mpi as jobs: started once, kept asleep, asked in turn for
/// measurements.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "perf/compare/contest.h"

namespace ibcoll::compare {

/// One contender: a name and how its ranks are started.
struct Contender {
  std::string name;
  /// The command to run; `{contest}` and `{seat}` in its words are filled in.
  std::vector<std::string> command;
  /// Or a function to run in a forked process; it starts the ranks and returns an exit status.
  std::function<int(contest&, int seat)> run;
};

/// What one rank count is measured with: the shared memory and the started contenders. Ends them on
/// destruction.
class Jobs {
 public:
  /// What each rank's buffers take.
  struct Room {
    uint64_t send = 0, receive = 0;
  };
  /// Starts all contenders with `ranks` ranks each. `machines`: on several machines, with cores of
  /// their own, that share the file system and this clock (tests/machines).
  static Result<Jobs> start(const std::vector<Contender>& contenders, int ranks, Room room,
                            bool machines);
  Jobs(Jobs&&) = default;
  Jobs& operator=(Jobs&&) = delete;
  ~Jobs();

  struct Order {
    contest_collective collective = CONTEST_ALLTOALL;
    bool after_barrier = false;
    uint64_t block_bytes = 0;
    uint64_t batch_ns = 0;
    int samples = 0;
    bool check = false;
  };
  /// Lets contender `index` measure and gives for each batch the time of one call in nanoseconds:
  /// on the slowest rank, after barriers the mean over ranks. Fails when the contender does, is
  /// gone or takes more than two minutes.
  Result<std::vector<double>> measure(size_t index, const Order& order);

  /// Asks all contenders to end and waits for them. On several machines those that have not ended
  /// in five seconds are left to the destructor: over TCP, MPICH's MPI_Finalize may wait for ever.
  Status finish();

 private:
  struct Unmap {
    void operator()(contest* shared) const;
  };
  /// Of a contender: what has started its ranks.
  struct Process {
    std::string name;
    pid_t id = -1;
    uint32_t orders = 0;
  };
  Jobs() = default;
  Status reap(Process& process, bool expected);

  std::unique_ptr<contest, Unmap> contest_;
  UniqueFd file_;
  bool machines_ = false;
  std::vector<Process> processes_;
};

/// Set by SIGINT and SIGTERM once handle_interrupts() was called; measurements then fail.
void handle_interrupts();
bool interrupted();

}  // namespace ibcoll::compare
