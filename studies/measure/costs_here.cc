#include "studies/measure/costs_here.h"

#include <fmt/format.h>
#include <sched.h>

namespace ibcoll {
namespace {

std::string time_text(double nanoseconds) {
  if (nanoseconds == 0) return "-";
  return fmt::format("{:.{}f}", nanoseconds, nanoseconds < 100 ? 1 : 0);
}

template <class Costs>
std::string text_of(const Figure<Costs>& figure, const Costs& costs) {
  if (figure.single != nullptr) return time_text(costs.*figure.single);
  std::string text;
  for (const double time : costs.*figure.by_length)
    text += (text.empty() ? "" : ", ") + time_text(time);
  return text;
}

}  // namespace

Result<CostsHere> measure_costs_here() {
  // Whoever asks for all figures has a second.
  constexpr MeasureEffort kEffort = {.samples = 21, .all = true, .limit_ns = 5'000'000'000};
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (sched_getaffinity(0, sizeof processors, &processors) != 0)
    return fail_errno("cannot read this process's affinity mask");
  CostsHere here;
  IBCOLL_ASSIGN(here.pairs, core_pairs(processors));
  if (here.pairs.empty())
    return fail(ErrorCode::kSystem,
                "this process may use one processor only: costs are those between two");
  IBCOLL_ASSIGN(here.costs, measure_costs(here.pairs, kEffort));
  return here;
}

std::string figure_text(const Figure<PairCosts>& figure, const PairCosts& costs) {
  return text_of(figure, costs);
}

std::string figure_text(const Figure<MachineCosts>& figure, const MachineCosts& costs) {
  return text_of(figure, costs);
}

}  // namespace ibcoll
