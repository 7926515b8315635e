#include "studies/task_graph/options.h"

#include "engine/base/units.h"

namespace ibcoll::task_graph {

Result<std::vector<int>> parse_processors(const std::string& text, int otherwise) {
  std::vector<int> result;
  if (text.empty()) return std::vector{otherwise};
  for (std::string_view part : split(text, ',')) {
    const size_t dash = part.find('-', 1);
    IBCOLL_ASSIGN(const int64_t low,
                  parse_integer(part.substr(0, dash), 1, kMaxProcessors, "processors"));
    int64_t high = low;
    if (dash != std::string_view::npos) {
      if (dash + 1 == part.size()) {
        return fail(ErrorCode::kInvalidArgument, "processors: range '{}' has no end (like 2-16)",
                    part);
      }
      IBCOLL_ASSIGN(high, parse_integer(part.substr(dash + 1), 1, kMaxProcessors, "processors"));
      if (low > high)
        return fail(ErrorCode::kInvalidArgument, "processors: range '{}' runs backwards", part);
    }
    for (int64_t p = low; p <= high; ++p) result.push_back(static_cast<int>(p));
  }
  if (result.empty()) return fail(ErrorCode::kInvalidArgument, "no number of processors given");
  return result;
}

Result<LogP> parse_logp(const std::string& text, int processors) {
  if (text == "paper") return paper_logp(processors);
  const auto parts = split(text, ',');
  if (parts.size() != 3 && parts.size() != 4)
    return fail(ErrorCode::kInvalidArgument,
                "--logp '{}': expected 'paper' or os,or,L or os,or,L,per_result", text);
  std::vector<Time> values;
  for (std::string_view part : parts) {
    IBCOLL_ASSIGN(const int64_t value, parse_integer(part, 0, kMaxCost, "LogP parameter"));
    values.push_back(value);
  }
  return LogP{values[0], values[1], values[2], values.size() > 3 ? values[3] : 0};
}

Result<std::vector<const Scheduler*>> parse_schedulers(const std::string& names) {
  std::vector<const Scheduler*> result;
  for (std::string_view name : split(names, ',')) {
    if (name == "all") {
      for (const Scheduler& scheduler : schedulers()) {
        if (scheduler.name != "optimal") result.push_back(&scheduler);
      }
      continue;
    }
    IBCOLL_ASSIGN(const Scheduler* scheduler, find_scheduler(name));
    result.push_back(scheduler);
  }
  if (result.empty()) return fail(ErrorCode::kInvalidArgument, "no scheduler given");
  return result;
}

}  // namespace ibcoll::task_graph
