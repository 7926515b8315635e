#pragma once
/// What compare_mpi found, as tables and lines.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json_lines.h"
#include "engine/base/result.h"
#include "perf/compare/measure.h"

namespace ibcoll::compare {

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
  /// The contenders' columns, in their order.
  const std::vector<const char*>& columns() const;

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
