#pragma once
/// What ib_mcast_bench shows: header, table, JSON lines, plot.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/schedule/shape.h"
#include "studies/drawing/plot.h"
#include "tools/ib_mcast_bench/bench.h"

namespace ibcoll::tools {

/// What holds for a whole run.
struct McastSetting {
  Shape shape = Shape::single_server(1);
  std::string transport;  ///< between servers
  McastSetup setup;
};

std::string describe_run(const McastSetting& setting, const McastSettings& settings);
std::string table_header(const McastSettings& settings);
std::string table_row(const McastSettings& settings, const McastRow& row);
/// One object with every field of the row; times in us.
nlohmann::ordered_json to_json(const McastSetting& setting, const McastSettings& settings,
                               const McastRow& row);
/// Median over size, a line for each algorithm.
Plot latency_plot(const McastSetting& setting, const McastSettings& settings,
                  const std::vector<McastRow>& rows);

}  // namespace ibcoll::tools
