#pragma once
/// hwloc's objects with owners. Include it in .cc files only: hwloc is no part of our interface.

#include <hwloc.h>

#include <memory>

#include "engine/base/result.h"

namespace ibcoll {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;
using HwlocBitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

/// This machine as hwloc sees it.
inline Result<HwlocTopology> load_hwloc_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail_errno("cannot start hwloc");
  HwlocTopology topology(raw);
  if (hwloc_topology_load(raw) != 0) return fail_errno("hwloc cannot read the machine's topology");
  return topology;
}

}  // namespace ibcoll
