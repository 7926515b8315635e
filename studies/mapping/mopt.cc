#include "studies/mapping/mopt.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "studies/mapping/joins.h"

namespace ibcoll::topology {
namespace {

struct Group {
  Shape shape{};
  std::vector<int> tasks;
  std::vector<Coordinates> at;  ///< of each task, within the group's box
};

/// Bytes on the links of one box, routes as on a mesh.
class LinkLoads {
 public:
  LinkLoads(const Shape& shape, int dimensions) : dimensions_(dimensions) {
    int stride = 1;
    for (int d = 0; d < dimensions; ++d) {
      strides_[d] = stride;
      stride *= shape[d];
    }
    loads_.assign(static_cast<size_t>(stride) * dimensions * 2, 0);
  }
  void add(const Coordinates& from, const Coordinates& to, double bytes) {
    int node = 0;
    for (int d = 0; d < dimensions_; ++d) node += from[d] * strides_[d];
    for (int d = 0; d < dimensions_; ++d) {
      for (int x = from[d]; x < to[d]; ++x) {
        loads_[(node * dimensions_ + d) * 2] += bytes;
        node += strides_[d];
      }
      for (int x = from[d]; x > to[d]; --x) {
        loads_[(node * dimensions_ + d) * 2 + 1] += bytes;
        node -= strides_[d];
      }
    }
  }
  double largest() const { return *std::max_element(loads_.begin(), loads_.end()); }

 private:
  int dimensions_;
  Coordinates strides_{};
  std::vector<double> loads_;
};

class Merger {
 public:
  Merger(const CommMatrix& matrix, const Grid& grid, JoinRule rule)
      : matrix_(matrix), dimensions_(grid.dimensions()), rule_(rule), owner_(grid.nodes()) {
    whole_.fill(1);
    for (int d = 0; d < dimensions_; ++d) whole_[d] = grid.side(d);
    Shape single;
    single.fill(1);
    for (int task = 0; task < grid.nodes(); ++task) {
      queue_.push_back({single, {task}, {Coordinates{}}});
      owner_[task] = {task, 0};
    }
  }

  /// Merges until one group fills the network.
  const Group& run() {
    std::vector<Join> joins = plan_joins(whole_, dimensions_);
    for (size_t begin = 0; begin < joins.size();) {
      size_t end = begin;
      while (end < joins.size() && joins[end].level == joins[begin].level) ++end;
      iterate(std::span(joins).subspan(begin, end - begin));
      begin = end;
    }
    return queue_.front();
  }

 private:
  /// As many as there are up to three dimensions.
  static constexpr size_t kMostTurnsFirst = 12, kMostTurnsSecond = 48;

  struct Owner {
    int group = 0;
    int index = 0;  ///< of the task within the group
  };
  /// Traffic between two groups that are about to be joined.
  struct Cross {
    int first = 0, second = 0;  ///< index within the first and the second group
    double bytes = 0;
    bool forward = true;  ///< sent by the first group
  };

  /// One iteration of the paper: all joins of one level.
  void iterate(std::span<Join> joins) {
    std::vector<Group> next;
    std::vector<char> taken(queue_.size(), 0);
    for (size_t head = 0; head < queue_.size(); ++head) {
      if (taken[head]) continue;
      taken[head] = 1;
      Join* join = nullptr;
      const int partner = choose_partner(static_cast<int>(head), taken, joins, join);
      if (partner < 0) {
        next.push_back(std::move(queue_[head]));
        continue;
      }
      taken[partner] = 1;
      --join->wanted;
      Group &a = queue_[head], &b = queue_[partner];
      const bool swapped = a.shape != join->first;
      next.push_back(swapped ? merge(b, a, *join) : merge(a, b, *join));
    }
    queue_ = std::move(next);
    for (size_t group = 0; group < queue_.size(); ++group) {
      for (size_t i = 0; i < queue_[group].tasks.size(); ++i) {
        owner_[queue_[group].tasks[i]] = {static_cast<int>(group), static_cast<int>(i)};
      }
    }
  }

  static Join* find_join(std::span<Join> joins, const Shape& a, const Shape& b) {
    for (Join& join : joins) {
      if (join.wanted > 0 &&
          ((join.first == a && join.second == b) || (join.first == b && join.second == a))) {
        return &join;
      }
    }
    return nullptr;
  }

  /// The group of largest CommGroup with `head` that some join takes; -1 if none does.
  int choose_partner(int head, const std::vector<char>& taken, std::span<Join> joins, Join*& join) {
    traffic_.resize(queue_.size(), 0);
    std::vector<int> peers;
    for (const int task : queue_[head].tasks) {
      if (task >= matrix_.tasks()) continue;
      for (const CommMatrix::Edge& edge : matrix_.both(task)) {
        const int group = owner_[edge.task].group;
        if (taken[group]) continue;
        if (traffic_[group] == 0) peers.push_back(group);
        traffic_[group] += edge.bytes;
      }
    }
    int best = -1;
    for (const int peer : peers) {
      const bool better = best < 0 || traffic_[peer] > traffic_[best] ||
                          (traffic_[peer] == traffic_[best] && peer < best);
      if (!better) continue;
      if (Join* found = find_join(joins, queue_[head].shape, queue_[peer].shape)) {
        best = peer;
        join = found;
      }
    }
    for (const int peer : peers) traffic_[peer] = 0;
    if (best >= 0) return best;
    for (size_t peer = head + 1; peer < queue_.size(); ++peer) {
      if (taken[peer]) continue;
      join = find_join(joins, queue_[head].shape, queue_[peer].shape);
      if (join != nullptr) return static_cast<int>(peer);
    }
    return -1;
  }

  std::vector<Cross> cross_traffic(const Group& a, const Group& b) const {
    std::vector<Cross> cross;
    const Owner second = owner_[b.tasks.front()];
    for (size_t i = 0; i < a.tasks.size(); ++i) {
      if (a.tasks[i] >= matrix_.tasks()) continue;
      const auto add = [&](std::span<const CommMatrix::Edge> edges, bool forward) {
        for (const CommMatrix::Edge& edge : edges) {
          const Owner& owner = owner_[edge.task];
          if (owner.group == second.group) {
            cross.push_back({static_cast<int>(i), owner.index, edge.bytes, forward});
          }
        }
      };
      if (rule_ == JoinRule::kMinCost) {
        add(matrix_.both(a.tasks[i]), true);
      } else {
        add(matrix_.out(a.tasks[i]), true);
        add(matrix_.in(a.tasks[i]), false);
      }
    }
    return cross;
  }

  static std::vector<Coordinates> placed(const Group& group, const Orientation& orientation,
                                         int dimension, int offset) {
    std::vector<Coordinates> at;
    at.reserve(group.at.size());
    for (const Coordinates& before : group.at) {
      at.push_back(orientation.apply(before, group.shape));
      at.back()[dimension] += offset;
    }
    return at;
  }

  double hop_bytes(const std::vector<Cross>& cross, const std::vector<Coordinates>& a,
                   const std::vector<Coordinates>& b) const {
    double cost = 0;
    for (const Cross& flow : cross) {
      int hops = 0;
      for (int d = 0; d < dimensions_; ++d) {
        hops += std::abs(a[flow.first][d] - b[flow.second][d]);
      }
      cost += hops * flow.bytes;
    }
    return cost;
  }

  /// Adds the traffic inside one group to the loads.
  void add_inside(const Group& group, const std::vector<Coordinates>& at, LinkLoads& loads) const {
    const int self = owner_[group.tasks.front()].group;
    for (size_t i = 0; i < group.tasks.size(); ++i) {
      if (group.tasks[i] >= matrix_.tasks()) continue;
      for (const CommMatrix::Edge& edge : matrix_.out(group.tasks[i])) {
        const Owner& owner = owner_[edge.task];
        if (owner.group == self) loads.add(at[i], at[owner.index], edge.bytes);
      }
    }
  }

  const std::vector<Orientation>& turns_of(const Shape& shape, int mirrored_only) {
    const auto [it, added] = turns_.try_emplace({shape, mirrored_only});
    if (added) it->second = orientations(shape, mirrored_only);
    return it->second;
  }

  /// Joins `a` (first along the join's dimension) and `b`.
  Group merge(const Group& a, const Group& b, const Join& join) {
    const int offset = join.first[join.dimension];
    std::vector<Orientation> turns_a = turns_of(a.shape, join.dimension);
    std::vector<Orientation> turns_b = turns_of(b.shape, -1);
    thin_out(turns_a, kMostTurnsFirst);
    thin_out(turns_b, kMostTurnsSecond);
    if (rule_ == JoinRule::kNone) {
      turns_a.resize(1);
      turns_b.resize(1);
    }
    std::vector<std::vector<Coordinates>> all_a, all_b;
    for (const Orientation& turn : turns_a) all_a.push_back(placed(a, turn, join.dimension, 0));
    for (const Orientation& turn : turns_b) {
      all_b.push_back(placed(b, turn, join.dimension, offset));
    }
    size_t best_a = 0, best_b = 0;
    if (rule_ == JoinRule::kMinCost) {
      const std::vector<Cross> cross = cross_traffic(a, b);
      double best = std::numeric_limits<double>::infinity();
      for (size_t i = 0; i < all_a.size(); ++i) {
        for (size_t j = 0; j < all_b.size(); ++j) {
          const double cost = hop_bytes(cross, all_a[i], all_b[j]);
          if (cost < best) {
            best = cost;
            best_a = i;
            best_b = j;
          }
        }
      }
    } else if (rule_ == JoinRule::kMinLink) {
      std::tie(best_a, best_b) = choose_by_link(a, b, all_a, all_b, join.shape);
    }
    Group merged{join.shape, a.tasks, std::move(all_a[best_a])};
    merged.tasks.insert(merged.tasks.end(), b.tasks.begin(), b.tasks.end());
    merged.at.insert(merged.at.end(), all_b[best_b].begin(), all_b[best_b].end());
    return merged;
  }

  std::pair<size_t, size_t> choose_by_link(const Group& a, const Group& b,
                                           const std::vector<std::vector<Coordinates>>& all_a,
                                           const std::vector<std::vector<Coordinates>>& all_b,
                                           const Shape& shape) {
    const std::vector<Cross> cross = cross_traffic(a, b);
    std::pair<double, double> best{std::numeric_limits<double>::infinity(), 0};
    std::pair<size_t, size_t> chosen{0, 0};
    for (size_t i = 0; i < all_a.size(); ++i) {
      LinkLoads inside_a(shape, dimensions_);
      add_inside(a, all_a[i], inside_a);
      for (size_t j = 0; j < all_b.size(); ++j) {
        LinkLoads loads = inside_a;
        add_inside(b, all_b[j], loads);
        for (const Cross& flow : cross) {
          const Coordinates &x = all_a[i][flow.first], &y = all_b[j][flow.second];
          flow.forward ? loads.add(x, y, flow.bytes) : loads.add(y, x, flow.bytes);
        }
        const std::pair<double, double> cost{loads.largest(), hop_bytes(cross, all_a[i], all_b[j])};
        if (cost < best) {
          best = cost;
          chosen = {i, j};
        }
      }
    }
    return chosen;
  }

  const CommMatrix& matrix_;
  int dimensions_;
  JoinRule rule_;
  Shape whole_{};
  std::vector<Group> queue_;
  std::vector<Owner> owner_;  ///< of each task
  std::map<std::pair<Shape, int>, std::vector<Orientation>> turns_;
  std::vector<double> traffic_;  ///< scratch of choose_partner, all zero between calls
};

}  // namespace

Result<std::vector<int>> mopt(const CommMatrix& matrix, const Grid& grid, JoinRule rule) {
  if (matrix.tasks() > grid.nodes()) {
    return fail(ErrorCode::kInvalidArgument, "{} tasks on the {} nodes of {}", matrix.tasks(),
                grid.nodes(), grid.name());
  }
  Merger merger(matrix, grid, rule);
  const Group& all = merger.run();
  std::vector<int> placement(matrix.tasks());
  for (size_t i = 0; i < all.tasks.size(); ++i) {
    if (all.tasks[i] >= matrix.tasks()) continue;
    placement[all.tasks[i]] =
        grid.node_at({all.at[i].begin(), all.at[i].begin() + grid.dimensions()});
  }
  return placement;
}

}  // namespace ibcoll::topology
