#include "studies/mapping/unit_anneal.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "studies/mapping/mopt.h"
#include "studies/mapping/random.h"

namespace ibcoll::topology {
namespace {

/// Sites in the order of repeated halving along the longest side, the last one of equals first:
/// near each other in the order, near in the torus.
void order_by_halves(const Grid& grid, std::vector<int>& sites, size_t begin, size_t end,
                     const std::vector<int>& node_of_site) {
  if (end - begin < 2) return;
  int along = 0, longest = -1;
  for (int d = 0; d < grid.dimensions(); ++d) {
    int low = grid.side(d), high = 0;
    for (size_t i = begin; i < end; ++i) {
      const int x = grid.coordinate(node_of_site[sites[i]], d);
      low = std::min(low, x);
      high = std::max(high, x);
    }
    if (high - low >= longest) {
      longest = high - low;
      along = d;
    }
  }
  std::stable_sort(sites.begin() + static_cast<int64_t>(begin),
                   sites.begin() + static_cast<int64_t>(end), [&](int a, int b) {
                     return grid.coordinate(node_of_site[a], along) <
                            grid.coordinate(node_of_site[b], along);
                   });
  const size_t middle = begin + (end - begin + 1) / 2;
  order_by_halves(grid, sites, begin, middle, node_of_site);
  order_by_halves(grid, sites, middle, end, node_of_site);
}

/// What the links' loads cost beyond their sum: softness x exp((load - knee) / softness), tabled
/// and interpolated.
class Penalty {
 public:
  void set(double knee, double softness, double most) {
    step_ = most / kSteps;
    for (int i = 0; i <= kSteps; ++i) {
      constexpr double kSteepest = 30;  // beyond that it only matters that it is far too much
      const double excess = std::min((i * step_ - knee) / softness, kSteepest);
      cost_[i] = softness * std::exp(excess);
    }
  }
  double operator()(double load) const {
    const double at = std::clamp(load / step_, 0.0, kSteps - 1.0);
    const int i = static_cast<int>(at);
    return cost_[i] + (at - i) * (cost_[i + 1] - cost_[i]);
  }

 private:
  static constexpr int kSteps = 2048;
  double step_ = 1;
  std::array<double, kSteps + 1> cost_{};
};

class UnitAnnealer {
 public:
  UnitAnnealer(const CommMatrix& matrix, const Grid& grid, const Units& units, const Tiling& tiling,
               const UnitPlaces& start, const UnitAnnealOptions& options)
      : matrix_(matrix),
        grid_(grid),
        units_(units),
        tiling_(tiling),
        options_(options),
        random_(options.seed),
        site_of_node_(grid.nodes()),
        unit_of_(matrix.tasks()),
        place_of_(matrix.tasks()),
        traffic_(units.count()),
        at_(start),
        unit_at_(units.count()),
        loads_(grid.links(), 0),
        change_(grid.links(), 0) {
    for (size_t i = 0; i < tiling.nodes.size(); ++i)
      site_of_node_[tiling.nodes[i]] = static_cast<int>(i) / Units::kSize;
    for (size_t i = 0; i < units.tasks.size(); ++i) {
      unit_of_[units.tasks[i]] = static_cast<int>(i) / Units::kSize;
      place_of_[units.tasks[i]] = static_cast<int>(i) % Units::kSize;
    }
    for (int unit = 0; unit < units.count(); ++unit) unit_at_[at_.site_of[unit]] = unit;
    list_traffic();
  }

  Placement run() {
    route_all();
    Placement best = placement_of(units_, tiling_, at_);
    double best_load = largest();
    const double hops_a_unit = outside_hops() / units_.count();
    const Stopwatch watch(options_.limits.clock);
    const bool timed = options_.limits.moves == INT64_MAX;
    int64_t moves = 0;
    for (int phase = 0; phase < kPhases; ++phase) {
      const double part =
          options_.cooled + (1 - options_.cooled) * static_cast<double>(phase) / (kPhases - 1);
      const double most = largest();
      const double softness = 0.06 * std::pow(0.1, part) * most;
      const double temperature = 0.2 * std::pow(0.008, part) * hops_a_unit;
      penalty_.set((0.75 + 0.13 * part) * most, softness, 2.5 * most);
      lightest_ = part < 0.35 ? 4e-2 : part < 0.7 ? 1e-2 : 1.5e-3;
      const double until = options_.limits.seconds * (phase + 1) / kPhases;
      const int64_t moves_until = timed ? INT64_MAX : options_.limits.moves * (phase + 1) / kPhases;
      do {
        find_hot_links();
        constexpr int kBetweenLooks = 256;
        for (int i = 0; i < kBetweenLooks; ++i) move(temperature);
        moves += kBetweenLooks;
      } while (watch.seconds() < until && moves < moves_until);
      route_all();  // with the light ones left out so far, and without rounding errors
      if (largest() < best_load) {
        best_load = largest();
        best = placement_of(units_, tiling_, at_);
      }
      if (options_.progress) options_.progress(static_cast<double>(phase + 1) / kPhases);
    }
    return best;
  }

 private:
  static constexpr int kPhases = 40;

  /// What a task of a unit sends to a task of another unit.
  struct TaskTraffic {
    int from, to;
    double bytes;
    double lighter;  ///< the part of all that the unit exchanges that is in this and lighter ones
  };

  void list_traffic() {
    for (int task = 0; task < matrix_.tasks(); ++task) {
      const int unit = unit_of_[task];
      for (const CommMatrix::Edge& edge : matrix_.out(task)) {
        if (unit_of_[edge.task] != unit) traffic_[unit].push_back({task, edge.task, edge.bytes, 0});
      }
      for (const CommMatrix::Edge& edge : matrix_.in(task)) {
        if (unit_of_[edge.task] != unit) traffic_[unit].push_back({edge.task, task, edge.bytes, 0});
      }
    }
    for (auto& list : traffic_) {
      std::stable_sort(list.begin(), list.end(), [](const TaskTraffic& a, const TaskTraffic& b) {
        return a.bytes > b.bytes;
      });
      double all = 0, so_far = 0;
      for (const TaskTraffic& traffic : list) all += traffic.bytes;
      for (TaskTraffic& traffic : list) {
        traffic.lighter = 1 - so_far / all;
        so_far += traffic.bytes;
      }
    }
  }

  int node_of(int task) const {
    const int unit = unit_of_[task];
    return tiling_
        .nodes[at_.site_of[unit] * Units::kSize + units_.turns[at_.turn_of[unit]][place_of_[task]]];
  }

  void route_all() {
    std::fill(loads_.begin(), loads_.end(), 0);
    for (int task = 0; task < matrix_.tasks(); ++task) {
      for (const CommMatrix::Edge& edge : matrix_.out(task)) {
        grid_.route(node_of(task), node_of(edge.task),
                    [&](int link) { loads_[link] += edge.bytes; });
      }
    }
  }
  double largest() const { return *std::max_element(loads_.begin(), loads_.end()); }
  /// Hop-bytes of what the units send each other: the scale of a move's gain.
  double outside_hops() const {
    double sum = 0;
    for (const auto& list : traffic_) {
      for (const TaskTraffic& traffic : list)
        sum += traffic.bytes * grid_.distance(node_of(traffic.from), node_of(traffic.to)) / 2;
    }
    return sum;
  }

  void find_hot_links() {
    constexpr double kHot = 0.96;
    const double limit = kHot * largest();
    hot_.clear();
    for (int link = 0; link < static_cast<int>(loads_.size()); ++link) {
      if (loads_[link] > limit) hot_.push_back(link);
    }
  }

  int unit_near_hot_link() {
    const int link = hot_[random_.below(static_cast<int>(hot_.size()))];
    return unit_at_[site_of_node_[link / (2 * grid_.dimensions())]];
  }

  /// A unit near a partner of `unit` or near itself.
  int aim(int unit) {
    const auto& list = traffic_[unit];
    int near = unit;
    if (!list.empty() && random_.below(3) != 0) {
      // Of two drawn the heavier one: lists go from heavy to light.
      const int size = static_cast<int>(list.size());
      const TaskTraffic& traffic = list[std::min(random_.below(size), random_.below(size))];
      near = unit_of_[traffic.from] == unit ? unit_of_[traffic.to] : unit_of_[traffic.from];
    }
    const int node = tiling_.nodes[at_.site_of[near] * Units::kSize];
    const int radius = 1 + random_.below(4);
    std::vector<int>& at = scratch_;
    at.clear();
    for (int d = 0; d < grid_.dimensions(); ++d) {
      const int side = grid_.side(d);
      const int x = grid_.coordinate(node, d) + random_.below(2 * radius + 1) - radius;
      at.push_back((x % side + side) % side);
    }
    return unit_at_[site_of_node_[grid_.node_at(at)]];
  }

  void touch(int unit, int other, double sign) {
    for (const TaskTraffic& traffic : traffic_[unit]) {
      if (traffic.lighter < lightest_) break;
      if (other >= 0 && (unit_of_[traffic.from] == other || unit_of_[traffic.to] == other))
        continue;
      const double bytes = sign * traffic.bytes;
      grid_.route(node_of(traffic.from), node_of(traffic.to), [&](int link) {
        touched_.push_back(link);
        change_[link] += bytes;
      });
    }
  }
  void exchange(int a, int b) {
    if (a == b) return;
    std::swap(at_.site_of[a], at_.site_of[b]);
    unit_at_[at_.site_of[a]] = a;
    unit_at_[at_.site_of[b]] = b;
  }

  void move(double temperature) {
    const int turns = static_cast<int>(units_.turns.size());
    const int a = random_.below(3) == 0 && !hot_.empty() ? unit_near_hot_link()
                                                         : random_.below(units_.count());
    const int kind = random_.below(8);
    const int b = kind == 0 ? a : kind < 6 ? aim(a) : random_.below(units_.count());
    const int turn_a = at_.turn_of[a], turn_b = at_.turn_of[b];
    if (a == b && (kind != 0 || turns == 1)) return;
    const bool turn = a == b || random_.below(2) == 0;
    const int next_a = turn ? random_.below(turns) : turn_a;
    const int next_b = turn ? random_.below(turns) : turn_b;
    touched_.clear();
    touch(a, -1, -1);
    if (a != b) touch(b, a, -1);
    exchange(a, b);
    at_.turn_of[b] = next_b;
    at_.turn_of[a] = next_a;
    touch(a, -1, 1);
    if (a != b) touch(b, a, 1);
    double gain = 0;
    changed_.clear();
    for (const int link : touched_) {
      const double by = change_[link];
      if (by == 0) continue;
      change_[link] = 0;
      gain -= by + kPenaltyShare * (penalty_(loads_[link] + by) - penalty_(loads_[link]));
      loads_[link] += by;
      changed_.emplace_back(link, by);
    }
    if (gain >= 0 || random_.unit() < std::exp(gain / temperature)) return;
    for (const auto& [link, by] : changed_) loads_[link] -= by;
    exchange(a, b);
    at_.turn_of[b] = turn_b;
    at_.turn_of[a] = turn_a;
  }

  static constexpr double kPenaltyShare = 0.2;  ///< a byte's at the knee, in hop-bytes

  const CommMatrix& matrix_;
  const Grid& grid_;
  const Units& units_;
  const Tiling& tiling_;
  const UnitAnnealOptions& options_;
  FastRandom random_;
  std::vector<int> site_of_node_, unit_of_, place_of_;
  std::vector<std::vector<TaskTraffic>> traffic_;  ///< by unit, heavy ones first
  UnitPlaces at_;
  std::vector<int> unit_at_;  ///< of each site
  std::vector<double> loads_;
  std::vector<double> change_;  ///< of each link by the move at hand; zero between moves
  std::vector<int> touched_, hot_, scratch_;
  std::vector<std::pair<int, double>> changed_;
  Penalty penalty_;
  double lightest_ = 0;
};

}  // namespace

std::vector<int> order_of_units(const CommMatrix& matrix, const Units& units) {
  std::vector<int> unit_of(matrix.tasks());
  for (size_t i = 0; i < units.tasks.size(); ++i)
    unit_of[units.tasks[i]] = static_cast<int>(i) / Units::kSize;
  std::vector<Flow> flows = matrix.flows();
  for (Flow& flow : flows) {
    flow.from = unit_of[flow.from];
    flow.to = unit_of[flow.to];
  }
  std::vector<int> order(units.count());
  std::iota(order.begin(), order.end(), 0);
  const auto between = CommMatrix::from_flows(units.count(), std::move(flows));
  const auto line = Grid::create({units.count()}, false);
  if (between && line) {
    // MOPT on a line is such an order.
    if (auto merged = mopt(*between, *line, JoinRule::kNone)) order = std::move(*merged);
  }
  return order;
}

UnitPlaces lay_units(const Grid& grid, const Tiling& tiling, const std::vector<int>& order) {
  const size_t count = order.size();
  std::vector<int> sites(count), node_of_site(count);
  std::iota(sites.begin(), sites.end(), 0);
  for (size_t site = 0; site < count; ++site)
    node_of_site[site] = tiling.nodes[site * Units::kSize];
  order_by_halves(grid, sites, 0, sites.size(), node_of_site);
  UnitPlaces places{std::vector<int>(count), std::vector<int>(count, 0)};
  for (size_t unit = 0; unit < count; ++unit) places.site_of[unit] = sites[order[unit]];
  return places;
}

Placement placement_of(const Units& units, const Tiling& tiling, const UnitPlaces& places) {
  Placement result(units.tasks.size());
  for (size_t i = 0; i < units.tasks.size(); ++i) {
    const size_t unit = i / Units::kSize;
    const int place = units.turns[places.turn_of[unit]][i % Units::kSize];
    result[units.tasks[i]] = tiling.nodes[places.site_of[unit] * Units::kSize + place];
  }
  return result;
}

Placement anneal_units(const CommMatrix& matrix, const Grid& grid, const Units& units,
                       const Tiling& tiling, const UnitPlaces& start,
                       const UnitAnnealOptions& options) {
  return UnitAnnealer(matrix, grid, units, tiling, start, options).run();
}

}  // namespace ibcoll::topology
