#pragma once
/// The job of processes that belong to somebody else, such as an MPI library or a runtime of its
/// own.

#include <cstddef>
#include <memory>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/joined_job.h"

namespace ibcoll {

/// Whom the process belongs to: it numbers the processes of the job, and carries what it takes to
/// find rank 0.
class JobHost {
 public:
  virtual ~JobHost() = default;
  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  /// Blocking and collective: every rank gives `bytes` bytes, `all` receives everybody's in the
  /// order of ranks.
  virtual Status allgather(const void* mine, size_t bytes, void* all) = 0;
};

/// Collective over the host's processes: two or more allgathers of its, 64 bytes a rank, the rest
/// as join_through() does it. `options`: this rank's, or why it can't join, which is everybody's
/// error then. Ranks that disagree on the job's size are told (kMismatch). Leaves the process to
/// its host: see JoinOptions::hosted, which need not be set.
Result<std::unique_ptr<Bootstrap>> join_hosted(JobHost& host, Result<JoinOptions> options);

}  // namespace ibcoll
