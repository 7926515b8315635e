#pragma once
/// What a seed stands for: a program, a layout, settings, and all that disturbs it.

#include <map>
#include <string>

#include "tests/lockstep/bed/bed.h"
#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

struct RunPlan {
  Program program;
  Conditions conditions;
  std::map<std::string, std::string> environment;  ///< all of the ranks'
};

/// What the one who runs it wants otherwise.
struct Overrides {
  std::string layout;
  std::string faults = "all";
  int calls = 0;
};
/// What is wrong with them; "": nothing.
std::string check(const Overrides& overrides);

RunPlan plan_of(uint64_t seed, const Overrides& overrides);
std::string to_string(const RunPlan& plan);

}  // namespace ibcoll::lockstep
