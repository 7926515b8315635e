#pragma once
/// Who moves operations of the engine on while this rank is in the MPI.
///
/// Open MPI: its progress calls poll_operations() back. Elsewhere the calls in which programs wait
/// most are made as nonblocking ones, with a loop that moves both on (messages.cc, waits.cc), and
/// during all others the engine's own thread does (blocking_calls.cc).

namespace ibcoll::mpi {

/// Before an operation is started; the MPI is told only once.
void begin_moving();
/// In MPI_Finalize.
void end_moving();
/// Whether the MPI has a way to call this library from its progress.
bool mpi_calls_back();

/// Whether operations are under way that nobody moves on while this thread is in the MPI.
bool moves_by_hand();

/// Held around a call of the MPI's that may block.
class WhileTheMpiBlocks {
 public:
  WhileTheMpiBlocks() {
    if (moves_by_hand()) [[unlikely]]
      begin();
  }
  ~WhileTheMpiBlocks() {
    if (thread_) [[unlikely]]
      end();
  }
  WhileTheMpiBlocks(const WhileTheMpiBlocks&) = delete;
  WhileTheMpiBlocks& operator=(const WhileTheMpiBlocks&) = delete;

 private:
  void begin();
  void end();
  bool thread_ = false;  ///< the engine's was started for this
};

}  // namespace ibcoll::mpi
