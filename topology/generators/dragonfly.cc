#include "topology/generators/speeds.h"

namespace ibcoll::topology {
namespace {

class DragonflyMaker {
 public:
  DragonflyMaker(const Dragonfly& shape, const LinkSpeeds& speeds)
      : shape_(shape),
        speeds_(speeds),
        switches_(shape.groups * shape.routers),
        hosts_(switches_ * shape.hosts),
        builder_(fmt::format("dragonfly:{},{},{},groups={}", shape.hosts, shape.routers,
                             shape.globals, shape.groups)) {}

  Result<Fabric> make() {
    builder_.set_switch_latency(speeds_.switch_latency_ns);
    for (int host = 0; host < hosts_; ++host) builder_.add_host(fmt::format("h{}", host));
    for (int s = 0; s < switches_; ++s) {
      builder_.add_switch(fmt::format("g{}r{}", s / shape_.routers, s % shape_.routers));
    }
    for (int host = 0; host < hosts_; ++host) {
      IBCOLL_TRY(builder_.connect(host, 1, hosts_ + host / shape_.hosts, 1 + host % shape_.hosts,
                                  link_at_level(speeds_, 0)));
    }
    IBCOLL_TRY(connect_groups());
    IBCOLL_TRY(builder_.begin_routes());
    for (int s = 0; s < switches_; ++s) {
      for (int to = 0; to < hosts_; ++to) builder_.set_port(hosts_ + s, to, port_to(s, to));
    }
    return builder_.finish();
  }

 private:
  /// Ports of a switch: hosts, the group's other switches in order, global cables.
  int local_port(int router, int other) const {
    return shape_.hosts + 1 + other - (other > router ? 1 : 0);
  }
  int global_port(int index) const {
    return shape_.hosts + shape_.routers + index % shape_.globals;
  }
  int switch_of(int group, int global) const {
    return group * shape_.routers + global / shape_.globals;
  }
  int copies() const {
    return shape_.groups > 1 ? shape_.routers * shape_.globals / (shape_.groups - 1) : 0;
  }
  /// Global port of a group towards one `distance` further, by one of the copies.
  int global_of(int distance, int copy) const { return copy * (shape_.groups - 1) + distance - 1; }

  Status connect_groups() {
    for (int s = 0; s < switches_; ++s) {
      const int router = s % shape_.routers;
      for (int other = router + 1; other < shape_.routers; ++other) {
        IBCOLL_TRY(builder_.connect(hosts_ + s, local_port(router, other),
                                    hosts_ + s - router + other, local_port(other, router),
                                    link_at_level(speeds_, 1)));
      }
    }
    Cable global = link_at_level(speeds_, 2);
    global.latency_ns = speeds_.long_latency_ns;
    for (int a = 0; a < shape_.groups; ++a) {
      for (int b = a + 1; b < shape_.groups; ++b) {
        for (int copy = 0; copy < copies(); ++copy) {
          const int from = global_of(b - a, copy), to = global_of(shape_.groups - (b - a), copy);
          IBCOLL_TRY(builder_.connect(hosts_ + switch_of(a, from), global_port(from),
                                      hosts_ + switch_of(b, to), global_port(to), global));
        }
      }
    }
    return {};
  }

  int port_to(int s, int to) const {
    const int group = s / shape_.routers, router = s % shape_.routers;
    const int target = to / shape_.hosts, target_group = target / shape_.routers;
    if (target == s) return 1 + to % shape_.hosts;
    if (target_group == group) return local_port(router, target % shape_.routers);
    const int distance = (target_group - group + shape_.groups) % shape_.groups;
    const int global = global_of(distance, to % copies());
    const int gate = global / shape_.globals;
    return gate == router ? global_port(global) : local_port(router, gate);
  }

  const Dragonfly shape_;
  const LinkSpeeds& speeds_;
  int switches_, hosts_;
  FabricBuilder builder_;
};

}  // namespace

Result<Fabric> dragonfly(const Dragonfly& asked, const LinkSpeeds& speeds) {
  Dragonfly shape = asked;
  constexpr int kMost = 4096;
  for (const int number : {shape.hosts, shape.routers, shape.globals}) {
    if (number < 1 || number > kMost) {
      return fail(ErrorCode::kInvalidArgument,
                  "a dragonfly of {} hosts, {} routers and {} global cables: each 1 to {}",
                  shape.hosts, shape.routers, shape.globals, kMost);
    }
  }
  const int most_groups = shape.routers * shape.globals + 1;
  if (shape.groups == 0) shape.groups = most_groups;
  if (shape.groups < 1 || shape.groups > most_groups) {
    return fail(ErrorCode::kInvalidArgument,
                "a dragonfly of {} groups: these have cables for 1 to {}", shape.groups,
                most_groups);
  }
  const int64_t switches = int64_t{shape.groups} * shape.routers;
  if (switches > Fabric::kMaxTableEntries / (switches * shape.hosts)) {
    return fail(ErrorCode::kInvalidArgument,
                "a dragonfly of {} switches and {} hosts needs more than {} routing entries",
                switches, switches * shape.hosts, Fabric::kMaxTableEntries);
  }
  return DragonflyMaker(shape, speeds).make();
}

}  // namespace ibcoll::topology
