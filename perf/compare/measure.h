#pragma once
/// Measuring contenders in turns.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "perf/compare/jobs.h"
#include "perf/compare/options.h"

namespace ibcoll::compare {

/// Samples of one contender at one size (nanoseconds a call), a vector for each round.
using Rounds = std::vector<std::vector<double>>;

/// All samples of one collective and rank count: [contender][size][round][sample].
struct Measured {
  std::vector<std::string> names;
  std::vector<std::vector<Rounds>> rounds;
  /// What went over the machines' links while they were taken: [contender][size].
  std::vector<std::vector<uint64_t>> sent_bytes;

  const Rounds* find(std::string_view name, size_t size) const;
  /// Those of the MPI libraries that were found.
  std::vector<const Rounds*> mpis(size_t size) const;
};

/// Runs a comparison, which SIGINT and SIGTERM end; its exit status, which `run` gives if it is not
/// interrupted.
Result<int> run_comparison(const std::function<Result<int>()>& run);

double median_of_all(const Rounds& rounds);

/// A figure, and values below and above it; the functions that give one say which.
struct Interval {
  double value = 0, low = 0, high = 0;
};

/// How many times faster `ours` is than the fastest of `theirs`: the ratio of the medians, and the
/// least and greatest ratio a single round gave.
Interval ratio(const std::vector<const Rounds*>& theirs, const Rounds& ours);

/// A median, and between which values it lies with a confidence of at least 95 %, whatever the
/// distribution (by order statistics: as unlikely as so many throws of a coin alike). Of fewer than
/// six values all that can be said is the least and the greatest.
Interval interval(std::vector<double> values);
/// Medians of rounds.
std::vector<double> medians(const Rounds& rounds);

/// Whether there is memory for so many contenders at the largest size and rank count.
Status check_memory(const Options& options, int contenders);
/// Starts the contenders, which keep their jobs for all collectives.
Result<Jobs> start(const Options& options, const std::vector<Contender>& all, int ranks);
/// Whether all libraries agree on what a call gives. In a ring of two ranks each has two edges to
/// the other, and MPICH 4.0.2 sends along them in another order than the other libraries.
bool is_comparable(contest_collective collective, int ranks);
/// Sizes that a collective has: a barrier moves nothing.
std::vector<int64_t> sizes_of(const Options& options, contest_collective collective);
/// All sizes of one collective.
Result<Measured> measure(const Options& options, contest_collective collective, int ranks,
                         const std::vector<Contender>& all, Jobs& jobs);
/// One size again, of those contenders alone, which are named by their places.
Result<Measured> measure_again(const Options& options, contest_collective collective, int ranks,
                               int64_t bytes, const std::vector<size_t>& which, int rounds,
                               const std::vector<Contender>& all, Jobs& jobs);
/// One line that is overwritten, where somebody watches.
void show_progress(const std::string& text);

}  // namespace ibcoll::compare
