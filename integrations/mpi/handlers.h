#pragma once
/// Error handlers of the program's. One need not come back: it may leave by longjmp, which runs no
/// destructors, or by an exception. So nothing is held when one runs:
/// - what this library has found is told behind everything else that a function does (tell());
/// - what the MPI has found, it tells where it likes: such handlers are wrapped (handlers.cc).

#include "integrations/mpi/communicators.h"

namespace ibcoll::mpi {

/// Tells a communicator's error handler. Nothing may be held.
void tell(Handle comm, int code);

/// An error that a function comes back with, as it is told when the function is done.
class Untold {
 public:
  bool is() const { return on_ != nullptr; }
  int code() const { return code_; }
  /// Of an operation on that communicator, which the program may free meanwhile. Only the first
  /// counts.
  void set(Communicator& on, int code);
  void tell();

 private:
  Communicator* on_ = nullptr;  ///< in use
  int code_ = 0;
};

/// Whether the communicator's errors end the job: nothing is gained by telling such a handler
/// later.
bool is_fatal_on(const Communicator& on);

}  // namespace ibcoll::mpi
