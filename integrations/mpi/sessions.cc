// Programs that have sessions alone (MPI 4.0, chapter 11): the job begins with the first
// communicator that they make of all processes, and ends with their last session.

#include "integrations/mpi/stand_in.h"

namespace ibcoll::mpi {

namespace {

struct Sessions {
  std::atomic<int> open{0};            ///< of the program's
  std::atomic<int> processes{0};       ///< of mpi://WORLD
  std::atomic<bool> has_begun{false};  ///< a job, whatever has come of it
};

Sessions& sessions() {
  static auto* const all = new Sessions;
  return *all;
}

int processes_of_world(Handle session) {
  const Library& mpi = library();
  Handle all = 0;
  int size = 0;
  if (mpi.Group_from_session_pset(session, "mpi://WORLD", &all) != 0) return 0;
  mpi.Group_size(all, &size);
  mpi.Group_free(&all);
  return size;
}

bool is_initialized() {
  static auto* const initialized = original_of<int(int*)>("PMPI_Initialized");
  int is = 0;
  initialized(&is);
  return is != 0;
}

/// Whether the program makes its first communicator of all processes: which all of these know.
bool begins_with(Handle comm) {
  const Library& mpi = library();
  if (mpi.unusable != nullptr || running_job() != nullptr || sessions().has_begun ||
      is_initialized() || comm == mpi.constants.comm_null)
    return false;
  int size = 0;
  mpi.Comm_size(comm, &size);
  return size == sessions().processes && !sessions().has_begun.exchange(true);
}

}  // namespace

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

IBCOLL_MPI_STANDS_IN(Session_init, (Handle info, Handle errhandler, void* session), {
  static auto* const original = original_of<int(Handle, Handle, void*)>("PMPI_Session_init");
  const int code = original(info, errhandler, session);
  if (code != 0 || Inside::is() || library().unusable != nullptr) return code;
  const Inside inside;
  sessions().processes = processes_of_world(library().handle_at(session, 0));
  ++sessions().open;
  return code;
})

IBCOLL_MPI_STANDS_IN(Session_finalize, (void* session), {
  static auto* const original = original_of<int(void*)>("PMPI_Session_finalize");
  if (Inside::is() || library().unusable != nullptr || --sessions().open != 0)
    return original(session);
  const Job* const job = running_job();
  if (job == nullptr ? sessions().has_begun.load() : job->session != 0) end_job();
  sessions().has_begun = false;
  return original(session);
})

namespace {

int create_from_group(Handle group, const char* tag, Handle info, Handle errhandler, void* comm) {
  static auto* const original =
      original_of<int(Handle, const char*, Handle, Handle, void*)>("PMPI_Comm_create_from_group");
  const WhileTheMpiBlocks moving;
  return original(group, tag, info, errhandler, comm);
}

}  // namespace

IBCOLL_MPI_STANDS_IN(Comm_create_from_group,
                     (Handle group, const char* tag, Handle info, Handle errhandler, void* comm), {
                       const int code = create_from_group(group, tag, info, errhandler, comm);
                       if (code == 0 && !Inside::is() && begins_with(library().handle_at(comm, 0)))
                         begin_job(true);
                       return code;
                     })
