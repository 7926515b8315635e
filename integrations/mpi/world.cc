#include "integrations/mpi/world.h"

#include <string>

namespace ibcoll::mpi {

namespace {

/// A communicator of a process set. Collective over its processes.
bool make_communicator(Handle session, const char* set, const char* tag, Handle& made) {
  const Library& mpi = library();
  Handle group = 0;
  if (mpi.Group_from_session_pset(session, set, &group) != 0) return false;
  const bool good = mpi.Comm_create_from_group(group, tag, mpi.constants.info_null,
                                               mpi.constants.errors_return, &made) == 0;
  mpi.Group_free(&group);
  return good;
}

}  // namespace

void take_world(Job& job) {
  const Library& mpi = library();
  job.session = 0;
  job.whole = mpi.constants.comm_world;
  mpi.Comm_dup(mpi.constants.comm_world, &job.world);
  mpi.Comm_dup(mpi.constants.comm_self, &job.alone);
  mpi.Comm_set_errhandler(job.alone, mpi.constants.errors_return);
  mpi.Comm_rank(job.world, &job.rank);
  mpi.Comm_size(job.world, &job.size);
}

bool take_world_of_session(Job& job) {
  const Library& mpi = library();
  job.session = 0;
  if (mpi.Session_init(mpi.constants.info_null, mpi.constants.errors_return, &job.session) != 0)
    return false;
  if (!make_communicator(job.session, "mpi://WORLD", "ibcoll.world", job.world) ||
      !make_communicator(job.session, "mpi://SELF", "ibcoll.alone", job.alone))
    return false;
  job.whole = job.world;
  mpi.Comm_rank(job.world, &job.rank);
  mpi.Comm_size(job.world, &job.size);
  return true;
}

void free_world(Job& job) {
  const Library& mpi = library();
  mpi.Comm_free(&job.alone);
  mpi.Comm_free(&job.world);
  if (job.session != 0) mpi.Session_finalize(&job.session);
  job.session = 0;
}

bool has_threads(const Job& job) {
  const Library& mpi = library();
  if (job.session == 0) {
    int level = 0;
    mpi.Query_thread(&level);
    return level == mpi.constants.thread_multiple;
  }
  constexpr int kLongest = 64;
  std::string level(kLongest + 1, '\0');
  Handle info = 0;
  int found = 0;
  if (mpi.Session_get_info(job.session, &info) != 0) return true;
  const int code = mpi.Info_get(info, "thread_level", kLongest, level.data(), &found);
  mpi.Info_free(&info);
  return code != 0 || found == 0 || level.c_str() == std::string("MPI_THREAD_MULTIPLE");
}

}  // namespace ibcoll::mpi
