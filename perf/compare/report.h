#pragma once
/// What compare_mpi found, as tables and lines.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json_lines.h"
#include "engine/base/result.h"
#include "perf/compare/contest_calls.h"

namespace ibcoll::compare {

/// What is compared, as the command line says.
struct Options {
  std::vector<contest_collective> collectives;
  std::vector<int64_t> ranks, sizes;
  int rounds = 7;
  int samples = 10;
  int64_t batch_ns = 1'000'000;
  bool user_memory = false;
  bool after_barrier = false;
  std::string json, markdown;
};

/// Samples of one contender at one size (nanoseconds a call), a vector for each round.
using Rounds = std::vector<std::vector<double>>;

/// All samples of one collective and rank count: [contender][size][round][sample].
struct Measured {
  std::vector<std::string> names;
  std::vector<std::vector<Rounds>> rounds;

  const Rounds* find(std::string_view name, size_t size) const;
  /// Those of the MPI libraries that were found.
  std::vector<const Rounds*> mpis(size_t size) const;
};

/// The ratios of all sizes so far, for the geometric means.
struct Speedups {
  std::vector<double> faster, openmpi, mpich, copying, large_copying;
  int slower = 0;       ///< sizes that were slower in every round
  int slower_long = 0;  ///< of them, those where a call takes 1 us and more

  void append(const Speedups& more);
};

class Report {
 public:
  static Result<Report> open(const Options& options);

  /// The rows of one collective and rank count.
  Speedups rows(contest_collective collective, int ranks, const Measured& measured);
  /// Geometric means over sizes.
  void summary(contest_collective collective, const nlohmann::ordered_json& ranks,
               const Speedups& speedups);
  Status close();

 private:
  explicit Report(const Options& options) : options_(&options) {}
  void row(contest_collective collective, int ranks, size_t size, const Measured& measured,
           Speedups& speedups);
  std::string markdown() const;

  /// What the tables of a page need of a row.
  struct Cell {
    contest_collective collective;
    int ranks;
    int64_t bytes;
    double ours_us, theirs_us, faster, low, high, copying;
  };
  struct Means {
    contest_collective collective;
    std::string ranks;
    double faster = 0;
    int slower = 0, slower_long = 0;
    double least_large_copying = 0;
  };
  const Options* options_;
  JsonLines json_;
  std::vector<Cell> cells_;
  std::vector<Means> means_;
};

}  // namespace ibcoll::compare
