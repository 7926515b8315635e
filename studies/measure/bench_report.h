#pragma once
/// What ib_a2a_bench shows: header, table, JSON lines, plot.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/schedule/shape.h"
#include "studies/drawing/plot.h"
#include "studies/measure/collective_bench.h"

namespace ibcoll::measure {

/// What holds for a whole run.
struct BenchSetting {
  Collective collective = Collective::kAlltoall;
  Shape shape = Shape::single_server(1);
  std::string transport;         ///< between servers
  std::string transport_reason;  ///< the same with why it was taken
  std::string network;           ///< FabricOrder::describe() of it, empty where not known
  bool user_memory = false;
  bool bound = true;
  bool launched = false;  ///< by mpirun and the like, which have bound the ranks or not
};

/// Lines on machine, cores, binding, layout and transport, and on what an iteration is.
std::string describe_run(const BenchSetting& setting, const BenchSettings& settings);

/// Names and units over the columns of table_row.
std::string table_header(const BenchSetting& setting);
std::string table_row(const BenchSetting& setting, const BenchRow& row);

/// One object with every field of the row; times in us, bandwidths in MB/s (10^6 bytes).
nlohmann::ordered_json to_json(const BenchSetting& setting, const BenchRow& row);

/// Bandwidth over size (all-to-all bandwidth; on one server all bytes over time), a line for each
/// algorithm. Of a barrier, its time.
Plot bandwidth_plot(const BenchSetting& setting, const std::vector<BenchRow>& rows);

}  // namespace ibcoll::measure
