#include "integrations/mpi/job.h"

#include <sched.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/config.h"
#include "integrations/mpi/allocated.h"
#include "integrations/mpi/collapse.h"
#include "integrations/mpi/communicators.h"
#include "integrations/mpi/datatypes.h"
#include "integrations/mpi/endings.h"
#include "integrations/mpi/operations.h"
#include "integrations/mpi/operators.h"
#include "integrations/mpi/progress.h"
#include "integrations/mpi/record.h"
#include "integrations/mpi/sampling.h"
#include "integrations/mpi/stand_in.h"
#include "integrations/mpi/world.h"

namespace ibcoll::mpi {

namespace {

std::atomic<Job*> g_running{nullptr};

MpiName mpi_name() { return {library().family, library().version}; }

/// What the user wants of this rank.
struct Wishes {
  Selection selection;
  bool has_named = false;  ///< functions
  bool reports = false, ordered = false, collapses = false;
  std::string report_file;
  SamplingWishes sampling;
};

Result<Wishes> read_wishes(int rank) {
  Wishes wishes;
  IBCOLL_ASSIGN(const std::string mode, config_choice("IBCOLL_MPI"));
  IBCOLL_ASSIGN(const std::string functions, config_string("IBCOLL_MPI_FUNCTIONS"));
  IBCOLL_ASSIGN(wishes.report_file, config_string("IBCOLL_MPI_REPORT"));
  IBCOLL_ASSIGN(wishes.collapses, config_bool("IBCOLL_MPI_COLLAPSE"));
  wishes.reports = mode == "report" || !wishes.report_file.empty();
  IBCOLL_ASSIGN(wishes.ordered, config_bool("IBCOLL_MPI_ORDERED"));
  IBCOLL_ASSIGN(wishes.selection, selection_of(functions));
  wishes.has_named = !functions.empty();
  if (mode == "off") return Wishes{};
  IBCOLL_ASSIGN(const std::string sampling, config_choice("IBCOLL_MPI_SAMPLING"));
  IBCOLL_ASSIGN(const std::string learned, config_string("IBCOLL_LEARNED"));
  wishes.sampling.samples = sampling == "on";
  IBCOLL_ASSIGN(wishes.sampling.learns, config_bool("IBCOLL_LEARN"));
  if (rank != 0 || learned.empty() || wishes.has_named) return wishes;
  std::error_code none;
  wishes.sampling.writes_file = !std::filesystem::exists(learned, none);
  if (!wishes.sampling.writes_file) {
    IBCOLL_ASSIGN(wishes.sampling.of_file, read_decisions(learned, mpi_name()));
  }
  return wishes;
}

int allgather(void* host, const void* mine, size_t bytes, void* all) {
  const Library& mpi = library();
  const Handle byte = mpi.constants.type_byte;
  const int count = static_cast<int>(bytes);
  return mpi.Allgather(mine, count, byte, all, count, byte, static_cast<Job*>(host)->world);
}

void progress(void* host) { move_the_mpi(*static_cast<Job*>(host)); }

void begin_progress(Job& job) {
  const Library& mpi = library();
  mpi.Irecv(nullptr, 0, mpi.constants.type_byte, 0, 0, job.alone, &job.pending);
}
void end_progress(Job& job) {
  const Library& mpi = library();
  mpi.Send(nullptr, 0, mpi.constants.type_byte, 0, 0, job.alone);
  mpi.Wait(&job.pending, mpi.constants.status_ignore);
}

/// What `value` is combined to over all ranks.
uint64_t combine(const Job& job, uint64_t value, Handle op) {
  const Library& mpi = library();
  uint64_t combined = value;
  mpi.Allreduce(&value, &combined, 1, mpi.constants.type_uint64, op, job.world);
  return combined;
}

/// Collective. true: nothing failed on any rank; else the first one where something did says what.
bool all_good(const Job& job, bool good, const char* line) {
  const auto rank = static_cast<uint64_t>(job.rank), size = static_cast<uint64_t>(job.size);
  const uint64_t first = combine(job, good ? size : rank, library().constants.op_min);
  if (first == rank) say(line);
  return first == size;
}

/// Collective: what all ranks choose.
void agree(Job& job, const Selection& own) {
  const ibcoll_mpi_constants& mpi = library().constants;
  job.selection = own;
  job.selection.functions = combine(job, own.functions, mpi.op_band);
  if (combine(job, own.has_range, mpi.op_max) == 0) return;
  for (SizeRange& range : job.selection.sizes) {
    range.low = combine(job, range.low, mpi.op_max);
    range.high = combine(job, range.high, mpi.op_min);
  }
  look_at_sizes(job.selection);
}

/// Collective: where nobody has chosen functions, calls go to whoever is faster, as far as that is
/// wanted.
void choose_by_time(Job& job, const Result<Wishes>& wishes) {
  const Library& mpi = library();
  const bool has_named = !wishes || wishes->has_named;
  const bool may_choose =
      combine(job, has_named ? 1 : 0, mpi.constants.op_max) == 0 && job.context != nullptr;
  begin_sampling(job, wishes ? wishes->sampling : SamplingWishes{}, may_choose);
  if (job.samples && job.reductions.ordered == 0 && ibcoll_servers(job.context) == 1)
    leave_what_is_faster(job.selection, mpi.family);
}

/// Collective; the same result on all ranks.
void join(Job& job) {
  ibcoll_bootstrap host = {};
  host.struct_size = sizeof host;
  host.rank = job.rank;
  host.size = job.size;
  host.host = &job;
  host.allgather = allgather;
  host.progress = progress;
  begin_progress(job);
  ibcoll_context* context = nullptr;
  const bool joined = ibcoll_init_with(&host, &context) == IBCOLL_OK;
  if (!all_good(job, joined, joined ? "" : ibcoll_last_error())) {
    if (job.rank == 0) say("there is no engine: all collectives stay with the MPI");
    if (joined) (void)ibcoll_finalize(context);
    return end_progress(job);
  }
  bool has_thread = config_bool("IBCOLL_PROGRESS_THREAD").value_or(false);
  if (has_threads(job)) {
    (void)ibcoll_set_thread_level(context, IBCOLL_THREAD_MULTIPLE);
    if (!mpi_calls_back()) has_thread |= ibcoll_set_progress_thread(context, 1) == IBCOLL_OK;
  }
  job.has_thread_of_its_own = has_thread;
  job.context = context;
}

std::vector<ibcoll_learned_way> learned_ways(const ibcoll_context* context) {
  std::vector<ibcoll_learned_way> all;
  ibcoll_learned_way way = IBCOLL_LEARNED_WAY_INIT;
  while (context != nullptr &&
         ibcoll_get_learned_way(context, static_cast<int>(all.size()), &way) == IBCOLL_OK)
    all.push_back(way);
  return all;
}

void tell(const Job& job, const std::vector<Decision>& decisions, const std::string& file,
          bool table) {
  const Library& mpi = library();
  const Counts mine = job.counters.read();
  Counts sums = {};
  static_assert(sizeof(Counts) % sizeof(uint64_t) == 0);
  mpi.Reduce(&mine, &sums, sizeof(Counts) / sizeof(uint64_t), mpi.constants.type_uint64,
             mpi.constants.op_sum, 0, job.world);
  if (job.rank != 0) return;
  const ReportHead head = {mpi.family,
                           mpi.version,
                           job.context == nullptr ? "no engine" : ibcoll_transport(job.context),
                           job.size,
                           job.context == nullptr ? 0 : ibcoll_servers(job.context),
                           learned_ways(job.context)};
  if (table) std::fputs(report_text(head, sums, decisions).c_str(), stderr);
  if (file.empty()) return;
  if (const Status written = write_report(file, head, sums, decisions); !written)
    say(written.error().message.c_str());
}

void write_learned(const std::vector<Decision>& decisions) {
  const Result<std::string> file = config_string("IBCOLL_LEARNED");
  if (!file || file->empty()) return;
  if (const Status written = write_decisions(*file, mpi_name(), decisions); !written)
    say(written.error().message.c_str());
}

/// A barrier of the MPI's. Those who have not come yet may wait for what this rank says of a
/// communicator.
void wait_for_all(const Job& job) {
  static auto* const barrier = original_of<int(Handle, Handle*)>("PMPI_Ibarrier");
  const Library& mpi = library();
  Handle request = 0;
  if (barrier(job.world, &request) != 0) return;
  for (int done = 0; done == 0; sched_yield()) {
    poll_operations();
    if (job.context != nullptr) hear_of_ends(job, true);
    if (mpi.Test(&request, &done, mpi.constants.status_ignore) != 0) return;
  }
}

}  // namespace

void begin_job(bool for_sessions) {
  const Library& mpi = library();
  if (mpi.unusable != nullptr) return say(mpi.unusable);
  const Inside inside;
  Job& job = the_job();
  job.context = nullptr;  // sessions may begin again
  job.has_thread_of_its_own = false;
  if (!for_sessions)
    take_world(job);
  else if (!take_world_of_session(job))
    return say("the MPI gives no communicator of mpi://WORLD: all collectives stay with it");
  const Result<Wishes> wishes = read_wishes(job.rank);
  begin_record(job);
  if (!all_good(job, wishes.has_value(), wishes ? "" : wishes.error().message.c_str()) &&
      job.rank == 0)
    say("all collectives stay with the MPI");
  // Ranks that were started with different environments do the same all the same.
  agree(job, wishes ? wishes->selection : Selection{});
  const bool ordered = combine(job, wishes && wishes->ordered ? 1 : 0, mpi.constants.op_max) != 0;
  job.reductions.ordered = ordered ? 1 : 0;
  job.reports = combine(job, wishes && wishes->reports ? 1 : 0, mpi.constants.op_max) != 0;
  const bool wanted = job.selection.functions != 0 || job.reports;
  const bool keeps = wanted && begin_communicators() && begin_datatypes(job);
  if (combine(job, keeps ? 1 : 0, mpi.constants.op_band) == 0) {
    if (!is_recording()) free_world(job);
    return;
  }
  if (job.selection.functions != 0 && job.size > 1) join(job);
  choose_by_time(job, wishes);
  begin_collapse(wishes && wishes->collapses && job.context != nullptr);
  g_running.store(&job, std::memory_order_release);
}

void end_job() {
  Job* const job = g_running.exchange(nullptr);
  if (job == nullptr && !is_recording()) return;
  const Inside inside;
  if (job == nullptr) {
    end_record();
    return free_world(the_job());
  }
  end_operations();
  // Leaving the job waits for the others, who may still need this rank's part in messages of the
  // MPI's: nobody is left for whom that is so once all have come here.
  wait_for_all(*job);
  take_last_words(*job);
  stop_moving();
  end_record();
  std::vector<Decision> decisions;
  if (job->reports || job->writes_decisions) decisions = gather_decisions(*job);
  if (job->rank == 0 && job->writes_decisions) write_learned(decisions);
  if (job->reports) {
    const Result<std::string> file = config_string("IBCOLL_MPI_REPORT");
    const Result<std::string> mode = config_choice("IBCOLL_MPI");
    tell(*job, decisions, file ? *file : "", mode && *mode == "report");
  }
  end_communicators();
  end_operators(*job);
  end_datatypes();
  if (job->context != nullptr) {
    const AllocatedStays stays;
    if (ibcoll_finalize(job->context) != IBCOLL_OK) say(ibcoll_last_error());
    end_progress(*job);
  }
  free_world(*job);
}

Job& the_job() {
  static auto* const job = new Job;  // the MPI may still call when the process ends
  return *job;
}

/// A test of one request moves all of them. (A probe does not everywhere.)
void move_the_mpi(Job& job) {
  const Library& mpi = library();
  if (job.testing.test_and_set(std::memory_order_acquire)) return;
  const Inside inside;
  const WithoutPolling waiting;
  int done = 0;
  mpi.Test(&job.pending, &done, mpi.constants.status_ignore);
  // Seldom, as hardly anybody ever says anything.
  constexpr uint32_t kTestsBetween = 64;
  if (++job.moves % kTestsBetween == 0) hear_of_ends(job, false);
  job.testing.clear(std::memory_order_release);
}

Job* running_job() { return g_running.load(std::memory_order_acquire); }

int copy_nothing(Handle, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return 0;
}

void say(const char* line) {
  constexpr std::string_view kName = "ibcoll: ";  // the engine's own lines begin with it
  if (std::string_view(line).starts_with(kName)) line += kName.size();
  std::fprintf(stderr, "ibcoll: %s\n", line);
}

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

IBCOLL_MPI_STANDS_IN(Init, (int* argc, char*** argv), {
  static auto* const original = original_of<int(int*, char***)>("PMPI_Init");
  if (Inside::is()) return original(argc, argv);
  const int done = original(argc, argv);
  if (done == 0 && running_job() == nullptr) begin_job(false);
  return done;
})

IBCOLL_MPI_STANDS_IN(Init_thread, (int* argc, char*** argv, int required, int* provided), {
  static auto* const original = original_of<int(int*, char***, int, int*)>("PMPI_Init_thread");
  if (Inside::is()) return original(argc, argv, required, provided);
  const int done = original(argc, argv, required, provided);
  if (done == 0 && running_job() == nullptr) begin_job(false);
  return done;
})

IBCOLL_MPI_STANDS_IN(Finalize, (void), {
  static auto* const original = original_of<int()>("PMPI_Finalize");
  const Job* const job = running_job();
  if (!Inside::is() && (job == nullptr || job->session == 0)) end_job();
  return original();
})
