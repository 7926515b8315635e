#pragma once
/// The model of head-of-line blocking in Naruse et al. 2010, section 3.6, and what it is for.

#include <string_view>

#include "engine/algorithms/registry.h"
#include "engine/schedule/collective_traits.h"

namespace ibcoll::sim {

/// If every server splits its packets alpha : 1 - alpha between two others, a packet is blocked
/// with probability alpha (1 - alpha), and a step takes this much longer than without blocking.
inline double blocked_time(double alpha) { return 1 / (1 - alpha * (1 - alpha)); }

/// The same for step i of Ring on servers of `local_ranks` each, ranks in blocks. Holds for steps
/// in which all ranks send to other servers (local_ranks <= i <= ranks - local_ranks).
inline double ring_step_time(int step, int local_ranks) {
  return blocked_time(static_cast<double>(step % local_ranks) / local_ranks);
}

/// A model of the time that each step of an algorithm takes.
struct StepModel {
  Collective collective;  ///< with blocks of equal size, or as it is with others
  std::string_view algorithm;
  const char* label;
  double (*step_time)(int step, int local_ranks);
};

inline constexpr StepModel kStepModels[] = {
    {Collective::kAlltoall, "ring", "model Ta of Ring", ring_step_time}};

/// Null: there is none.
inline const StepModel* step_model_of(const Algorithm& algorithm) {
  for (const StepModel& model : kStepModels)
    if (model.collective == traits(algorithm.collective).equal && model.algorithm == algorithm.name)
      return &model;
  return nullptr;
}

}  // namespace ibcoll::sim
