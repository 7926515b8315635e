#pragma once
/// What compare_mpi found, as tables and lines.

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json_lines.h"
#include "engine/base/result.h"
#include "perf/compare/measure.h"
#include "perf/compare/tables.h"
#include "perf/compare/verdict.h"

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

  /// What this machine is and what copying and waiting cost here, which it measures.
  Status machine();
  /// Adds a state of the machine.
  void state(const State& state);
  /// What the columns mean. Rows that follow are about this memory.
  void head(bool private_memory);

  /// The rows of one collective and rank count; `again`: of the sizes that were measured again.
  Speedups rows(contest_collective collective, int ranks, const Measured& measured,
                const std::map<size_t, Interval>& again);
  /// Geometric means over sizes.
  void summary(contest_collective collective, const nlohmann::ordered_json& ranks,
               const Speedups& speedups);
  /// What has come of judging, where others could have so much of the processor time.
  void verdict(const Verdict& verdict, double most_load);

  const Tables& tables() const { return tables_; }
  bool to_stdout() const { return json_.to_stdout(); }
  /// `beside`: tables of another machine, if any, that go on the page.
  Status close(const std::optional<Tables>& beside);

 private:
  explicit Report(const Options& options) : options_(&options) {}
  void row(contest_collective collective, int ranks, size_t size, const Measured& measured,
           const std::map<size_t, Interval>& again, Speedups& speedups);
  /// The contenders' columns, in their order.
  const std::vector<const char*>& columns() const;

  const Options* options_;
  bool private_memory_ = false;
  JsonLines json_;
  Tables tables_;
};

/// The cell of one size; nothing where there is no MPI.
std::optional<Cell> cell_of(contest_collective collective, int ranks, int64_t bytes,
                            bool private_memory, const Measured& measured, size_t size);

}  // namespace ibcoll::compare
