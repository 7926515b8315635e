#include "integrations/mpi/communicators.h"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace ibcoll::mpi {

namespace {

/// All that are there, and groups of those that are not any more.
struct Records {
  std::mutex mutex;
  std::set<Communicator*> live;
  std::vector<ibcoll_group*> retired;
  int keyval = 0;
  bool open = false;
  /// Identifiers that this process has given as the first rank of a communicator.
  std::atomic<uint64_t> given{0};
  /// How often a communicator has gone: what threads remember from before does not count.
  std::atomic<uint64_t> gone{0};
};

Records& records() {
  static auto* const all = new Records;  // the MPI may delete attributes when the process ends
  return *all;
}

/// The communicator that a thread has called on last.
struct Latest {
  Handle handle;
  uint64_t gone;
  const Communicator* record;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Latest g_latest = {};

/// The MPI may call this amid its own progress, which waits of the engine make: so the group is
/// freed later.
int forget(Handle, int, void* attribute, void*) {
  auto* const record = static_cast<Communicator*>(attribute);
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  all.live.erase(record);
  if (record->group != nullptr) all.retired.push_back(record->group);
  ++all.gone;
  delete record;
  return 0;
}

void free_retired() {
  std::vector<ibcoll_group*> retired;
  {
    const std::lock_guard lock(records().mutex);
    retired.swap(records().retired);
  }
  for (ibcoll_group* group : retired) {
    if (ibcoll_group_free(group) != IBCOLL_OK) say(ibcoll_last_error());
  }
}

/// Ranks of MPI_COMM_WORLD; empty where some are of none. The same on all members: either each of
/// them finds all others in its own world, or none does.
std::vector<int> world_ranks(Handle handle, int size) {
  const Library& mpi = library();
  std::vector<int> own(static_cast<size_t>(size)), world(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) own[i] = i;
  Handle of_world = 0, group = 0;
  mpi.Comm_group(mpi.constants.comm_world, &of_world);
  mpi.Comm_group(handle, &group);
  mpi.Group_translate_ranks(group, size, own.data(), of_world, world.data());
  mpi.Group_free(&group);
  mpi.Group_free(&of_world);
  for (const int rank : world)
    if (rank == mpi.constants.undefined) return {};
  return world;
}

/// Groups of the same ranks are told apart by a number that their first rank has not given before.
bool make_group(Job& job, Handle handle, Communicator& record, const std::vector<int>& ranks) {
  const Library& mpi = library();
  ibcoll_group_options options = {sizeof options, 0};
  if (record.rank == 0) options.id = ++records().given;
  if (mpi.Bcast(&options.id, 1, mpi.constants.type_uint64, 0, handle) != 0) return false;
  free_retired();
  if (ibcoll_group_create_with(job.context, ranks.data(), record.size, &options, &record.group) ==
      IBCOLL_OK)
    return true;
  say(ibcoll_last_error());
  mpi.Comm_call_errhandler(handle, mpi.constants.err_other);
  return false;
}

Communicator* make(Job& job, Handle handle) {
  const Library& mpi = library();
  auto* const record = new Communicator;
  int is_inter = 0;
  mpi.Comm_test_inter(handle, &is_inter);
  mpi.Comm_size(handle, &record->size);
  mpi.Comm_rank(handle, &record->rank);
  bool made = true;
  if (is_inter != 0) {
    record->reason = Reason::kBetweenGroups;
  } else if (record->size == 1) {
    record->reason = Reason::kOneRank;
  } else if (job.context == nullptr) {
    record->reason = Reason::kNoEngine;
  } else if (const std::vector<int> ranks = world_ranks(handle, record->size); ranks.empty()) {
    record->reason = Reason::kOtherWorld;
  } else {
    made = make_group(job, handle, *record, ranks);
  }
  if (made && mpi.Comm_set_attr(handle, records().keyval, record) == 0) {
    const std::lock_guard lock(records().mutex);
    records().live.insert(record);
    return record;
  }
  delete record;
  return nullptr;
}

}  // namespace

const Communicator* find_communicator(Job& job, Handle handle) {
  const uint64_t gone = records().gone.load(std::memory_order_acquire);
  if (g_latest.handle == handle && g_latest.gone == gone && g_latest.record != nullptr) [[likely]]
    return g_latest.record;
  const Library& mpi = library();
  if (handle == mpi.constants.comm_null) return nullptr;
  Communicator* record = nullptr;
  int found = 0;
  if (mpi.Comm_get_attr(handle, records().keyval, &record, &found) != 0) return nullptr;
  if (found == 0) record = make(job, handle);
  if (record != nullptr) g_latest = {handle, gone, record};
  return record;
}

bool begin_communicators() {
  return library().Comm_create_keyval(copy_nothing, forget, &records().keyval, nullptr) == 0;
}

void end_communicators() {
  std::set<Communicator*> live;
  {
    const std::lock_guard lock(records().mutex);
    live = records().live;
  }
  // The MPI may still call forget() for them.
  for (Communicator* record : live) {
    if (ibcoll_group* const group = std::exchange(record->group, nullptr))
      (void)ibcoll_group_free(group);
  }
  free_retired();
  library().Comm_free_keyval(&records().keyval);
}

}  // namespace ibcoll::mpi
