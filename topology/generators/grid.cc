#include <fmt/ranges.h>

#include "topology/generators/speeds.h"

namespace ibcoll::topology {
namespace {

constexpr size_t kMaxDimensions = 6;

/// Signed hops from coordinate x to y of a line or ring of `side`.
int steps(int x, int y, int side, bool torus) {
  const int offset = y - x;
  if (torus && 2 * offset > side) return offset - side;
  if (torus && 2 * offset < -side) return offset + side;
  return offset;
}

}  // namespace

Result<Fabric> grid_fabric(const std::vector<int>& sides, bool torus, int hosts_per_switch,
                           const LinkSpeeds& speeds) {
  if (sides.empty() || sides.size() > kMaxDimensions) {
    return fail(ErrorCode::kInvalidArgument, "{} dimensions: a mesh or torus has 1 to {}",
                sides.size(), kMaxDimensions);
  }
  if (hosts_per_switch < 1 || hosts_per_switch > Fabric::kMaxPort - 12) {
    return fail(ErrorCode::kInvalidArgument, "{} hosts a switch: 1 to {}", hosts_per_switch,
                Fabric::kMaxPort - 12);
  }
  int64_t points = 1;
  for (const int side : sides) {
    if (side < 1) return fail(ErrorCode::kInvalidArgument, "a side of {}: at least 1", side);
    points *= side;
    if (points * points * hosts_per_switch > Fabric::kMaxTableEntries) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} with {} hosts a switch needs more than {} routing entries",
                  fmt::join(sides, "x"), hosts_per_switch, Fabric::kMaxTableEntries);
    }
  }
  FabricBuilder builder(fmt::format("{}:{}", torus ? "torus" : "mesh", fmt::join(sides, "x")));
  builder.set_switch_latency(speeds.switch_latency_ns);
  const int switches = static_cast<int>(points), hosts = switches * hosts_per_switch;
  for (int host = 0; host < hosts; ++host) builder.add_host(fmt::format("h{}", host));
  for (int s = 0; s < switches; ++s) builder.add_switch(fmt::format("s{}", s));
  for (int host = 0; host < hosts; ++host) {
    IBCOLL_TRY(builder.connect(host, 1, hosts + host / hosts_per_switch,
                               1 + host % hosts_per_switch, link_at_level(speeds, 0)));
  }
  const auto port = [&](size_t dimension, bool up) {
    return hosts_per_switch + 1 + static_cast<int>(dimension) * 2 + (up ? 0 : 1);
  };
  for (int s = 0; s < switches; ++s) {
    for (size_t d = 0, stride = 1; d < sides.size(); stride *= sides[d++]) {
      const int x = s / static_cast<int>(stride) % sides[d];
      const bool wraps = x == sides[d] - 1;
      // A ring of two has one cable: the way that does not wrap is always taken.
      if (wraps && (!torus || sides[d] <= 2)) continue;
      const int next = s + static_cast<int>(stride) * (wraps ? 1 - sides[d] : 1);
      IBCOLL_TRY(builder.connect(hosts + s, port(d, true), hosts + next, port(d, false),
                                 link_at_level(speeds, 1)));
    }
  }
  IBCOLL_TRY(builder.begin_routes());
  for (int s = 0; s < switches; ++s) {
    for (int t = 0; t < switches; ++t) {
      int out = 0;
      for (size_t d = 0, stride = 1; d < sides.size() && out == 0; stride *= sides[d++]) {
        const int side = sides[d], divisor = static_cast<int>(stride);
        const int hops = steps(s / divisor % side, t / divisor % side, side, torus);
        if (hops != 0) out = port(d, hops > 0);
      }
      for (int i = 0; i < hosts_per_switch; ++i) {
        builder.set_port(hosts + s, t * hosts_per_switch + i, out != 0 ? out : 1 + i);
      }
    }
  }
  return builder.finish();
}

}  // namespace ibcoll::topology
