#pragma once
/// Runs a rank's part of a program through the C interface, and checks everything.

#include <cstdint>
#include <memory>
#include <string>

#include "tests/lockstep/model.h"
#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

/// Where a rank runs: what it needs beside the interface of the library. Each rank has its own.
class Runner {
 public:
  virtual ~Runner() = default;

  /// Memory for buffers of the program's, aligned to a page: asked for rarely, in large pieces; not
  /// needed any more once the Run is gone. Never null.
  virtual void* memory(size_t bytes) = 0;
  /// The rank computes for so long, outside of the library.
  virtual void pause(int64_t ns) = 0;
  /// The rank has looked for something that has not come yet: others may go on.
  virtual void look_again() = 0;
  /// What has happened to the job so far; see Faults.
  virtual Faults faults() = 0;
  /// What is worked out once for all ranks that run in this process, or at least once for this
  /// rank.
  virtual Expectations& expectations() = 0;
  /// An operation of this rank has ended so; only those that returned IBCOLL_OK were checked.
  virtual void finished(Operation operation, ibcoll_status status) = 0;
  /// The job is over for this rank, with this error, for the first time: all ranks must have the
  /// same.
  virtual void over(ibcoll_status status, const std::string& text) = 0;
  /// Ranks have disagreed, and nobody has an error yet: the job's end has to be one.
  virtual void unnoticed() = 0;
  /// Something is not as the interface promises. The rank goes on.
  virtual void violation(const std::string& text) = 0;
};

/// A rank's part of a program. Where the rank dies amid run(), destroying the object gives its own
/// memory back and calls nothing.
class Run {
 public:
  Run(ibcoll_context* context, const Program& program, Rank me, Runner& runner);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Up to where the context can be finalized: all handles have been freed.
  void run();

 private:
  class State;
  std::unique_ptr<State> state_;
};

inline void run_rank(ibcoll_context* context, const Program& program, Rank me, Runner& runner) {
  Run(context, program, me, runner).run();
}

}  // namespace ibcoll::lockstep
