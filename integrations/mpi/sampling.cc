#include "integrations/mpi/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
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

/// The engine's calls by that algorithm.
ibcoll_options options_by(const char* algorithm) {
  ibcoll_options options = IBCOLL_OPTIONS_INIT;
  options.algorithm = algorithm;
  return options;
}

/// What looks have found of the engine's own choice, the MPI, and another algorithm if it is kept.
void take_findings(const Look& look, const std::array<ibcoll_options, kMostOthers>& others,
                   Decision& decision) {
  std::copy_n(look.found.begin(), decision.found.size(), decision.found.begin());
  if (!is_other(decision.kept)) return;
  const char* const name = others[other_of(decision.kept)].algorithm;
  if (name != nullptr) {
    std::strncpy(decision.algorithm.data(), name, decision.algorithm.size() - 1);
    decision.found[static_cast<size_t>(Candidate::kFirstOther)] =
        look.found[static_cast<size_t>(decision.kept)];
  }
  decision.kept = name == nullptr ? Candidate::kEngine : Candidate::kFirstOther;
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
  for (const Decision& decision : job.decided)
    if (decision.ranks == ranks && decision.servers == servers) take(decision);
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

/// Of a file.
void Sampling::take(const Decision& decision) {
  const auto function = static_cast<size_t>(decision.function);
  const uint32_t bit = uint32_t{1} << decision.size_class;
  if (decision.is_exact == 0) {
    inexact_[function] |= bit;
    if (decision.kept == Candidate::kMpi) inexact_by_mpi_[function] |= bit;
    return;
  }
  const auto cell = static_cast<size_t>(cell_of(decision.function, decision.size_class));
  const uint32_t engine_ns = decision.found[0], mpi_ns = decision.found[1];  // 0: not said
  contests_[cell] = Contest(decision.kept, mpi_ns != 0 && mpi_ns < engine_ns);
  if (!is_other(decision.kept)) return;
  measured_[cell] = std::make_unique<Measured>();
  measured_[cell]->candidates = 0;
  measured_[cell]->named = decision.algorithm;
  measured_[cell]->others[other_of(decision.kept)] = options_by(measured_[cell]->named.data());
}

const ibcoll_options* Sampling::options_of(int cell, Candidate candidate, ibcoll_group* group) {
  Measured& measured = *measured_[static_cast<size_t>(cell)];
  if (measured.candidates == 0) [[unlikely]]
    check_other(cell, group, measured);
  const ibcoll_options& options = measured.others[other_of(candidate)];
  return options.algorithm == nullptr ? nullptr : &options;
}

void Sampling::find_others(int cell, ibcoll_group* group, Measured& measured) const {
  measured.candidates = kFewestCandidates;
  const Function function = function_of_cell(cell);
  const bool keeps_order = reduces(function) && job_.reductions.ordered != 0;
  if (keeps_order || !has_classes(function)) return;
  uint64_t bytes = sizes_of(function, size_class_of_cell(cell)).low;
  if (function == Function::kReduceScatter) bytes /= static_cast<uint64_t>(ranks_);
  for (ibcoll_options& other : measured.others) {
    const char* const name =
        ibcoll_algorithm_to_try(group, static_cast<ibcoll_collective>(function), bytes,
                                static_cast<int>(&other - measured.others.data()));
    if (name == nullptr) return;
    other = options_by(name);
    ++measured.candidates;
  }
}

/// The file may be of another version, or by hand: a name that is none here is left out, on all
/// ranks alike.
void Sampling::check_other(int cell, ibcoll_group* group, Measured& measured) const {
  Measured known;
  find_others(cell, group, known);
  measured.candidates = known.candidates;
  ibcoll_options& named = measured.others.front();
  const bool is_known =
      std::any_of(known.others.begin(), known.others.end(), [&](const ibcoll_options& other) {
        return other.algorithm != nullptr && std::strcmp(other.algorithm, named.algorithm) == 0;
      });
  if (is_known) return;
  if (leads_)
    say(fmt::format("IBCOLL_LEARNED: {}: '{}' is none of the algorithms that may be tried for such "
                    "calls: the engine chooses",
                    to_string(function_of_cell(cell)), named.algorithm)
            .c_str());
  named.algorithm = nullptr;
}

Candidate Sampling::begin(int cell, uint8_t size_class, ibcoll_group* group, Sample& sample) {
  Contest& contest = contests_[static_cast<size_t>(cell)];
  std::unique_ptr<Measured>& measured = measured_[static_cast<size_t>(cell)];
  if (contest.must_agree()) agree(contest, measured.get(), group);
  const bool passes = contest.passes();
  if (!passes && measured == nullptr && !contest.is_fixed() && !contest.is_looking()) {
    measured.reset(new (std::nothrow) Measured);
    if (measured != nullptr && job_.learns && is_exact_) find_others(cell, group, *measured);
  }
  Look* const look = measured == nullptr ? nullptr : &measured->look;
  const LookedAt* const call = passes ? nullptr : contest.looked_at(look, size_class);
  // Who is ahead of the others by what the other candidate has left to do waits for them: that is
  // no part of this one's calls. If the group is over the call says so.
  if (call != nullptr && call->begins) (void)ibcoll_barrier(group, nullptr);
  const Candidate who = call == nullptr ? contest.kept() : contest.who(*call);
  sample.options = is_other(who) ? options_of(cell, who, group) : nullptr;
  if (call == nullptr) return who;
  sample.call = call;
  sample.look = look;
  sample.began = time_ns();
  return who;
}

void Sampling::agree(Contest& contest, Measured* measured, ibcoll_group* group) const {
  Look* const look = measured == nullptr ? nullptr : &measured->look;
  const uint32_t candidates = measured == nullptr ? kFewestCandidates : measured->candidates;
  const Times times = contest.proposed(look);
  // The greatest of each; of candidates the fewest.
  const std::array<uint32_t, kContenders + 1> mine = {times[0], times[1], ~candidates};
  std::array<uint32_t, kContenders + 1> all = {};
  const ibcoll_status status = ibcoll_allreduce(group, mine.data(), all.data(), mine.size(),
                                                IBCOLL_UINT32, IBCOLL_MAX, nullptr);
  // A group that is over says so in the calls that follow.
  if (status == IBCOLL_OK)
    contest.settle(look, {all[0], all[1]}, static_cast<uint8_t>(~all[2]), job_.first_looks);
  else
    contest.stop_measuring();
}

std::vector<Decision> Sampling::decisions() const {
  std::vector<Decision> made;
  const auto add = [&](Function function, int size_class) {
    const auto cell = static_cast<size_t>(cell_of(function, size_class));
    const Contest& contest = contests_[cell];
    const Measured* const measured = measured_[cell].get();
    Decision decision = {.ranks = ranks_,
                         .servers = servers_,
                         .function = function,
                         .size_class = static_cast<uint8_t>(size_class),
                         .kept = contest.kept(),
                         .is_exact = is_exact_ ? uint8_t{1} : uint8_t{0},
                         .calls = contest.calls(measured == nullptr ? nullptr : &measured->look)};
    if (decision.calls == 0) return;
    if (measured != nullptr) take_findings(measured->look, measured->others, decision);
    made.push_back(decision);
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
  std::erase_if(made, [](const Decision& each) {
    return each.is_of_file == 0 && each.found == decltype(each.found){};
  });
  return made;
}

void begin_sampling(Job& job, SamplingWishes wishes, bool may_choose) {
  const Library& mpi = library();
  const uint64_t mine[] = {wishes.samples ? 1UL : 0, wishes.learns ? 1UL : 0};
  uint64_t all[] = {0, 0};
  mpi.Allreduce(mine, all, 2, mpi.constants.type_uint64, mpi.constants.op_min, job.world);
  // Processes that were spawned have the environment of those that spawned them, and their file.
  Handle parent = mpi.constants.comm_null;
  if (job.session == 0) mpi.Comm_get_parent(&(parent = 0));
  const bool writes = wishes.writes_file && mpi.clean(parent) == mpi.constants.comm_null;
  uint64_t head[] = {wishes.of_file.size(), writes ? 1UL : 0};
  mpi.Bcast(head, 2, mpi.constants.type_uint64, 0, job.world);
  wishes.of_file.resize(head[0]);
  mpi.Bcast(wishes.of_file.data(), bytes_of(wishes.of_file), mpi.constants.type_byte, 0, job.world);
  job.samples = may_choose && all[0] != 0;
  job.learns = all[1] != 0;
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
