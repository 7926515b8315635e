#include <random>

#include "topology/generators/speeds.h"

namespace ibcoll::topology {

Result<Fabric> clusters_fabric(const std::string& name, const std::vector<Cluster>& clusters,
                               const LinkSpeeds& speeds) {
  if (clusters.empty()) return fail(ErrorCode::kInvalidArgument, "{}: no clusters", name);
  FabricBuilder builder(name);
  builder.set_switch_latency(speeds.switch_latency_ns);
  std::vector<int> switches;
  for (const Cluster& cluster : clusters) {
    if (cluster.hosts < 1 || cluster.hosts > 1 << 15 || cluster.exit_cables < 1 ||
        cluster.exit_cables > 1024) {
      return fail(ErrorCode::kInvalidArgument,
                  "cluster {} has {} hosts and {} exits: 1 to 32768 and 1 to 1024", cluster.name,
                  cluster.hosts, cluster.exit_cables);
    }
    switches.push_back(builder.add_switch(cluster.name));
    for (int host = 0; host < cluster.hosts; ++host) {
      const int node = builder.add_host(fmt::format("{}-{}", cluster.name, host));
      IBCOLL_TRY(builder.connect(node, switches.back(), {cluster.access, speeds.latency_ns}));
    }
  }
  if (clusters.size() == 2) {
    // One bundle between the two: of the narrower exit.
    const bool first =
        clusters[0].exit_cables * clusters[0].exit <= clusters[1].exit_cables * clusters[1].exit;
    const Cluster& narrow = clusters[first ? 0 : 1];
    for (int cable = 0; cable < narrow.exit_cables; ++cable) {
      IBCOLL_TRY(builder.connect(switches[0], switches[1], {narrow.exit, speeds.long_latency_ns}));
    }
  } else if (clusters.size() > 2) {
    const int middle = builder.add_switch("wan");
    for (size_t c = 0; c < clusters.size(); ++c) {
      for (int cable = 0; cable < clusters[c].exit_cables; ++cable) {
        IBCOLL_TRY(
            builder.connect(switches[c], middle, {clusters[c].exit, speeds.long_latency_ns / 2}));
      }
    }
  }
  IBCOLL_TRY(builder.begin_routes());
  IBCOLL_TRY(builder.route_shortest());
  return builder.finish();
}

std::vector<Cluster> twelve_clusters(int count) {
  constexpr double kGigabit = 1e9 / 8;
  const std::vector<Cluster> all = {
      {"chiba", 32, kGigabit, 1, 10 * kGigabit}, {"hongo", 16, kGigabit, 1, 10 * kGigabit},
      {"suzuk", 24, kGigabit, 1, kGigabit},      {"okubo", 10, kGigabit, 1, 10 * kGigabit},
      {"keio", 10, kGigabit, 3, kGigabit},       {"tsukuba", 10, kGigabit, 2, kGigabit},
      {"tohoku", 10, kGigabit, 2, kGigabit},     {"kyoto", 10, kGigabit, 1, 10 * kGigabit},
      {"hiro", 10, kGigabit, 3, kGigabit},       {"kyushu", 10, kGigabit, 3, kGigabit},
      {"kyutech", 10, kGigabit, 2, kGigabit},    {"mirai", 5, kGigabit, 3, kGigabit}};
  return {all.begin(), all.begin() + std::clamp(count, 1, static_cast<int>(all.size()))};
}

Result<Fabric> random_tree(int hosts, int switches, uint64_t seed, const LinkSpeeds& speeds) {
  if (hosts < 1 || switches < 1 || int64_t{hosts} * switches > Fabric::kMaxTableEntries) {
    return fail(ErrorCode::kInvalidArgument,
                "a random tree of {} hosts and {} switches: at least 1 each, at most {} entries",
                hosts, switches, Fabric::kMaxTableEntries);
  }
  // Drawn by remainder: the distributions of <random> differ between libraries.
  std::mt19937_64 random(seed);
  const auto draw = [&](size_t below) { return static_cast<int>(random() % below); };
  FabricBuilder builder(fmt::format("random-tree:{},{},seed={}", hosts, switches, seed));
  builder.set_switch_latency(speeds.switch_latency_ns);
  std::vector<int> parent(switches, -1);
  std::vector<bool> has_children(switches, false);
  for (int host = 0; host < hosts; ++host) builder.add_host(fmt::format("h{}", host));
  for (int s = 0; s < switches; ++s) {
    builder.add_switch(fmt::format("s{}", s));
    if (s == 0) continue;
    parent[s] = draw(s);
    has_children[parent[s]] = true;
    Cable cable = link_at_level(speeds, 1);
    if (!speeds.trunks.empty()) cable.bandwidth = speeds.trunks[draw(speeds.trunks.size())];
    IBCOLL_TRY(builder.connect(hosts + s, hosts + parent[s], cable));
  }
  int next = 0;  // first all leaves, then any
  for (int host = 0; host < hosts; ++host) {
    while (next < switches && has_children[next]) ++next;
    const int place = next < switches ? next++ : draw(switches);
    IBCOLL_TRY(builder.connect(host, hosts + place, link_at_level(speeds, 0)));
  }
  IBCOLL_TRY(builder.begin_routes());
  IBCOLL_TRY(builder.route_shortest());
  return builder.finish();
}

}  // namespace ibcoll::topology
