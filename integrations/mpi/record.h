#pragma once
/// Who sends how many bytes to whom in the program, for ib_map: what IBCOLL_MPI_RECORD asks for.

#include <atomic>
#include <vector>

#include "integrations/mpi/job.h"

namespace ibcoll::mpi {

/// What is to be done with calls that would be recorded.
enum class Recording : uint8_t {
  kUndecided,  ///< before MPI_Init has come back
  kOff,
  kOn,
};
namespace detail {
inline constinit std::atomic<Recording> g_recording{Recording::kUndecided};
}
inline Recording recording() { return detail::g_recording.load(std::memory_order_relaxed); }
inline bool is_recording() { return recording() == Recording::kOn; }

/// Held by a thread that makes a call which is noted: those that the MPI or this library make
/// inside of it are part of it.
using Noting = OnThisThread<struct MakingANotedCall>;

/// Whether a call that is made now is to be noted.
inline bool notes() { return is_recording() && !Noting::is() && !Inside::is(); }

/// In MPI_Init and MPI_Finalize, collective. Rank 0's setting counts.
void begin_record(const Job& job);
/// Rank 0 writes what all have noted.
void end_record();

/// What this rank sends to another one of MPI_COMM_WORLD.
struct Flow {
  int to;
  uint64_t bytes;
};
using Flows = std::vector<Flow>;

/// A call that went well.
void note(const Flows& flows);
/// Persistent requests, where the program has them: their flows are noted each time they are
/// started.
void note_persistent(const void* request, Flows flows);
void note_request_freed(const void* request);
/// Around a call that starts requests: the MPI may give them other handles.
class NoteOfStart {
 public:
  NoteOfStart(const void* requests, int count);
  /// What came of the call.
  int seen(int code) const;

 private:
  const void* const requests_;
  std::vector<Handle> before_;
};

/// A communicator's ranks in MPI_COMM_WORLD. What goes to the rank itself, between groups, or to
/// processes of another MPI_COMM_WORLD, is not recorded: such ranks are -1.
struct Places {
  int rank = 0;
  std::vector<int> world;  ///< empty: an intercommunicator

  /// -1, too, where there is no such rank.
  int in_world(int peer) const {
    return peer < 0 || static_cast<size_t>(peer) >= world.size() ? -1
                                                                 : world[static_cast<size_t>(peer)];
  }
};
/// Null for what is no communicator. Kept with it.
const Places* find_places(Handle comm);

uint64_t bytes_of(Count count, Handle type);

}  // namespace ibcoll::mpi

/// At the beginning of a function that stands in for the MPI's: a call that is to be noted is made
/// from here, and once it has gone well `note` is carried out. `given`: the arguments' names.
#define IBCOLL_MPI_NOTES(name, given, note)  \
  if (::ibcoll::mpi::notes()) [[unlikely]] { \
    const ::ibcoll::mpi::Noting noting;      \
    const int code = name given;             \
    if (code == 0) {                         \
      note;                                  \
    }                                        \
    return code;                             \
  }
