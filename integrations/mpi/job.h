#pragma once
/// The engine's job of all processes of MPI_COMM_WORLD: joined in MPI_Init, left in MPI_Finalize.
/// Of a program that has sessions alone see sessions.cc.

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "ibcoll/ibcoll.h"
#include "integrations/mpi/contest.h"
#include "integrations/mpi/decisions.h"
#include "integrations/mpi/library.h"
#include "integrations/mpi/selection.h"
#include "integrations/mpi/takeover_report.h"

namespace ibcoll::mpi {

/// What all ranks know alike between MPI_Init and MPI_Finalize.
struct Job {
  ibcoll_context* context = nullptr;  ///< null: there is no engine; the same on all ranks
  Selection selection;                ///< what may be taken over
  bool samples = false;               ///< calls are measured
  bool learns = false;                ///< the engine's other algorithms, too
  bool samples_inexact = false;       ///< on new communicators: reductions whose bits depend on who
                                      ///< combines, in the others' stead (measure.cc)
  FirstLooks first_looks = FirstLooks::kSpread;  ///< of calls that are measured
  std::vector<Decision> decided;                 ///< by a file; these are not
  bool writes_decisions = false;                 ///< to that file, in the end
  bool reports = false;
  bool has_thread_of_its_own = false;  ///< the engine's, that makes progress, all the time
  bool has_threads = false;            ///< several may call the MPI at a time
  ibcoll_options reductions = IBCOLL_OPTIONS_INIT;  ///< of all calls that combine
  int rank = 0, size = 1;
  Handle world = 0;    ///< a duplicate of MPI_COMM_WORLD, for what this library says itself
  Handle alone = 0;    ///< the same of MPI_COMM_SELF
  Handle whole = 0;    ///< MPI_COMM_WORLD; without one, `world`
  Handle session = 0;  ///< this library's own, where the program has sessions alone; else 0
  Handle pending = 0;  ///< a receive that ends with the job: to test it makes the MPI's progress
  std::atomic<bool> ends{false};             ///< the engine's has: endings.h
  std::atomic<bool> survives_errors{false};  ///< the program has asked for errors that come back
  uint32_t moves = 0;                        ///< how often that was tested, by who is at it
  std::atomic_flag testing;  ///< a thread is at that: to the others it is no request meanwhile
  Counters counters;
  // Tags of messages on `alone`: `pending`'s is 0, then those of copies, then of persistent calls.
  static constexpr int kFirstCopyTag = 1, kCopyTags = 16, kFirstCallTag = kFirstCopyTag + kCopyTags;

  bool has_selected(Function function) const { return selection.has(function); }
};

/// Joins the job, and leaves it: in MPI_Init and MPI_Finalize, or for sessions. Collective.
void begin_job(bool for_sessions);
void end_job();

/// Null before MPI_Init has come back, after MPI_Finalize has begun, and where everything is left
/// to the MPI.
Job* running_job();
/// The same between these two and a little around, for what was begun while it ran.
Job& the_job();

/// Moves on what the MPI has under way.
void move_the_mpi(Job& job);

/// Attributes of this library's do not pass to duplicates.
int copy_nothing(Handle, int, void*, void*, void*, int* flag);

/// What this library says, on standard error.
void say(const char* line);

/// What is so on one thread, as long as it holds one of these or more.
template <class What>
class OnThisThread {
 public:
  OnThisThread() { ++depth_; }
  ~OnThisThread() { --depth_; }
  OnThisThread(const OnThisThread&) = delete;
  OnThisThread& operator=(const OnThisThread&) = delete;
  static bool is() { return depth_ != 0; }
  /// How many the thread holds; it goes on as if it held so many.
  static int exchange(int depth) { return std::exchange(depth_, depth); }

 private:
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local int depth_ = 0;
};

/// Calls from inside the MPI, or of this library to it, pass by: held while either may make them.
using Inside = OnThisThread<struct InsideTheMpi>;
/// Held in a round of poll_operations(), or in a wait in the engine, which moves the MPI on: the
/// MPI may call back.
using WithoutPolling = OnThisThread<struct NoPolling>;

}  // namespace ibcoll::mpi
