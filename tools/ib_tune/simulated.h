#pragma once
/// ib_tune --simulate: choices by simulating the engine's programs, for jobs and networks that are
/// not here.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "studies/measure/tuning.h"
#include "studies/simulate/collective.h"
#include "tools/ib_tune/settings.h"
#include "topology/fabric.h"

namespace ibcoll::tools {

/// The job and the network that it is simulated on.
struct SimulatedJob {
  RulesJob job;  ///< layout, and the transport where one is named; fits all machines
  Shape shape = Shape::single_server(1);
  topology::Fabric fabric;
  sim::CollectiveOptions options;  ///< overheads and copy rate, as messages have been measured

  std::string describe() const;
};

/// Of --layout and the like, --network and --logp. Without --network servers are on one switch that
/// is as fast as messages were measured to be.
Result<SimulatedJob> understand_simulation(const TuneArguments& a);

/// As measure::measure_choices, but simulated: one round, since nothing disturbs it. What is left
/// when the budget is spent keeps the engine's own choice.
Result<std::vector<measure::TunePoint>> simulate_choices(
    const SimulatedJob& job, const measure::TuneSettings& settings,
    const std::function<void(const measure::TunePoint&)>& on_point,
    const std::function<void(const std::string&)>& on_progress);

}  // namespace ibcoll::tools
