#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "topology/fabric_builder.h"
#include "topology/generators.h"
#include "topology/generators/speeds.h"

namespace ibcoll::topology {
namespace {

/// The shape of a tree and where its nodes stand. A switch of level l (1 .. levels) is named by
/// l digits y_1 .. y_l, y_i < w_i, and those digits a_(l+1) .. a_h of its hosts' numbers that are
/// the same below it; as a number: y_1 fastest, a_h slowest.
class Tree {
 public:
  Tree(const FatTree& tree) : m_(tree.children), w_(tree.parents), p_(tree.cables) {
    if (p_.empty()) p_.assign(m_.size(), 1);
    full_hosts_ = std::accumulate(m_.begin(), m_.end(), int64_t{1}, std::multiplies<>());
  }

  int levels() const { return static_cast<int>(m_.size()); }
  int64_t full_hosts() const { return full_hosts_; }
  int children(int level) const { return m_[level - 1]; }
  /// Parents of a node of `level`, and cables to each.
  int parents(int level) const { return level < levels() ? w_[level] : 0; }
  int cables(int level) const { return p_[level]; }
  /// How many ancestors at `level` a host has.
  int64_t width(int level) const {
    return std::accumulate(w_.begin(), w_.begin() + level, int64_t{1}, std::multiplies<>());
  }
  /// How many hosts are below a switch of `level`.
  int64_t reach(int level) const {
    return std::accumulate(m_.begin(), m_.begin() + level, int64_t{1}, std::multiplies<>());
  }
  int64_t switches(int level) const { return width(level) * (full_hosts_ / reach(level)); }
  /// Which group of `reach(level)` hosts is below switch `index` of `level`.
  int64_t group(int level, int64_t index) const { return index / width(level); }
  /// The parent of (level, index) that has digit y.
  int64_t parent(int level, int64_t index, int y) const {
    const int64_t low = index % width(level), high = group(level, index) / m_[level];
    return low + width(level) * (y + w_[level] * high);
  }

 private:
  std::vector<int> m_, w_, p_;
  int64_t full_hosts_ = 0;
};

Status check(const FatTree& tree) {
  const size_t levels = tree.children.size();
  if (levels < 1 || levels > 8) {
    return fail(ErrorCode::kInvalidArgument, "a fat tree of {} levels: 1 to 8", levels);
  }
  if (tree.parents.size() != levels || (!tree.cables.empty() && tree.cables.size() != levels)) {
    return fail(ErrorCode::kInvalidArgument,
                "a fat tree of {} levels needs as many numbers of parents ({}) and cables ({})",
                levels, tree.parents.size(), tree.cables.size());
  }
  for (const auto* numbers : {&tree.children, &tree.parents, &tree.cables}) {
    for (const int number : *numbers) {
      if (number < 1 || number > Fabric::kMaxPort) {
        return fail(ErrorCode::kInvalidArgument, "a fat tree with a side of {}: 1 to {}", number,
                    Fabric::kMaxPort);
      }
    }
  }
  if (tree.parents[0] != 1 || (!tree.cables.empty() && tree.cables[0] != 1)) {
    return fail(ErrorCode::kInvalidArgument, "a host has one parent and one cable, not {} and {}",
                tree.parents[0], tree.cables.empty() ? 1 : tree.cables[0]);
  }
  int64_t hosts = 1, switches = 0, width = 1;
  for (const int number : tree.children) {
    hosts *= number;
    if (hosts > Fabric::kMaxTableEntries) {
      return fail(ErrorCode::kInvalidArgument, "a fat tree of more than {} hosts",
                  Fabric::kMaxTableEntries);
    }
  }
  int64_t reach = 1;
  for (size_t l = 0; l < levels; ++l) {
    reach *= tree.children[l];
    width *= tree.parents[l];
    const bool wide = width > Fabric::kMaxTableEntries;
    if (!wide) switches += width * (hosts / reach);
    if (wide || switches > Fabric::kMaxTableEntries / hosts) {
      return fail(ErrorCode::kInvalidArgument,
                  "the switches of a fat tree with {} hosts need more than {} routing entries",
                  hosts, Fabric::kMaxTableEntries);
    }
  }
  if (tree.hosts < 0 || tree.hosts > hosts) {
    return fail(ErrorCode::kInvalidArgument, "{} hosts of a fat tree that has {}", tree.hosts,
                hosts);
  }
  return {};
}

/// Everything of one level's switches: cables to the level below, and routes.
class FatTreeMaker {
 public:
  FatTreeMaker(const FatTree& shape, const LinkSpeeds& speeds, std::string name)
      : tree_(shape),
        speeds_(speeds),
        hosts_(shape.hosts != 0 ? shape.hosts : static_cast<int>(tree_.full_hosts())),
        builder_(std::move(name)) {}

  Result<Fabric> make() {
    builder_.set_switch_latency(speeds_.switch_latency_ns);
    for (int host = 0; host < hosts_; ++host) builder_.add_host(fmt::format("h{}", host));
    for (int level = 1; level <= tree_.levels(); ++level) {
      first_.push_back(builder_.nodes());
      for (int64_t i = 0; i < tree_.switches(level); ++i) {
        builder_.add_switch(fmt::format("s{}.{}", level, i));
      }
    }
    for (int host = 0; host < hosts_; ++host) {
      const int below = tree_.children(1);
      IBCOLL_TRY(builder_.connect(host, 1, node(1, host / below), 1 + host % below,
                                  link_at_level(speeds_, 0)));
    }
    for (int level = 1; level < tree_.levels(); ++level) IBCOLL_TRY(connect_up(level));
    IBCOLL_TRY(builder_.begin_routes());
    for (int level = 1; level <= tree_.levels(); ++level) route(level);
    return builder_.finish();
  }

 private:
  int node(int level, int64_t index) const { return first_[level - 1] + static_cast<int>(index); }
  /// A bundle to child c of a switch starts behind port down(level) * c.
  int down_cables(int level) const { return level == 1 ? 1 : tree_.cables(level - 1); }
  int up_ports_start(int level) const { return tree_.children(level) * down_cables(level) + 1; }

  Status connect_up(int level) {
    const Cable cable = link_at_level(speeds_, level);
    for (int64_t i = 0; i < tree_.switches(level); ++i) {
      for (int y = 0; y < tree_.parents(level); ++y) {
        const int parent = node(level + 1, tree_.parent(level, i, y));
        const int child = static_cast<int>(tree_.group(level, i) % tree_.children(level + 1));
        for (int c = 0; c < tree_.cables(level); ++c) {
          IBCOLL_TRY(builder_.connect(node(level, i),
                                      up_ports_start(level) + c * tree_.parents(level) + y, parent,
                                      1 + child * tree_.cables(level) + c, cable));
        }
      }
    }
    return {};
  }

  /// Which of the `parents * cables` ports up from `level` a packet for host j takes (d-mod-k).
  int up_port(int level, int host) const {
    return static_cast<int>(host / tree_.width(level) %
                            (tree_.parents(level) * tree_.cables(level)));
  }

  void route(int level) {
    const int64_t reach = tree_.reach(level), below = reach / tree_.children(level);
    for (int64_t i = 0; i < tree_.switches(level); ++i) {
      const int64_t group = tree_.group(level, i);
      for (int to = 0; to < hosts_; ++to) {
        int port;
        if (to / reach == group) {
          const int child = static_cast<int>(to / below % tree_.children(level));
          const int cable = level == 1 ? 0 : up_port(level - 1, to) / tree_.parents(level - 1);
          port = 1 + child * down_cables(level) + cable;
        } else {
          port = up_ports_start(level) + up_port(level, to);
        }
        builder_.set_port(node(level, i), to, port);
      }
    }
  }

  Tree tree_;
  const LinkSpeeds& speeds_;
  int hosts_;
  FabricBuilder builder_;
  std::vector<int> first_;  ///< first switch of each level, from level 1
};

}  // namespace

Result<Fabric> fat_tree(const FatTree& tree, const LinkSpeeds& speeds) {
  IBCOLL_TRY(check(tree));
  std::string name =
      fmt::format("xgft:{}/{}", fmt::join(tree.children, "x"), fmt::join(tree.parents, "x"));
  if (!tree.cables.empty()) name += fmt::format("/{}", fmt::join(tree.cables, "x"));
  if (tree.hosts != 0) name += fmt::format(",hosts={}", tree.hosts);
  return FatTreeMaker(tree, speeds, std::move(name)).make();
}

Result<Fabric> k_ary_n_tree(int k, int n, int taper, const LinkSpeeds& speeds) {
  if (k < 1 || n < 1 || n > 8 || taper < 1 || k % taper != 0) {
    return fail(
        ErrorCode::kInvalidArgument,
        "a {}-ary {}-tree tapered {} to 1: k at least 1, n 1 to 8, k a multiple of the taper", k, n,
        taper);
  }
  FatTree tree{std::vector<int>(n, k), std::vector<int>(n, k), {}, 0};
  tree.parents[0] = 1;
  if (n > 1) tree.parents[1] = k / taper;
  return fat_tree(tree, speeds);
}

}  // namespace ibcoll::topology
