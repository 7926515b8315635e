#pragma once
/// The calls of a communicator that are measured, to leave those to the MPI that it carries out
/// faster, and to have the engine carry out the others by the algorithm that is fastest.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ibcoll/ibcoll.h"
#include "integrations/mpi/contest.h"
#include "integrations/mpi/decisions.h"
#include "integrations/mpi/size_class.h"

namespace ibcoll::mpi {

struct Job;

/// What becomes of a blocking call, from the moment on at which it is known who carries it out.
struct Sample {
  /// How the engine makes it, where it does; null: as it chooses itself.
  const ibcoll_options* options = nullptr;
  const LookedAt* call = nullptr;  ///< null: it is not measured
  Look* look = nullptr;            ///< null: there is no memory for its time
  int64_t began = 0;

  bool is_taken() const { return call != nullptr; }
  /// The call has ended on this rank.
  void end() const;
};

/// Of one communicator. All its ranks make its calls in the same order. Calls are told apart by
/// their sizes only where all ranks know those, so the state here is the same on all of them after
/// each call, but for times.
/// No two of its calls are made at a time, by MPI's rule.
class Sampling {
 public:
  /// `leads`: this rank tells of what is decided.
  Sampling(const Job& job, int ranks, int servers, bool leads);
  ~Sampling();
  Sampling(const Sampling&) = delete;
  Sampling& operator=(const Sampling&) = delete;

  /// Whether the engine carries out the next call, of a function that is measured. `sample`: what
  /// becomes of a blocking call on the group; null: another form, which follows those.
  bool takes(Function function, uint64_t bytes, ibcoll_group* group, Sample* sample) {
    return takes(cell_of(function, size_class_of(bytes)), group, sample, [] { return 0; });
  }
  /// The same of a function of whose lengths each rank knows its own only: `own`() bytes, which is
  /// asked in looks alone.
  template <class Own>
  bool takes_any_size(Function function, ibcoll_group* group, Sample* sample, const Own& own) {
    return takes(cell_of(function, 0), group, sample, [&] { return size_class_of(own()); });
  }
  /// What the file says of a reduction whose bits depend on who carries it out; nothing: it says
  /// nothing.
  std::optional<Candidate> decided(Function function, uint64_t bytes) const {
    const auto of = static_cast<size_t>(function);
    const uint32_t bit = uint32_t{1} << size_class_of(bytes);
    if ((inexact_[of] & bit) == 0) [[likely]]
      return std::nullopt;
    return (inexact_by_mpi_[of] & bit) == 0 ? Candidate::kEngine : Candidate::kMpi;
  }
  /// Of calls of one size: each candidate has been measured, or none is any more. The same on all
  /// ranks.
  bool has_measured(Function function, int size_class) const {
    return contests_[static_cast<size_t>(cell_of(function, size_class))].rests();
  }
  std::vector<Decision> decisions() const;
  /// Of which reductions calls are measured: those that give the same bits whoever combines, or the
  /// others.
  bool is_exact() const { return is_exact_; }

 private:
  template <class SizeClass>
  bool takes(int cell, ibcoll_group* group, Sample* sample, const SizeClass& size_class) {
    Contest& contest = contests_[static_cast<size_t>(cell)];
    if (sample == nullptr) return contest.without_others() != Candidate::kMpi;
    if (!contest.passes()) [[unlikely]]
      return begin(cell, static_cast<uint8_t>(size_class()), group, *sample) != Candidate::kMpi;
    if (is_other(contest.kept())) [[unlikely]]
      sample->options = options_of(cell, contest.kept(), group);
    return contest.kept() != Candidate::kMpi;
  }
  /// What a rank keeps of calls that are measured, or whose algorithm a file names.
  struct Measured {
    Look look;
    std::array<ibcoll_options, kMostOthers> others = {};  ///< the engine's other algorithms
    decltype(Decision::algorithm) named = {};             ///< by a file, for the first of them
    /// 0: it is not known yet whether there is the algorithm that a file names.
    uint8_t candidates = kFewestCandidates;
  };
  /// By one of the engine's other algorithms; null: it chooses itself after all.
  const ibcoll_options* options_of(int cell, Candidate candidate, ibcoll_group* group);
  void find_others(int cell, ibcoll_group* group, Measured& measured) const;
  void check_other(int cell, ibcoll_group* group, Measured& measured) const;
  void take(const Decision& decision);
  Candidate begin(int cell, uint8_t size_class, ibcoll_group* group, Sample& sample);
  void agree(Contest& contest, Measured* measured, ibcoll_group* group) const;

  std::array<Contest, kCells> contests_;
  std::array<std::unique_ptr<Measured>, kCells> measured_;
  std::array<uint32_t, kFunctions> inexact_ = {}, inexact_by_mpi_ = {};  ///< a bit a class
  const Job& job_;
  const int ranks_, servers_;
  const bool leads_, is_exact_;
};

/// What the user wants of it; where ranks differ, none of it but what all want.
struct SamplingWishes {
  bool samples = false;           ///< IBCOLL_MPI_SAMPLING
  bool learns = false;            ///< IBCOLL_LEARN
  std::vector<Decision> of_file;  ///< IBCOLL_LEARNED, of rank 0
  bool writes_file = false;       ///< the same: what is decided is written there in the end
};

/// Whether calls are measured, or a file decides.
bool has_sampling(const Job& job);

/// Collective: all ranks go by the same. `may_choose`: nobody has named functions, and there is an
/// engine; the same on all ranks.
void begin_sampling(Job& job, SamplingWishes wishes, bool may_choose);
/// For a communicator of these ranks of the job; null where none of its calls are measured, or
/// there is no memory.
std::shared_ptr<Sampling> make_sampling(const Job& job, const std::vector<int>& ranks, bool leads);
/// Collective, in MPI_Finalize: what all communicators have come to, on rank 0.
std::vector<Decision> gather_decisions(const Job& job);

}  // namespace ibcoll::mpi
