#include "studies/mapping/refine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "studies/mapping/breed.h"
#include "studies/mapping/embed.h"
#include "studies/mapping/fold.h"
#include "studies/mapping/grow.h"
#include "studies/mapping/halving.h"
#include "studies/mapping/small.h"
#include "studies/mapping/starts.h"
#include "studies/mapping/unit_anneal.h"

namespace ibcoll::topology {
namespace {

/// Temperatures at the start and at the end of a run, and how often boxes move. Most of what a hot
/// run gains it gains between its two; colder ones are left to the polish.
struct Heat {
  double hot, cold;
  int between_boxes = 100;
};
constexpr Heat kHottest{1, 0.01}, kWarm{0.15, 0.02}, kCool{0.03, 0.0003};
/// Hop-bytes freeze in this range: time spent above it is lost. Largest links need more.
constexpr Heat kHotForHops{0.25, 0.05}, kHotForLinks{0.4, 0.05};
/// Where groups of tasks fill boxes of nodes, their order is what is left to find.
constexpr Heat kBoxes{0.008, 0.0003, 4};

/// Parts of the time of a race: a trial of each kind, and the kind that does best. What is left is
/// for the polish.
struct Race {
  double cool, boxes, warm, hot, best;
};
constexpr Race kLongTrials{0.1, 0.06, 0.12, 0.16, 0.45}, kShortTrials{0.05, 0.03, 0.06, 0.08, 0.67};

class Refiner {
 public:
  Refiner(const CommMatrix& matrix, const Network& network, const Room& room,
          const RefineOptions& options)
      : matrix_(matrix),
        network_(network),
        room_(room),
        options_(options),
        watch_(options.limits.clock) {}

  Placement run() {
    if (follow_pattern()) return best_;
    collect_quick_starts();
    if (tile()) {
      polish_tiles();
    } else {
      collect_slow_starts();
      if (!breed_from_starts()) race();
    }
    return best_;
  }

 private:
  struct Candidate {
    double value;
    Placement placement;
    double hop_bytes = 0;  ///< of a start
  };

  double part() const { return watch_.seconds() / options_.limits.seconds; }

  /// The value of a placement; keeps it if it is the best.
  double offer(const Placement& placement, const char* stage) {
    Evaluation evaluation = evaluate(matrix_, network_, placement);
    const double value = goal_value(options_.goal, evaluation);
    if (best_.empty() || value < best_value_) {
      best_value_ = value;
      best_ = placement;
      best_evaluation_ = std::move(evaluation);
    }
    report(part(), stage);
    return value;
  }
  void report(double part, const char* stage) const {
    if (options_.progress) options_.progress({std::min(part, 1.0), stage, best_evaluation_});
  }

  void add_start(Placement placement, const char* stage) {
    const double value = offer(placement, stage);
    const double hop_bytes = evaluate(matrix_, network_, placement).hop_bytes;
    starts_.push_back({value, std::move(placement), hop_bytes});
  }

  void add_mopt(JoinRule rule) {
    if (auto placement = mopt_in_room(matrix_, network_, room_, rule))
      add_start(std::move(*placement), "mopt");
  }

  /// Places every message on one link where the traffic allows it. True if nothing can be better;
  /// a placement that only the heavier messages fit is a start.
  bool follow_pattern() {
    const Grid* grid = std::get_if<Grid>(&network_);
    if (grid == nullptr) return false;
    for (const double significant : {0.0, 0.5}) {
      const auto found = embed(matrix_, *grid, room_, {significant, options_.goal.mesh_hops, 0});
      if (!found) continue;
      add_start(*found, "pattern");
      return significant == 0;
    }
    return false;
  }

  /// Folds a grid behind the traffic into that of the network.
  void fold_pattern() {
    const Grid* grid = std::get_if<Grid>(&network_);
    if (grid == nullptr || room_.per_node != 1 || !room_.usable.empty()) return;
    const auto pattern = find_grid_pattern(matrix_);
    if (!pattern) return;
    constexpr double kPartForFolds = 0.02;
    constexpr int kMostFolds = 5000;
    const double until = part() + kPartForFolds;
    Placement folded = fold(matrix_, *pattern, *grid, options_.goal.mesh_hops, kMostFolds,
                            options_.seed, [&] { return part() > until; });
    if (!folded.empty()) add_start(std::move(folded), "fold");
  }

  void collect_quick_starts() {
    add_start(in_order(matrix_.tasks(), network_, room_), "order");
    fold_pattern();
    if (std::holds_alternative<Grid>(network_)) {
      add_mopt(JoinRule::kNone);
      const double before = part();
      add_mopt(JoinRule::kMinCost);
      part_of_merging_ = part() - before;
    }
    constexpr int kLeast = 3, kMost = 1000;
    constexpr double kPartForHalving = 0.05;
    const bool many = options_.limits.moves == INT64_MAX && options_.goal.link_share == 0;
    const double until = part() + kPartForHalving;
    for (int i = 0; i < kLeast || (many && i < kMost && part() < until); ++i) {
      if (!halve(options_.seed * 1000003 + i)) break;
    }
  }

  /// False where the network is of a kind that is not halved.
  bool halve(uint64_t seed) {
    if (const Grid* grid = std::get_if<Grid>(&network_)) {
      const HalvingOptions halving{options_.goal.mesh_hops, seed};
      add_start(place_by_halving(matrix_, *grid, room_, halving), "halving");
    } else if (const Hierarchy* hierarchy = std::get_if<Hierarchy>(&network_)) {
      add_start(place_by_halving(matrix_, *hierarchy, room_, seed), "halving");
    } else {
      return false;
    }
    return true;
  }

  void collect_slow_starts() {
    constexpr double kPartForStarts = 0.15;
    const int most_grown = options_.limits.moves == INT64_MAX ? 32 : 8;
    // Growing is tried with each metric and scale; those that do well are tried again.
    const Grid* grid = std::get_if<Grid>(&network_);
    std::vector<std::pair<double, GrowOptions>> kinds;
    for (const double scale : {1.0, 0.0}) {
      kinds.push_back({0, {scale, false, 0}});
      if (grid != nullptr && grid->torus()) kinds.push_back({0, {scale, true, 0}});
    }
    for (int i = 0; i < most_grown && part() < kPartForStarts; ++i) {
      const size_t kind = i < static_cast<int>(2 * kinds.size()) ? i % kinds.size() : 0;
      kinds[kind].second.seed = options_.seed * 1000003 + i;
      add_start(grow(matrix_, network_, room_, kinds[kind].second), "grow");
      kinds[kind].first = std::min(kinds[kind].first, starts_.back().value);
      if (i + 1 == static_cast<int>(2 * kinds.size())) {
        std::sort(kinds.begin(), kinds.end(),
                  [](const auto& a, const auto& b) { return a.first < b.first; });
      }
    }
    // Merging by link load takes some twenty times as long as by cost.
    constexpr double kTimesLonger = 20, kPartForMerging = 0.2;
    if (std::holds_alternative<Grid>(network_) && options_.goal.link_share > 0 &&
        kTimesLonger * part_of_merging_ < kPartForMerging)
      add_mopt(JoinRule::kMinLink);
    std::stable_sort(starts_.begin(), starts_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.value < b.value; });
  }

  /// One annealing run with this part of the limits.
  Candidate search(const Placement& start, Heat heat, double share, int norm, double part_of_limits,
                   const char* stage) {
    AnnealOptions options;
    options.goal = options_.goal;
    options.goal.link_share = share;
    options.goal.norm = norm;
    options.limits = part_of(part_of_limits);
    options.hot = heat.hot;
    options.cold = heat.cold;
    options.between_boxes = heat.between_boxes;
    options.seed = ++seed_ + options_.seed * 7919;
    if (options_.progress) {
      options.progress = [&](double, double, double) { report(part(), stage); };
    }
    Candidate found;
    found.placement = anneal(matrix_, network_, room_, start, options);
    found.value = offer(found.placement, stage);
    return found;
  }

  /// A run of a kind: for the maximum link load, one for both figures and one for it alone.
  Candidate staged(const Placement& start, Heat heat, double part_of_limits, const char* stage) {
    const double share = options_.goal.link_share;
    if (share == 0) return search(start, heat, 0, 2, part_of_limits, stage);
    const Candidate both =
        search(start, heat, std::min(share, 0.5), 8, part_of_limits * 0.7, stage);
    const Heat cooler{std::min(heat.hot, 0.05), 0.002, heat.between_boxes};
    const Candidate alone = search(both.placement, cooler, share, 16, part_of_limits * 0.3, stage);
    return alone.value < both.value ? alone : both;
  }

  /// Tiles a torus with equal units where that promises a smaller maximum link load than there is.
  /// True if what came of it is the best so far.
  bool tile() {
    const Grid* grid = std::get_if<Grid>(&network_);
    if (grid == nullptr || options_.goal.link_share == 0 || room_.per_node != 1 ||
        !room_.usable.empty())
      return false;
    const std::optional<Units> units = equal_fours(matrix_);
    if (!units) return false;
    const std::vector<Tiling> tilings = tile_torus(matrix_, *units, *grid);
    if (tilings.empty() || tilings.front().largest >= best_evaluation_.max_link_load) return false;
    const double best_start = best_value_;
    // What a tiling is worth shows in the units' first order already.
    struct Start {
      double value;
      const Tiling* tiling;
      UnitPlaces places;
    };
    const std::vector<int> order = order_of_units(matrix_, *units);
    std::vector<Start> tiled;
    constexpr double kPartForTilings = 0.1;
    const double until = part() + kPartForTilings;
    for (const Tiling& tiling : tilings) {
      if (!tiled.empty() && part() > until) break;
      UnitPlaces places = lay_units(*grid, tiling, order);
      const double value = offer(placement_of(*units, tiling, places), "tilings");
      tiled.push_back({value, &tiling, std::move(places)});
    }
    std::ranges::stable_sort(tiled, {}, &Start::value);
    if (tiled.front().value >= best_start) return false;
    const auto try_for = [&](const Start& start, double cooled, double part_of_limits) {
      UnitAnnealOptions options;
      options.seed = ++seed_ + options_.seed * 7919;
      options.cooled = cooled;
      options.limits = part_of(part_of_limits);
      // A move takes eight tasks with it instead of two.
      if (options.limits.moves != INT64_MAX) options.limits.moves /= Units::kSize;
      options.progress = [&](double) { report(part(), "tiles"); };
      return offer(anneal_units(matrix_, *grid, *units, *start.tiling, start.places, options),
                   "tiles");
    };
    // Short runs say which start and heat come out ahead.
    constexpr double kTrial = 0.03, kUntil = 0.92, kKeepsMost = 0.35;
    constexpr size_t kTrials = 3;
    const Start* best = nullptr;
    double best_trial = 0, cooled = 0;
    const auto trial = [&](const Start& start, double left_out) {
      const double value = try_for(start, left_out, kTrial);
      if (best != nullptr && value >= best_trial) return;
      best = &start;
      best_trial = value;
      cooled = left_out;
    };
    for (size_t i = 0; i < std::min(kTrials, tiled.size()); ++i) trial(tiled[i], kKeepsMost);
    trial(tiled.front(), 0);
    const bool timed = options_.limits.moves == INT64_MAX;
    return try_for(*best, cooled, timed ? std::max(0.0, kUntil - part()) : kUntil) <= best_value_;
  }

  /// This part of the limits.
  AnnealLimits part_of(double part_of_limits) const {
    AnnealLimits limits = options_.limits;
    limits.seconds = std::max(1e-3, limits.seconds * part_of_limits);
    if (limits.moves != INT64_MAX) {
      limits.moves = std::max<int64_t>(
          1, static_cast<int64_t>(static_cast<double>(limits.moves) * part_of_limits));
    }
    return limits;
  }

  /// Breeds for this part of the limits. Returns how many placements came of it.
  int breed_for(double part_of_limits, std::span<const Placement> starts) {
    int bred = 0;
    BreedOptions options;
    options.mesh_hops = options_.goal.mesh_hops;
    options.limits = part_of(part_of_limits);
    options.seed = ++seed_ + options_.seed * 7919;
    options.offer = [&](const Placement& placement) {
      offer(placement, "breed");
      ++bred;
    };
    return breed(matrix_, network_, room_, starts, options) ? bred : 0;
  }

  /// Breeding beats annealing where there is time for some generations. True if there was.
  bool breed_from_starts() {
    constexpr double kTrial = 0.05;
    constexpr int kLeastBred = 3;
    constexpr size_t kMostStarts = 5;  // more would leave little variety
    if (options_.goal.link_share > 0 || usable_slots(network_, room_) <= kFewSlots) return false;
    std::vector<Placement> starts;
    for (const Candidate& start : starts_) {
      if (starts.size() < kMostStarts) starts.push_back(start.placement);
    }
    if (breed_for(kTrial, starts) < kLeastBred) return false;
    const bool timed = options_.limits.moves == INT64_MAX;
    const double rest = timed ? 1 - part() : 1 - kTrial;
    if (rest > 0) breed_for(rest, starts);
    return true;
  }

  void search_few(double part_of_limits) {
    const AnnealLimits limits = part_of(part_of_limits);
    offer(descend_often(matrix_, network_, room_, options_.goal, limits, options_.seed), "again");
  }

  void polish_tiles() {
    constexpr Heat kPolish{0.02, 0.001};
    constexpr int kSteepNorm = 64;
    const bool timed = options_.limits.moves == INT64_MAX;
    const double rest = timed ? 1 - part() : 0.5;
    if (rest > 0) search(best_, kPolish, 1, kSteepNorm, rest, "polish");
  }

  void race() {
    Placement start = starts_.front().placement;
    if (options_.goal.link_share > 0) {
      // Where hop-bytes can become very small, small link loads often come with them.
      constexpr double kPartForHops = 0.15, kPartToCool = 0.05;
      const auto shortest = std::ranges::min_element(starts_, {}, &Candidate::hop_bytes);
      const Candidate hot = search(shortest->placement, kHotForLinks, 0, 2, kPartForHops, "hops");
      const Candidate cool = search(shortest->placement, kCool, 0, 2, kPartToCool, "hops");
      const Candidate& better = cool.value < hot.value ? cool : hot;
      if (better.value < starts_.front().value) start = better.placement;
    }
    const double left = std::max(0.0, 1 - std::min(1.0, part()));
    const bool timed = options_.limits.moves == INT64_MAX;
    const double all = timed ? left : 1;
    const bool for_hops = options_.goal.link_share == 0, many = matrix_.tasks() > kManyTasks;
    const Race& parts = for_hops && !many ? kShortTrials : kLongTrials;
    const Candidate cool = staged(start, kCool, parts.cool * all, "cool");
    double by_boxes = std::numeric_limits<double>::infinity();
    if (for_hops && std::holds_alternative<Grid>(network_) && matrix_.tasks() > kFewTasks)
      by_boxes = staged(start, kBoxes, parts.boxes * all, "boxes").value;
    const Candidate warm = staged(start, kWarm, parts.warm * all, "warm");
    const Heat hot_heat = for_hops ? kHotForHops : kHotForLinks;
    const Candidate hot = staged(start, hot_heat, parts.hot * all, "hot");
    // The rest goes to the kind that did best, and to a polish of what came out.
    // A hot run gains most from more time: it only needs to come near the others in this race.
    constexpr double kNear = 0.1;
    const bool from_hot = hot.value < std::min(warm.value, cool.value) + kNear;
    if (usable_slots(network_, room_) <= kFewSlots) {
      search_few(parts.best * all);
    } else if (matrix_.tasks() <= kFewTasks) {
      // Few tasks are cooled down in no time: several goes find more than a long one.
      constexpr int kGoes = 12;
      for (int i = 0; i < kGoes; ++i) staged(start, kHottest, parts.best * all / kGoes, "again");
    } else {
      const Heat heat = from_hot ? hot_heat : warm.value < cool.value ? kWarm : kCool;
      const bool in_boxes = by_boxes < std::min({cool.value, warm.value, hot.value});
      const bool one_go = many || (from_hot && for_hops);
      const int goes = in_boxes || !one_go ? 2 : 1;
      if (in_boxes) staged(best_, kBoxes, parts.best * all / goes, "boxes");
      for (int i = in_boxes ? 1 : 0; i < goes; ++i)
        staged(from_hot ? start : best_, heat, parts.best * all / goes, "long");
    }
    const double rest = timed ? std::max(0.0, 1 - part()) : 0.15;
    if (rest > 0) staged(best_, by_boxes < cool.value ? kBoxes : kCool, rest, "polish");
  }

  static constexpr int kFewTasks = 32, kManyTasks = 1024;

  const CommMatrix& matrix_;
  const Network& network_;
  const Room& room_;
  const RefineOptions& options_;
  const Stopwatch watch_;
  uint64_t seed_ = 0;
  std::vector<Candidate> starts_;
  Placement best_;
  double best_value_ = 0;
  double part_of_merging_ = 0;
  Evaluation best_evaluation_;
};

}  // namespace

Placement refine(const CommMatrix& matrix, const Network& network, const Room& room,
                 const RefineOptions& options) {
  return Refiner(matrix, network, room, options).run();
}

}  // namespace ibcoll::topology
