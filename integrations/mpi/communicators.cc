#include "integrations/mpi/communicators.h"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "integrations/mpi/progress.h"
#include "integrations/mpi/sampling.h"

namespace ibcoll::mpi {

namespace {

/// All that are there, and groups of those that are not any more.
struct Records {
  std::mutex mutex;
  std::set<Communicator*> live;
  std::vector<Communicator*> retired;             ///< gone, but their groups are not
  std::set<std::pair<uint64_t, uint64_t>> names;  ///< list and identifier of this rank's groups
  // Identifiers that this rank gives as the first one of a group: those that can be given again, as
  // all its ranks have made a group of it and this rank has freed that, and the first new one.
  std::set<uint64_t> returned;
  uint64_t next = 1;
  int keyval = 0;
  std::atomic<bool> complained{false};  ///< that a group could not be made: once is enough
};

Records& records() {
  static auto* const all = new Records;  // the MPI may delete attributes when the process ends
  return *all;
}

/// How often a communicator has gone: what threads remember from before does not count.
std::atomic<uint64_t> g_gone{0};

/// The communicator that a thread has called on last.
struct Latest {
  Handle handle;
  uint64_t gone;
  Communicator* record;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Latest g_latest = {};

constexpr uint64_t kOfLine = uint64_t{1} << 63;
bool is_of_line(uint64_t id) { return (id & kOfLine) != 0; }

/// The MPI may call this amid its own progress, which waits of the engine make: so the group is
/// freed later.
int forget_communicator(Handle handle, int, void* attribute, void*) {
  auto* const record = static_cast<Communicator*>(attribute);
  // Operations that are under way report to it.
  if (record->uses > 1 && library().Comm_get_errhandler(handle, &record->handler) != 0)
    record->handler = 0;
  Records& all = records();
  {
    const std::lock_guard lock(all.mutex);
    all.live.erase(record);
    // Of those that were never called on no thread remembers anything.
    if (record->made) ++g_gone;
  }
  record->handle = 0;
  release(*record);
  return 0;
}

void free_retired() {
  std::vector<Communicator*> retired;
  Records& all = records();
  {
    const std::lock_guard lock(all.mutex);
    retired.swap(all.retired);
  }
  for (Communicator* const record : retired) {
    record->neighbours.reset();
    ibcoll_group* const group = record->group != nullptr ? record->group : record->former;
    if (ibcoll_group_free(group) != IBCOLL_OK) say(ibcoll_last_error());
    {
      const std::lock_guard lock(all.mutex);
      all.names.erase({record->list, record->id});
      if (record->rank == 0 && !is_of_line(record->id)) all.returned.insert(record->id);
    }
    if (Handle handler = record->handler; handler != 0) library().Errhandler_free(&handler);
    delete record;
  }
}

/// A number that no group led by this rank has.
uint64_t lead() {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  if (all.returned.empty()) return all.next++;
  return all.returned.extract(all.returned.begin()).value();
}

uint64_t hash_of(const std::vector<int>& ranks) {
  uint64_t hash = ranks.size();
  for (const int rank : ranks)
    hash = (hash ^ static_cast<uint64_t>(rank)) * 0x9e3779b97f4a7c15 + (hash >> 29);
  return hash;
}

/// How far a rank came with a number that was proposed; of all ranks the worst counts.
enum Step : uint64_t {
  kCreated,
  kUnmeasured,  ///< the same, but its calls are not to be measured, or there is no memory for that
  kNameTaken,   ///< by a group that this rank has not freed yet
  kRefused,     ///< by the engine: an earlier group of that number was ended before its time
  kImpossible,  ///< there is no memory, or the job is over
};

Step create(const Job& job, Communicator& record, const std::vector<int>& ranks) {
  Records& all = records();
  {
    const std::lock_guard lock(all.mutex);
    if (!all.names.insert({record.list, record.id}).second) return kNameTaken;
  }
  const ibcoll_group_options options = {sizeof options, record.id};
  const ibcoll_status status =
      ibcoll_group_create_with(job.context, ranks.data(), record.size, &options, &record.group);
  if (status == IBCOLL_OK) return record.sampling != nullptr ? kCreated : kUnmeasured;
  const std::lock_guard lock(all.mutex);
  all.names.erase({record.list, record.id});
  return status == IBCOLL_ERR_INVALID ? kRefused : kImpossible;
}

void undo(Communicator& record) {
  if (record.group == nullptr) return;
  (void)ibcoll_group_free(std::exchange(record.group, nullptr));
  const std::lock_guard lock(records().mutex);
  records().names.erase({record.list, record.id});
}

/// How the ranks of a communicator come to know the same: false where that fails.
class Agreement {
 public:
  /// By the MPI, or by a group of the same ranks that there is.
  Agreement(Handle handle, ibcoll_group* group) : handle_(handle), group_(group) {}
  /// What the first rank has.
  bool take_first(uint64_t& value) const {
    if (group_ != nullptr)
      return ibcoll_bcast(group_, &value, sizeof value, 0, nullptr) == IBCOLL_OK;
    const Library& mpi = library();
    const WhileTheMpiBlocks moving;
    return mpi.Bcast(&value, 1, mpi.constants.type_uint64, 0, handle_) == 0;
  }
  /// The highest of all.
  bool take_highest(const uint64_t& mine, uint64_t& highest) const {
    if (group_ != nullptr) {
      return ibcoll_allreduce(group_, &mine, &highest, 1, IBCOLL_UINT64, IBCOLL_MAX, nullptr) ==
             IBCOLL_OK;
    }
    const Library& mpi = library();
    const WhileTheMpiBlocks moving;
    return mpi.Allreduce(&mine, &highest, 1, mpi.constants.type_uint64, mpi.constants.op_max,
                         handle_) == 0;
  }

 private:
  Handle handle_;
  ibcoll_group* group_;
};

/// Makes the group, with a number that no group of the same ranks has on any of them: the first
/// rank proposes, and the others may not have freed an earlier one yet. Numbers are given again, so
/// that the engine need not remember many, but for those that some rank could not take: it counts
/// how many groups each rank has made of a number, by which it tells them apart. Where some rank
/// can't make one no rank does. false: they could not agree.
bool make_group(const Job& job, const Agreement& all, Communicator& record,
                const std::vector<int>& ranks) {
  constexpr int kMostRefusals = 64;
  const bool leads = record.rank == 0;
  record.list = hash_of(ranks);
  uint64_t here = 0, worst = kNameTaken;
  bool agreed = true;
  for (int refusals = 0; worst > kUnmeasured && worst != kImpossible && refusals < kMostRefusals;
       refusals += worst == kRefused ? 1 : 0) {
    free_retired();
    if (leads) record.id = lead();
    agreed = all.take_first(record.id);
    if (agreed) here = create(job, record, ranks);
    agreed = agreed && all.take_highest(here, worst);
    if (!agreed) worst = kImpossible;
    if (worst > kUnmeasured) undo(record);
  }
  if (worst != kCreated) record.sampling.reset();
  if (agreed && worst > kUnmeasured && here == worst && !records().complained.exchange(true))
    say(ibcoll_last_error());
  if (worst > kUnmeasured) record.id = 0;
  record.reason = Reason::kNoGroup;
  return agreed;
}

/// Ranks of MPI_COMM_WORLD; empty where some are of none. The same on all members: either each of
/// them finds all others in its own world, or none does.
std::vector<int> world_ranks(Handle handle, int size) {
  std::vector<int> world = ranks_in_world(handle, size);
  for (const int rank : world)
    if (rank == library().constants.undefined) return {};
  return world;
}

/// What is known of a communicator without its group. false: it has none, for its reason.
bool look_at(const Job& job, Handle handle, Communicator& record, std::vector<int>& ranks) {
  const Library& mpi = library();
  int is_inter = 0;
  mpi.Comm_test_inter(handle, &is_inter);
  mpi.Comm_size(handle, &record.size);
  mpi.Comm_rank(handle, &record.rank);
  if (is_inter != 0) {
    record.reason = Reason::kBetweenGroups;
  } else if (record.size == 1) {
    record.reason = Reason::kOneRank;
  } else if (job.context == nullptr) {
    record.reason = Reason::kNoEngine;
  } else if (ranks = world_ranks(handle, record.size); ranks.empty()) {
    record.reason = Reason::kOtherWorld;
  } else {
    return true;
  }
  return false;
}

/// Makes it an attribute. false: the MPI does not take it.
bool attach(Communicator& record, Handle handle) {
  record.handle = handle;
  if (library().Comm_set_attr(handle, records().keyval, &record) != 0) return false;
  const std::lock_guard lock(records().mutex);
  records().live.insert(&record);
  return true;
}

/// `known`: what there is; null: nothing.
Communicator* make(const Job& job, Handle handle, Communicator* known) {
  Communicator* const record = known != nullptr ? known : new Communicator;
  std::vector<int> ranks;
  const bool wants_group = look_at(job, handle, *record, ranks);
  if (wants_group) record->sampling = make_sampling(job, ranks, record->rank == 0);
  record->made = !wants_group || make_group(job, Agreement(handle, nullptr), *record, ranks);
  if (record->made && (known != nullptr || attach(*record, handle))) return record;
  undo(*record);
  if (known == nullptr) delete record;
  return nullptr;
}

/// By its line, without the other ranks. What this rank alone lacks ends the job of all.
Communicator* make_alone(const Job& job, Handle handle, Communicator& record) {
  std::vector<int> ranks;
  record.made = true;
  if (!look_at(job, handle, record, ranks)) return &record;
  record.list = hash_of(ranks);
  record.id = record.line | kOfLine;
  record.reason = Reason::kNoGroup;
  free_retired();
  record.sampling = make_sampling(job, ranks, record.rank == 0);
  const ibcoll_group_options options = {sizeof options, record.id};
  const char* lacks = record.sampling == nullptr && has_sampling(job) ? "out of memory" : nullptr;
  if (ibcoll_group_create_with(job.context, ranks.data(), record.size, &options, &record.group) !=
      IBCOLL_OK)
    lacks = ibcoll_last_error();
  if (lacks != nullptr) {
    record.lacks_group = true;
    (void)ibcoll_abort(job.context, lacks);
  }
  return &record;
}

/// Every bit of the result depends on each of the number's.
uint64_t scramble(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

/// Of a child. Never 0.
uint64_t line_of(uint64_t parent, uint64_t number) {
  return scramble(parent + 0x9e3779b97f4a7c15 * (number + 1)) | 1;
}

void note_line(Handle handle, uint64_t line) {
  auto* const record = new Communicator;
  record->line = line;
  if (!attach(*record, handle)) delete record;
}

/// The one that this thread has called on last, if it is that; else null.
Communicator* latest(Handle handle) {
  const uint64_t gone = g_gone.load(std::memory_order_acquire);
  return g_latest.handle == handle && g_latest.gone == gone ? g_latest.record : nullptr;
}

/// `waits`: for the others, if they have to agree.
[[gnu::noinline]] Communicator* look_up(const Job& job, Handle handle, bool waits) {
  const uint64_t gone = g_gone.load(std::memory_order_acquire);
  const Library& mpi = library();
  if (handle == mpi.constants.comm_null) return nullptr;
  Communicator* record = nullptr;
  int found = 0;
  if (mpi.Comm_get_attr(handle, records().keyval, &record, &found) != 0) return nullptr;
  if (found == 0) record = nullptr;
  if (record == nullptr || !record->made) {
    if (waits)
      record = make(job, handle, record);
    else if (record != nullptr)
      record = make_alone(job, handle, *record);
  }
  if (record != nullptr) g_latest = {handle, gone, record};
  return record;
}

}  // namespace

std::vector<int> ranks_in_world(Handle handle, int size) {
  const Library& mpi = library();
  std::vector<int> own(static_cast<size_t>(size)), world(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) own[i] = i;
  Handle of_world = 0, group = 0;
  mpi.Comm_group(the_job().world, &of_world);
  mpi.Comm_group(handle, &group);
  mpi.Group_translate_ranks(group, size, own.data(), of_world, world.data());
  mpi.Group_free(&group);
  mpi.Group_free(&of_world);
  return world;
}

Communicator* find_communicator(Job& job, Handle handle) {
  Communicator* const known = latest(handle);
  return known != nullptr ? known : look_up(job, handle, true);
}

Communicator* known_communicator(Job& job, Handle handle) {
  Communicator* const known = latest(handle);
  return known != nullptr ? known : look_up(job, handle, false);
}

void note_child(Handle parent, Handle child) {
  const Library& mpi = library();
  Communicator* record = nullptr;
  int found = 0;
  if (mpi.Comm_get_attr(parent, records().keyval, &record, &found) != 0 || found == 0 ||
      record->line == 0)
    return;
  const uint64_t number = record->children++;
  if (child != mpi.constants.comm_null) note_line(child, line_of(record->line, number));
}

void note_stray(Handle child) {
  const Library& mpi = library();
  int is_inter = 0, rank = 0;
  if (child == mpi.constants.comm_null) return;
  mpi.Comm_test_inter(child, &is_inter);
  mpi.Comm_rank(child, &rank);
  if (is_inter != 0) return;
  static std::atomic<uint64_t> made{0};  // with this rank as the first of them
  uint64_t line =
      rank != 0 ? 0 : line_of(line_of(0, static_cast<uint64_t>(the_job().rank)), ++made);
  if (mpi.Bcast(&line, 1, mpi.constants.type_uint64, 0, child) == 0) note_line(child, line);
}

Communicator* make_private(const Job& job, const Communicator& of) {
  auto* const record = new Communicator;
  record->rank = of.rank;
  record->size = of.size;
  if (make_group(job, Agreement(of.handle, of.group), *record, world_ranks(of.handle, of.size)))
    return record;
  delete record;
  return nullptr;
}

std::vector<Communicator*> live_communicators() {
  const std::lock_guard lock(records().mutex);
  std::vector<Communicator*> found;
  for (Communicator* const record : records().live)
    if (record->group != nullptr) found.push_back(record);
  return found;
}

Communicator* live_communicator(uint64_t list, uint64_t id) {
  const std::lock_guard lock(records().mutex);
  for (Communicator* const record : records().live)
    if (record->list == list && record->id == id) return record;
  return nullptr;
}

void release(Communicator& communicator) {
  if (communicator.uses.fetch_sub(1) != 1) return;
  if (communicator.group == nullptr && communicator.former == nullptr) {
    delete &communicator;
    return;
  }
  const std::lock_guard lock(records().mutex);
  records().retired.push_back(&communicator);
}

bool begin_communicators() {
  const Library& mpi = library();
  if (mpi.Comm_create_keyval(copy_nothing, forget_communicator, &records().keyval, nullptr) != 0)
    return false;
  note_line(the_job().whole, line_of(0, UINT64_MAX / 2));
  return true;
}

void end_communicators() {
  std::set<Communicator*> live;
  {
    const std::lock_guard lock(records().mutex);
    live = records().live;
  }
  // The MPI may still call forget_communicator() for them.
  for (Communicator* record : live) {
    record->neighbours.reset();
    for (ibcoll_group** const group : {&record->group, &record->former})
      if (*group != nullptr) (void)ibcoll_group_free(std::exchange(*group, nullptr));
  }
  free_retired();
  library().Comm_free_keyval(&records().keyval);
}

}  // namespace ibcoll::mpi
