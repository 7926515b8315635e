#pragma once
/// Hierarchies of processors: cores of a socket, sockets of a machine, machines of a rack.

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll::topology {

/// Nodes in groups, groups in larger groups and so on. How far two nodes are apart depends on the
/// smallest group that holds both: the usual input of process mapping (Schulz, Traeff: Better
/// Process Mapping and Sparse Quadratic Assignment, SEA 2017). Node n is in group n / groups[0] of
/// the first level, that one in group n / (groups[0] * groups[1]) of the second.
///
/// Each node, and each group but the whole, has a link up to the group around it and a link down
/// from there, so a link carries what goes into or out of a group.
class Hierarchy {
 public:
  static constexpr int kMaxLevels = 16;
  static constexpr int kMaxNodes = 1 << 20;
  static constexpr int kMaxDistance = 1 << 20;

  /// `groups[l]` members of level l form one of level l + 1. `distances[l]` is that of two nodes
  /// whose smallest common group has level l + 1. Refuses lists of different lengths, members below
  /// 1, distances below 1 or smaller than the one before, and what is larger than the constants.
  static Result<Hierarchy> create(std::vector<int> groups, std::vector<int> distances);
  /// Reads "4:16:16" and "1:10:100".
  static Result<Hierarchy> parse(std::string_view groups, std::string_view distances);

  int nodes() const { return spans_.back(); }
  int levels() const { return static_cast<int>(groups_.size()); }
  /// Members of a group of level l + 1.
  int members(int level) const { return groups_[level]; }
  /// Nodes of a group of level l; of level 0 it is one node.
  int span(int level) const { return spans_[level]; }
  int distance_at(int level) const { return distances_[level]; }
  /// "hierarchy:4:16:16".
  std::string name() const;

  /// How far apart two nodes are, the same there and back.
  int distance(int a, int b) const { return a == b ? 0 : distances_[meeting_level(a, b)]; }

  int links() const { return 2 * first_link_.back(); }
  int usable_links() const { return links(); }
  /// Calls `visit(link)` for every link from a up to the smallest common group and down to b.
  template <class Visit>
  void route(int a, int b, Visit&& visit) const {
    if (a == b) return;
    const int top = meeting_level(a, b);
    for (int level = 0; level <= top; ++level) visit(link(level, group_of(a, level), true));
    for (int level = top; level >= 0; --level) visit(link(level, group_of(b, level), false));
  }

 private:
  int link(int level, int group, bool up) const {
    return 2 * (first_link_[level] + group) + (up ? 0 : 1);
  }
  int group_of(int node, int level) const {
    return group_of_[static_cast<size_t>(node) * groups_.size() + level];
  }
  /// The level whose groups still part two nodes that the next level has in one.
  int meeting_level(int a, int b) const {
    int level = levels() - 1;
    while (level > 0 && group_of(a, level) == group_of(b, level)) --level;
    return level;
  }

  std::vector<int> groups_, distances_, spans_;
  std::vector<int> first_link_;  ///< number of groups below each level
  std::vector<int> group_of_;    ///< node * levels + level
};

}  // namespace ibcoll::topology
