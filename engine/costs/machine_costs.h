#pragma once
/// What copying and waiting cost on a machine. Nothing here measures: see measure_costs.h.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll {

/// How far two cores are apart.
enum class Distance {
  kSiblings,  ///< hardware threads of one core
  kNear,      ///< of one package, or with a cache in common
  kFar        ///< neither
};
inline constexpr size_t kDistances = 3;
/// "siblings", "near" or "far".
const char* to_string(Distance distance);

/// Lengths that copies are measured at.
inline constexpr std::array<size_t, 3> kCopyBytes = {4096, 16384, 65536};
/// Nanoseconds for each.
using CopyTimes = std::array<double, kCopyBytes.size()>;

/// Times in nanoseconds between two cores. Sources are hot: in the caches of the core that has
/// written them.
struct PairCosts {
  double round_trip = 0;  ///< a line that one writes and the other answers with one of its own
  CopyTimes write = {};   ///< copying into lines that the other core has read last
  CopyTimes read = {};    ///< copying out of lines that the other core has written last
  CopyTimes stream_write = {};  ///< as `write`, past the caches; 0: as `write`
  CopyTimes stream_read = {};   ///< as `read`, of what was written so
  double vm_call = 0;           ///< process_vm_readv, besides the pages; 0: the kernel forbids it
  double vm_page = 0;         ///< looking up a page and copying it, written last by the other core
  double vm_huge_per_kb = 0;  ///< the same of a huge page; 0: not measured, or there are none
  double wake = 0;            ///< from futex_wake to the sleeper's first look; 0: not measured
};

struct MachineCosts {
  std::array<std::optional<PairCosts>, kDistances> pairs;  ///< as far as there are such cores
  CopyTimes copy = {};                                     ///< of one core, inside its own caches
  double memory_per_kb = 0;  ///< the same from memory to memory; 0: not measured
  double yield = 0;          ///< sched_yield where nobody else wants the core; 0: not measured
  double hand_over = 0;      ///< sched_yield that gives the core to another thread; 0: not measured
  double spread = 0;  ///< the worst of all figures: between quartiles, as a part of the median

  const std::optional<PairCosts>& pair(Distance distance) const {
    return pairs[static_cast<size_t>(distance)];
  }
  std::optional<PairCosts>& pair(Distance distance) { return pairs[static_cast<size_t>(distance)]; }
};

/// A figure by its name, for those who print and keep it: nanoseconds, or a CopyTimes.
struct CostName {
  const char* name;
  const char* meaning;
};
template <class Costs>
struct Figure : CostName {
  double Costs::*single = nullptr;
  CopyTimes Costs::*by_length = nullptr;
};
const std::vector<Figure<PairCosts>>& pair_figures();
const std::vector<Figure<MachineCosts>>& machine_figures();

/// One JSON object on a line for each distance, and one for the machine.
std::string costs_text(const MachineCosts& costs);
/// What such a text says. Figures that are missing or no positive number, other members and other
/// lines are errors; so is a text that knows no two cores.
Result<MachineCosts> parse_costs(std::string_view text);

}  // namespace ibcoll
