#include "tools/ib_info/costs.h"

#include <sched.h>

#include "engine/base/json.h"
#include "engine/base/output.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/costs/measure_costs.h"
#include "engine/costs/ring_limits.h"

namespace ibcoll {
namespace {

/// Whoever asks for all figures has a second.
constexpr MeasureEffort kEffort = {.samples = 21, .all = true, .limit_ns = 5'000'000'000};

std::string time_text(double nanoseconds) {
  if (nanoseconds == 0) return "-";
  return fmt::format("{:.{}f}", nanoseconds, nanoseconds < 100 ? 1 : 0);
}

template <class Costs>
void add_rows(Table& table, const std::vector<Figure<Costs>>& figures, const Costs& costs) {
  for (const Figure<Costs>& figure : figures) {
    std::string text;
    if (figure.single != nullptr) {
      text = time_text(costs.*figure.single);
    } else {
      for (const double time : costs.*figure.by_length)
        text += (text.empty() ? "" : ", ") + time_text(time);
    }
    table.add_row({figure.name, text, figure.meaning});
  }
}

std::string up_to(size_t bytes) { return format_size(static_cast<int64_t>(bytes)); }

void print_limits(const char* distance, const PairCosts& costs) {
  const RingLimits limits = ring_limits(costs);
  Table table({fmt::format("Copied through the ring, {}", distance), "up to"});
  table.add_row({"private memory", up_to(limits.of_private)});
  table.add_row({"private memory, one way", up_to(limits.of_private_one_way)});
  table.add_row({"ibcoll's memory", up_to(limits.of_shared)});
  table.add_row({"ibcoll's memory, one way", up_to(limits.of_shared_one_way)});
  print("{}past the caches: {}\n\n", table.text(),
        limits.streaming == SIZE_MAX ? "never" : "from " + up_to(limits.streaming));
}

}  // namespace

Status report_costs(JsonLines& json) {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (sched_getaffinity(0, sizeof processors, &processors) != 0)
    return fail_errno("cannot read this process's affinity mask");
  IBCOLL_ASSIGN(const std::vector<CorePair> pairs, core_pairs(processors));
  if (pairs.empty())
    return fail(ErrorCode::kSystem,
                "this process may use one processor only: costs are those between two");
  IBCOLL_ASSIGN(const MachineCosts costs, measure_costs(pairs, kEffort));
  const std::string text = costs_text(costs);
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    IBCOLL_ASSIGN(const nlohmann::ordered_json object, parse_ordered_json(line));
    json.write(object);
  }
  if (json.to_stdout()) return {};
  for (const CorePair& pair : pairs) {
    Table table({fmt::format("Between processors {} and {}, {}", pair.first, pair.second,
                             to_string(pair.distance)),
                 "ns (of 4K, 16K, 64K)", ""});
    add_rows(table, pair_figures(), *costs.pair(pair.distance));
    print("{}\n", table.text());
  }
  Table table({"On one processor", "ns (of 4K, 16K, 64K)", ""});
  add_rows(table, machine_figures(), costs);
  print("{}\n", table.text());
  for (const CorePair& pair : pairs)
    print_limits(to_string(pair.distance), *costs.pair(pair.distance));
  return {};
}

}  // namespace ibcoll
