#pragma once
/// What a launcher (mpirun, mpiexec, srun) or host offers to its processes. Only as much of it as
/// it takes to find rank 0: all the rest goes over sockets and shared memory of our own.

#include <memory>
#include <string>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// The name of what rank 0 publishes, with the number of the broadcast.
inline constexpr const char* kRootKey = "ibcoll-root-{}";

class ProcessManager {
 public:
  /// Leaves in order: a launcher takes a process that ends without that for one that died.
  virtual ~ProcessManager() = default;
  /// The protocol, e.g. "PMIx".
  virtual std::string name() const = 0;
  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  /// Collective: rank 0's text (printable, no spaces, at most kMaxText bytes) for everybody.
  virtual Result<std::string> broadcast(const std::string& text) = 0;
  static constexpr size_t kMaxText = 1000;
};

/// The wire protocol PMI-1 as MPICH's and MVAPICH's mpiexec speak it, and srun --mpi=pmi2: over the
/// descriptor PMI_FD, or over a connection to PMI_PORT.
Result<std::unique_ptr<ProcessManager>> connect_pmi();

/// PMIx, as Open MPI's mpirun and srun --mpi=pmix speak it. libpmix is loaded when this is called,
/// so that programs start where there is none.
Result<std::unique_ptr<ProcessManager>> connect_pmix();

}  // namespace ibcoll
