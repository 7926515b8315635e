#include "integrations/mpi/sampling.h"

#include <mutex>
#include <new>
#include <set>

#include "integrations/mpi/job.h"
#include "integrations/mpi/stand_in.h"

namespace ibcoll::mpi {

namespace {

/// Those whose rank 0 this is, and what others, which are gone, have come to.
struct Records {
  std::mutex mutex;
  std::set<const Sampling*> live;
  std::vector<Decision> gone;
};

Records& records() {
  static auto* const all = new Records;  // the MPI may delete communicators when the process ends
  return *all;
}

int servers_of(const Job& job, const std::vector<int>& ranks) {
  std::set<int> servers;
  for (const int rank : ranks) servers.insert(ibcoll_server_of(job.context, rank));
  return static_cast<int>(servers.size());
}

/// Fewer than 2^31 at a time, as MPI counts them.
int bytes_of(const std::vector<Decision>& decisions) {
  return static_cast<int>(decisions.size() * sizeof(Decision));
}

}  // namespace

void Sample::end() const {
  const int64_t took = time_ns() - began;
  if (look != nullptr) Contest::end(*look, *call, took);
}

Sampling::Sampling(const Job& job, int ranks, int servers, bool leads)
    : job_(job), ranks_(ranks), servers_(servers), leads_(leads), is_exact_(!job.samples_inexact) {
  constexpr Contest kEngines(Candidate::kEngine);
  if (!job.samples) contests_.fill(kEngines);
  for (const Function function : kCollectives) {
    if (!is_measured(function)) continue;
    Contest& first = contests_[static_cast<size_t>(cell_of(function, 0))];
    if (has_classes(function))
      first = kEngines;  // calls without data come to nobody
    else if (moves_data(function) && job.samples)
      first = Contest::of_any_size();
  }
  for (const Decision& decision : job.decided) {
    if (decision.ranks != ranks || decision.servers != servers) continue;
    const auto function = static_cast<size_t>(decision.function);
    const uint32_t bit = uint32_t{1} << decision.size_class;
    if (decision.is_exact != 0) {
      contests_[static_cast<size_t>(cell_of(decision.function, decision.size_class))] =
          Contest(decision.kept);
    } else {
      inexact_[function] |= bit;
      if (decision.kept == Candidate::kMpi) inexact_by_mpi_[function] |= bit;
    }
  }
  if (!leads) return;
  const std::lock_guard lock(records().mutex);
  records().live.insert(this);
}

Sampling::~Sampling() {
  if (!leads_) return;
  Records& all = records();
  std::vector<Decision> own = decisions();
  const std::lock_guard lock(all.mutex);
  all.live.erase(this);
  all.gone.insert(all.gone.end(), own.begin(), own.end());
  all.gone = merged(std::move(all.gone));
}

Candidate Sampling::begin(int cell, uint8_t size_class, ibcoll_group* group, Sample& sample) {
  Contest& contest = contests_[static_cast<size_t>(cell)];
  std::unique_ptr<Look>& look = looks_[static_cast<size_t>(cell)];
  if (contest.must_agree()) agree(contest, look.get(), group);
  if (contest.passes()) return contest.kept();
  if (look == nullptr && !contest.is_fixed()) look.reset(new (std::nothrow) Look);
  const LookedAt* const call = contest.looked_at(look.get(), size_class);
  if (call == nullptr) return contest.kept();
  // Who is ahead of the others by what the other candidate has left to do waits for them: that is
  // no part of this one's calls. If the group is over the call says so.
  if (call->begins) (void)ibcoll_barrier(group, nullptr);
  sample = {call, look.get(), time_ns()};
  return call->who;
}

void Sampling::agree(Contest& contest, Look* look, ibcoll_group* group) {
  const Times mine = contest.proposed(look);
  Times slowest = {};
  const ibcoll_status status = ibcoll_allreduce(group, mine.data(), slowest.data(), mine.size(),
                                                IBCOLL_UINT32, IBCOLL_MAX, nullptr);
  // A group that is over says so in the calls that follow.
  if (status == IBCOLL_OK)
    contest.settle(look, slowest);
  else
    contest.stop_measuring();
}

std::vector<Decision> Sampling::decisions() const {
  std::vector<Decision> made;
  const auto add = [&](Function function, int size_class) {
    const auto cell = static_cast<size_t>(cell_of(function, size_class));
    const Contest& contest = contests_[cell];
    const uint64_t calls = contest.calls(looks_[cell].get());
    if (calls != 0)
      made.push_back({ranks_, servers_, function, static_cast<uint8_t>(size_class), contest.kept(),
                      0, is_exact_ ? uint8_t{1} : uint8_t{0},
                      looks_[cell] != nullptr ? looks_[cell]->found : Times{}, calls});
  };
  for (const Function function : kCollectives)
    for (int i = 0; i < kSizeClasses; ++i)
      if (has_class(function, i)) add(function, i);
  // What the file has said of them.
  for (Decision& each : made)
    for (const Decision& decided : job_.decided)
      if (decided.is_exact != 0 && decided.function == each.function &&
          decided.size_class == each.size_class && decided.ranks == ranks_ &&
          decided.servers == servers_) {
        each.is_of_file = 1;
        each.found = decided.found;
      }
  std::erase_if(made,
                [](const Decision& each) { return each.is_of_file == 0 && each.found == Times{}; });
  return made;
}

void begin_sampling(Job& job, SamplingWishes wishes, bool may_choose) {
  const Library& mpi = library();
  uint64_t samples = wishes.samples ? 1 : 0, all_sample = 0;
  mpi.Allreduce(&samples, &all_sample, 1, mpi.constants.type_uint64, mpi.constants.op_min,
                job.world);
  // Processes that were spawned have the environment of those that spawned them, and their file.
  Handle parent = mpi.constants.comm_null;
  if (job.session == 0) mpi.Comm_get_parent(&(parent = 0));
  const bool writes = wishes.writes_file && mpi.clean(parent) == mpi.constants.comm_null;
  uint64_t head[] = {wishes.of_file.size(), writes ? 1UL : 0};
  mpi.Bcast(head, 2, mpi.constants.type_uint64, 0, job.world);
  wishes.of_file.resize(head[0]);
  mpi.Bcast(wishes.of_file.data(), bytes_of(wishes.of_file), mpi.constants.type_byte, 0, job.world);
  job.samples = may_choose && all_sample != 0;
  job.decided.clear();
  if (may_choose) job.decided = std::move(wishes.of_file);
  job.writes_decisions = job.samples && head[1] != 0;
}

bool has_sampling(const Job& job) { return job.samples || !job.decided.empty(); }

std::shared_ptr<Sampling> make_sampling(const Job& job, const std::vector<int>& ranks, bool leads) {
  if (!has_sampling(job)) return nullptr;
  try {
    return std::make_shared<Sampling>(job, static_cast<int>(ranks.size()), servers_of(job, ranks),
                                      leads);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::vector<Decision> gather_decisions(const Job& job) {
  const Library& mpi = library();
  std::vector<Decision> all;
  {
    Records& own = records();
    const std::lock_guard lock(own.mutex);
    all.swap(own.gone);
    for (const Sampling* each : own.live) {
      const std::vector<Decision> made = each->decisions();
      all.insert(all.end(), made.begin(), made.end());
    }
  }
  all = merged(std::move(all));
  uint64_t count = all.size();
  if (job.rank != 0) {
    mpi.Send(&count, 1, mpi.constants.type_uint64, 0, 0, job.world);
    mpi.Send(all.data(), bytes_of(all), mpi.constants.type_byte, 0, 0, job.world);
    return {};
  }
  for (int from = 1; from < job.size; ++from) {
    mpi.Recv(&count, 1, mpi.constants.type_uint64, from, 0, job.world, mpi.constants.status_ignore);
    const size_t before = all.size();
    all.resize(before + count);
    mpi.Recv(all.data() + before, static_cast<int>(count * sizeof(Decision)),
             mpi.constants.type_byte, from, 0, job.world, mpi.constants.status_ignore);
  }
  return merged(std::move(all));
}

}  // namespace ibcoll::mpi
