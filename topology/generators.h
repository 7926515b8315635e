#pragma once
/// Fabrics made from a few numbers. Hosts are numbered as each comment says, so that host h is a
/// natural place for server h.

#include <cstdint>
#include <string>
#include <vector>

#include "topology/fabric.h"

namespace ibcoll::topology {

/// What the links of a generated fabric are.
struct LinkSpeeds {
  double bandwidth = 2000e6;      ///< of a host's link and those not named below, bytes a second
  std::vector<double> trunks;     ///< of links between switches, from the hosts upwards; the last
                                  ///< goes for all above. Empty: `bandwidth`
  int64_t latency_ns = 200;       ///< of every link not named below
  int64_t long_latency_ns = 200;  ///< of a dragonfly's global links, of a WAN's
  int64_t switch_latency_ns = 0;  ///< of passing a switch
};

/// `hosts` on one switch.
Result<Fabric> single_switch(int hosts, const LinkSpeeds& speeds = {});

/// Parallel-port generalised fat tree PGFT(h; m; w; p) (Zahavi 2010; an XGFT, Oehring et al. 1995,
/// where all p are 1). A node of level l has m[l] children and w[l] parents, each over p[l] cables
/// (level 0 are the hosts: w[0] = p[0] = 1). Routes are d-mod-k: going up at level l towards host
/// j, port floor(j / (w[1] .. w[l])) mod (w[l+1] p[l+1]), coming down over the same cable of a
/// bundle. Hosts are in tree order. A k-ary n-tree is m = k .. k, w = 1, k .. k; tapered f to 1,
/// w[1] = k / f; a plain tree of switches has all w = 1. `hosts`, if not 0, keeps the first so
/// many.
struct FatTree {
  std::vector<int> children;  ///< m
  std::vector<int> parents;   ///< w
  std::vector<int> cables;    ///< p; empty: all 1
  int hosts = 0;
};
Result<Fabric> fat_tree(const FatTree& tree, const LinkSpeeds& speeds = {});
/// k-ary n-tree, `taper` to 1 at the switches of the hosts; k must be a multiple of it.
Result<Fabric> k_ary_n_tree(int k, int n, int taper = 1, const LinkSpeeds& speeds = {});

/// Mesh or torus of any sides, a switch with `hosts_per_switch` hosts at each point. Dimension 0
/// runs fastest in the numbers of switches; hosts follow their switches. Routes correct dimension 0
/// first and take the shorter way round, at exactly half a ring the way that does not wrap (as
/// Grid of mapping does). The wraparound links raise the lane.
Result<Fabric> grid_fabric(const std::vector<int>& sides, bool torus, int hosts_per_switch = 1,
                           const LinkSpeeds& speeds = {});

/// Canonical dragonfly (Kim et al. 2008): groups of `routers` switches, all joined pairwise, each
/// with `hosts` hosts and `globals` cables to other groups; `groups` of them (0: routers * globals
/// + 1). Global port k of a group leads to the group k mod (groups - 1) + 1 further; left-over
/// ports stay empty. Routes are minimal (one local, one global, one local link at most); of several
/// cables between two groups the destination's number picks one. Global links raise the lane.
struct Dragonfly {
  int hosts = 0, routers = 0, globals = 0, groups = 0;
};
Result<Fabric> dragonfly(const Dragonfly& shape, const LinkSpeeds& speeds = {});

/// One cluster of a WAN: hosts on one switch, with cables out.
struct Cluster {
  std::string name;
  int hosts = 0;
  double access = 0;    ///< bandwidth of a host's link, bytes a second
  int exit_cables = 1;  ///< bundled, each a link of its own
  double exit = 0;      ///< bandwidth of each of them
};
/// Clusters joined by their exits: two directly, more over one switch in the middle. The latency
/// from cluster to cluster is `speeds.long_latency_ns`; of all else `speeds.latency_ns`.
Result<Fabric> clusters_fabric(const std::string& name, const std::vector<Cluster>& clusters,
                               const LinkSpeeds& speeds = {});
/// The first `count` (1 to 12) of the twelve clusters of the InTrigger platform that a thesis on
/// contention-free collectives used (2010, tables 6.1 and 6.2), in the order in which they joined:
/// 157 hosts. Bundled exits are so many cables of 1 Gbit/s; where the table gives hosts 1 or 2
/// Gbit/s they have 1.
std::vector<Cluster> twelve_clusters(int count = 12);

/// A random tree: each of `switches` joins an earlier one, each of `hosts` a switch, both drawn by
/// `seed`; every cable between switches draws one of `speeds.trunks`. Every switch that would have
/// been a leaf without hosts gets one first.
Result<Fabric> random_tree(int hosts, int switches, uint64_t seed, const LinkSpeeds& speeds = {});

}  // namespace ibcoll::topology
