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
  std::vector<Communicator> retired;              ///< gone, but their groups are not
  std::set<std::pair<uint64_t, uint64_t>> names;  ///< list and identifier of this rank's groups
  std::set<uint64_t> led;  ///< identifiers that this rank has given, as the first one of a group
  int keyval = 0;
  bool open = false;
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
  if (record->group != nullptr) all.retired.push_back(*record);
  ++all.gone;
  delete record;
  return 0;
}

void free_retired() {
  std::vector<Communicator> retired;
  Records& all = records();
  {
    const std::lock_guard lock(all.mutex);
    retired.swap(all.retired);
  }
  for (const Communicator& record : retired) {
    if (ibcoll_group_free(record.group) != IBCOLL_OK) say(ibcoll_last_error());
    const std::lock_guard lock(all.mutex);
    all.names.erase({record.list, record.id});
    if (record.rank == 0) all.led.erase(record.id);
  }
}

/// The lowest number that no group led by this rank has.
uint64_t lead() {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  uint64_t id = 1;
  for (const uint64_t taken : all.led) {
    if (taken != id) break;
    ++id;
  }
  all.led.insert(id);
  return id;
}

bool take_name(const Communicator& record) {
  const std::lock_guard lock(records().mutex);
  return records().names.insert({record.list, record.id}).second;
}
void drop_name(const Communicator& record) {
  const std::lock_guard lock(records().mutex);
  records().names.erase({record.list, record.id});
}

/// Agrees on a number that no group of the same ranks has on any of them: the first rank proposes,
/// and the others may not have freed an earlier one yet. So numbers are given again, and the engine
/// need not remember many.
bool name(Handle handle, Communicator& record) {
  const Library& mpi = library();
  const Handle number = mpi.constants.type_uint64;
  std::vector<uint64_t> refused;
  uint64_t somewhere = 1;
  while (somewhere != 0) {
    free_retired();
    if (record.rank == 0) record.id = lead();
    if (mpi.Bcast(&record.id, 1, number, 0, handle) != 0) return false;
    const bool taken = take_name(record);
    const uint64_t here = taken ? 0 : 1;
    if (mpi.Allreduce(&here, &somewhere, 1, number, mpi.constants.op_max, handle) != 0)
      return false;
    if (somewhere == 0) break;
    if (taken) drop_name(record);
    refused.push_back(record.id);
  }
  if (record.rank == 0) {
    const std::lock_guard lock(records().mutex);
    for (const uint64_t id : refused) records().led.erase(id);
  }
  return true;
}

uint64_t hash_of(const std::vector<int>& ranks) {
  uint64_t hash = ranks.size();
  for (const int rank : ranks)
    hash = (hash ^ static_cast<uint64_t>(rank)) * 0x9e3779b97f4a7c15 + (hash >> 29);
  return hash;
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

bool make_group(Job& job, Handle handle, Communicator& record, const std::vector<int>& ranks) {
  const Library& mpi = library();
  record.list = hash_of(ranks);
  if (!name(handle, record)) return false;
  const ibcoll_group_options options = {sizeof options, record.id};
  if (ibcoll_group_create_with(job.context, ranks.data(), record.size, &options, &record.group) ==
      IBCOLL_OK)
    return true;
  say(ibcoll_last_error());
  mpi.Comm_call_errhandler(handle, mpi.constants.err_other);
  drop_name(record);
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
