#pragma once
/// What ib_sim shows of its runs: tables, JSON lines, plots.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "studies/drawing/plot.h"
#include "studies/simulate/collective.h"

namespace ibcoll::sim {

/// One run and what it came to.
struct SimRow {
  const Algorithm* algorithm = nullptr;
  Shape shape = Shape::single_server(1);
  CollectiveOptions options;
  CollectiveReport report;

  uint64_t bytes_per_pair() const { return options.run.block_bytes; }
  /// "two_level_ring", with pacing where the program's own paces it, and the mode if `with_mode`.
  std::string label(bool with_mode) const;
};

/// One object with every field; times in us, bandwidths in MB/s (10^6 bytes). `steps`: with the
/// time of each step; `links`: with every link that carried something.
nlohmann::ordered_json to_json(const SimRow& row, const topology::Fabric& fabric, bool steps,
                               bool links);

/// The columns that tell of each run, widest cells known beforehand: lines are shown as runs end.
class SummaryLines {
 public:
  SummaryLines(size_t label_width, size_t layout_width)
      : label_width_(label_width), layout_width_(layout_width) {}
  std::string head() const;
  std::string line(const SimRow& row) const;

 private:
  std::string joined(const std::vector<std::string>& cells) const;
  size_t label_width_, layout_width_;
};
/// Times of the steps, a column for each run. Only runs of one shape and size can be shown
/// together.
std::string step_table(const std::vector<SimRow>& rows);
/// The links that were busy longest, up to `most` of them.
std::string link_table(const SimRow& row, const topology::Fabric& fabric, size_t most);

/// All-to-all bandwidth over the size, or over the number of servers where that varies and the size
/// does not; a line for each algorithm and mode, and for the number of ranks a server.
Plot bandwidth_plot(const std::vector<SimRow>& rows, const topology::Fabric& fabric);
/// Time of each step in parts of what the bytes that leave the busiest server in it need, beside
/// the model of the paper for Ring.
Plot step_plot(const std::vector<SimRow>& rows, const topology::Fabric& fabric);

}  // namespace ibcoll::sim
