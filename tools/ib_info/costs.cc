#include "tools/ib_info/costs.h"

#include "engine/base/output.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/costs/ring_limits.h"
#include "studies/measure/costs_here.h"

namespace ibcoll {
namespace {

template <class Costs>
void add_rows(Table& table, const std::vector<Figure<Costs>>& figures, const Costs& costs) {
  for (const Figure<Costs>& figure : figures)
    table.add_row({figure.name, figure_text(figure, costs), figure.meaning});
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
  IBCOLL_ASSIGN(const CostsHere here, measure_costs_here());
  const auto& [pairs, costs] = here;
  json.write_lines(costs_text(costs));
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
