#include "topology/generators/speeds.h"

namespace ibcoll::topology {

Result<Fabric> single_switch(int hosts, const LinkSpeeds& speeds) {
  if (hosts < 1 || hosts > Fabric::kMaxPort) {
    return fail(ErrorCode::kInvalidArgument, "{} hosts on one switch: 1 to {}", hosts,
                Fabric::kMaxPort);
  }
  FabricBuilder builder(fmt::format("single-switch:{}", hosts));
  builder.set_switch_latency(speeds.switch_latency_ns);
  for (int host = 0; host < hosts; ++host) builder.add_host(fmt::format("h{}", host));
  const int middle = builder.add_switch("s0");
  for (int host = 0; host < hosts; ++host) {
    IBCOLL_TRY(builder.connect(host, 1, middle, host + 1, link_at_level(speeds, 0)));
  }
  IBCOLL_TRY(builder.begin_routes());
  for (int host = 0; host < hosts; ++host) builder.set_port(middle, host, host + 1);
  return builder.finish();
}

}  // namespace ibcoll::topology
