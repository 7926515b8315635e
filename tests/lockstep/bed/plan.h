#pragma once
/// What a seed stands for: a program, a layout, settings, and all that disturbs it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/lockstep/bed/bed.h"
#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

struct RunPlan {
  Program program;
  Conditions conditions;
  std::map<std::string, std::string> environment;  ///< all of the ranks'
  std::map<std::string, uint64_t> limits;          ///< of the engine, smaller than the product's
};

/// What the one who runs it wants otherwise: a run is a seed and these.
struct Overrides {
  std::string layout;
  std::string faults = "all";
  int calls = 0;
  // Of a run that was made shorter.
  std::optional<uint64_t> schedule;   ///< in the seed's place, where the order of steps is drawn
  std::vector<uint32_t> without;      ///< numbers of actions, ascending
  std::vector<uint32_t> simpler;      ///< which of simpler(), one after the other
  std::vector<uint32_t> undisturbed;  ///< numbers of disturbances that do not happen
  bool wide = false;                  ///< with the limits of the product
};
/// What is wrong with them; "": nothing.
std::string check(const Overrides& overrides);
/// As options of the command line.
std::string to_options(uint64_t seed, const Overrides& overrides);

RunPlan plan_of(uint64_t seed, const Overrides& overrides);
std::string to_string(const RunPlan& plan);

}  // namespace ibcoll::lockstep
