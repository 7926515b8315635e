#pragma once
/// How the ranks of a job find each other: rank, size, allgather, barrier, abort. Implementations:
/// processes forked on one machine, threads of one process (tests); PMIx, PMI and MPI behind the
/// same interface.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

/// Why a job ends early. The first failure reported wins, so that every survivor names the same
/// culprit.
struct Failure {
  Rank culprit = -1;
  ErrorCode code = ErrorCode::kPeerFailed;
  std::string what;  ///< e.g. "rank 3 (pid 4711) was killed by signal 9 (Killed)"; at most kMaxText
                     ///< bytes travel
  static constexpr size_t kMaxText = 240;

  /// The code of the errors that ranks get.
  ErrorCode error_code() const {
    return code == ErrorCode::kRankDied ? ErrorCode::kPeerFailed : code;
  }
  Error error() const { return {error_code(), what}; }
};

/// The failure of a job in which somebody waits for a rank that has left it.
Failure rank_has_left(Rank rank);

/// One rank's view of its job. Calls are collective over all ranks of the job unless said
/// otherwise, and are made by one thread at a time. Not for the data path.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  /// Every rank gives `bytes` bytes (the same number); `all` receives size() * bytes in rank order.
  /// Fails when a rank has died or given up, instead of waiting for ever.
  virtual Status allgather(const void* mine, size_t bytes, void* all) = 0;
  /// The same where only some ranks give anything: `givers`, in ascending order and the same on all
  /// ranks. `mine` is theirs alone; `all` receives bytes of each of them, in their order.
  virtual Status allgather_of(std::span<const Rank> givers, const void* mine, size_t bytes,
                              void* all) = 0;
  virtual Status barrier() = 0;

  /// Reports a failure to all ranks (not collective). Only the first one counts: it is what
  /// failure() gives from then on, here too. Who reports another rank's death waits a moment for
  /// whoever knows how it died. A process that was forked from a rank reports nothing.
  virtual void abort(const Failure& failure) = 0;
  /// Ends a job whose failure() is a death that it has survived (not collective; jobs of one
  /// machine). Only the first such end counts: it is what failure() gives from then on.
  virtual void end_after_death(const Failure& end) = 0;
  /// The job's failure, if there is one (not collective; one load of memory where nothing has
  /// happened, so that waits may ask often).
  virtual std::optional<Failure> failure() const = 0;

  /// Says (not collective) whether this rank has ended its calls and only waits until the others
  /// have, too.
  virtual void set_leaving(bool) {}
  /// Says (not collective) that this rank does nothing for others any more, though its process may
  /// go on.
  virtual void set_gone() {}
  /// Whether a rank has ended its calls but still goes on with what others ask of it, until all
  /// have ended theirs. Not collective; one load of memory.
  virtual bool is_leaving(Rank) const { return false; }
  /// Whether a rank has left the job in order, or does nothing for others any more. Not collective;
  /// one load of memory.
  virtual bool has_left(Rank) const { return false; }
  /// Why waiting for data of a rank may be in vain: it has left or is leaving the job, or can't be
  /// reached. Nothing while it takes part. Not collective; one load of memory.
  virtual std::optional<Failure> absence(Rank) const { return std::nullopt; }

  /// Whether, from the end of the next barrier on, which is to follow on all ranks, a death is no
  /// failure of the job: it is noted on all machines, and collective calls of this interface fail.
  /// Where all ranks share a machine, the first death is failure() all the same. By default it is
  /// one; the same on all ranks.
  virtual void set_survival(bool) {}
  /// How a rank ended that did not end in order, where whoever watches its process has said so:
  /// also of those that died after the job's failure. Of other machines only in jobs that survive
  /// deaths. Not collective.
  virtual std::optional<Failure> end_of(Rank) const { return std::nullopt; }
  /// How many such ends have been noted. Not collective; one load of memory.
  virtual uint32_t ends_noted() const { return 0; }
  /// The ranks whose ends have been noted (not collective).
  virtual std::vector<Rank> ended() const { return {}; }

  /// Asks for the verdict on a question, which is not 0 (not collective, nor does it wait). The
  /// first proposal in the job counts, also where its rank dies. Nothing where it is on its way
  /// yet: verdict() has it then. kNoMemory where too many questions are open.
  virtual Result<std::optional<int64_t>> settle(uint64_t question, int64_t proposal) = 0;
  /// The verdict on a question, if it is known here (not collective).
  virtual std::optional<int64_t> verdict(uint64_t question) const = 0;
  /// No rank of the job asks for it any more (not collective; one rank says so).
  virtual void forget_verdict(uint64_t question) = 0;

  /// Whether somebody watches the process of that rank, and notes its end here. Not collective.
  virtual bool is_watched(Rank) const { return false; }

  /// Bytes that this process has sent to other machines of the job by now, for itself and for
  /// others (not collective).
  virtual uint64_t sent_bytes() const { return 0; }

  /// True if all ranks are threads of this process: they share addresses, file descriptors and
  /// fate.
  virtual bool shares_address_space() const { return false; }
};

}  // namespace ibcoll
