#include "engine/bootstrap/binding.h"

#include <sched.h>

#include <algorithm>
#include <memory>

#include "engine/bootstrap/hwloc_topology.h"
#include "engine/bootstrap/launch.h"

namespace ibcoll {
namespace {

CpuSet to_units(hwloc_const_bitmap_t bitmap) {
  CpuSet units;
  for (int unit = hwloc_bitmap_first(bitmap); unit >= 0; unit = hwloc_bitmap_next(bitmap, unit))
    units.push_back(unit);
  return units;
}

Result<std::vector<CpuSet>> find_core_sets() {
  IBCOLL_ASSIGN(const HwlocTopology topology, load_hwloc_topology());
  const hwloc_topology_t raw = topology.get();
  const HwlocBitmap mask(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(raw, mask.get(), HWLOC_CPUBIND_THREAD) != 0)
    return fail_errno("cannot read this process's affinity mask");

  std::vector<CpuSet> cores;
  const HwlocBitmap usable(hwloc_bitmap_alloc());
  const auto add = [&](hwloc_obj_type_t type) {
    for (hwloc_obj_t core = hwloc_get_next_obj_by_type(raw, type, nullptr); core != nullptr;
         core = hwloc_get_next_obj_by_type(raw, type, core)) {
      hwloc_bitmap_and(usable.get(), core->cpuset, mask.get());
      if (!hwloc_bitmap_iszero(usable.get())) cores.push_back(to_units(usable.get()));
    }
  };
  add(HWLOC_OBJ_CORE);
  if (cores.empty()) add(HWLOC_OBJ_PU);  // some virtual machines do not tell cores
  if (cores.empty()) return fail(ErrorCode::kSystem, "hwloc finds no core this process may use");
  return cores;
}

}  // namespace

const Result<std::vector<CpuSet>>& usable_core_sets() {
  static const Result<std::vector<CpuSet>> cores = find_core_sets();
  return cores;
}

std::vector<CpuSet> plan_binding(int ranks, const std::vector<CpuSet>& cores) {
  std::vector<CpuSet> plan;
  if (cores.size() <= 1 || ranks <= 0) return plan;
  const auto count = static_cast<size_t>(ranks);
  plan.reserve(count);
  for (size_t rank = 0; rank < count; ++rank) {
    const size_t core = count <= cores.size() ? rank * cores.size() / count : rank % cores.size();
    plan.push_back(cores[core]);
  }
  return plan;
}

Status bind_thread(const CpuSet& units) {
  if (units.empty()) return {};
  const int highest = *std::max_element(units.begin(), units.end());
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(
      CPU_ALLOC(highest + 1), [](cpu_set_t* set) { CPU_FREE(set); });
  const size_t bytes = CPU_ALLOC_SIZE(highest + 1);
  CPU_ZERO_S(bytes, mask.get());
  for (const int unit : units) CPU_SET_S(unit, bytes, mask.get());
  if (sched_setaffinity(0, bytes, mask.get()) != 0)
    return fail_errno(fmt::format("cannot bind to processing unit {}", units.front()));
  return {};
}

int usable_cores() {
  const auto& cores = usable_core_sets();
  return cores ? static_cast<int>(cores->size()) : 1;
}

}  // namespace ibcoll
