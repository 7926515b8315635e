#include "topology/mapping/refine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "topology/mapping/grow.h"
#include "topology/mapping/starts.h"

namespace ibcoll::topology {
namespace {

class Refiner {
 public:
  Refiner(const CommMatrix& matrix, const Network& network, const Room& room,
          const RefineOptions& options)
      : matrix_(matrix), network_(network), room_(room), options_(options) {}

  Placement run() {
    begin_ = std::chrono::steady_clock::now();
    collect_starts();
    race();
    return best_;
  }

 private:
  struct Candidate {
    double value;
    Placement placement;
  };

  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  double part() const { return elapsed() / options_.limits.seconds; }

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
    starts_.push_back({value, std::move(placement)});
  }

  void collect_starts() {
    constexpr double kPartForStarts = 0.15;
    constexpr int kMostGrown = 32;
    add_start(in_order(matrix_.tasks(), network_, room_), "order");
    if (std::holds_alternative<Grid>(network_)) {
      for (const JoinRule rule : {JoinRule::kNone, JoinRule::kMinCost, JoinRule::kMinLink}) {
        if (part() > kPartForStarts) break;
        if (auto placement = mopt_in_room(matrix_, network_, room_, rule)) {
          add_start(std::move(*placement), "mopt");
        }
      }
    }
    // Growing is tried with each metric and scale; those that do well are tried again.
    const Grid* grid = std::get_if<Grid>(&network_);
    std::vector<std::pair<double, GrowOptions>> kinds;
    for (const double scale : {1.0, 0.0}) {
      kinds.push_back({0, {scale, false, 0}});
      if (grid != nullptr && grid->torus()) kinds.push_back({0, {scale, true, 0}});
    }
    for (int i = 0; i < kMostGrown && part() < kPartForStarts; ++i) {
      const size_t kind = i < static_cast<int>(2 * kinds.size()) ? i % kinds.size() : 0;
      kinds[kind].second.seed = options_.seed * 1000003 + i;
      add_start(grow(matrix_, network_, room_, kinds[kind].second), "grow");
      kinds[kind].first = std::min(kinds[kind].first, starts_.back().value);
      if (i + 1 == static_cast<int>(2 * kinds.size())) {
        std::sort(kinds.begin(), kinds.end(),
                  [](const auto& a, const auto& b) { return a.first < b.first; });
      }
    }
    std::stable_sort(starts_.begin(), starts_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.value < b.value; });
  }

  /// One annealing run with this part of the limits.
  Candidate search(const Placement& start, double hot, double cold, double share, int norm,
                   double part_of_limits, const char* stage) {
    AnnealOptions options;
    options.goal = options_.goal;
    options.goal.link_share = share;
    options.goal.norm = norm;
    options.limits.seconds = std::max(1e-3, options_.limits.seconds * part_of_limits);
    if (options_.limits.moves != INT64_MAX) {
      options.limits.moves = std::max<int64_t>(
          1, static_cast<int64_t>(static_cast<double>(options_.limits.moves) * part_of_limits));
    }
    options.hot = hot;
    options.cold = cold;
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
  Candidate staged(const Placement& start, double hot, double part_of_limits, const char* stage) {
    const double share = options_.goal.link_share;
    if (share == 0) return search(start, hot, hot * kCooling, 0, 2, part_of_limits, stage);
    const Candidate both =
        search(start, hot, hot * kCooling, std::min(share, 0.5), 8, part_of_limits * 0.7, stage);
    const Candidate alone =
        search(both.placement, std::min(hot, 0.05), 0.002, share, 16, part_of_limits * 0.3, stage);
    return alone.value < both.value ? alone : both;
  }

  void race() {
    constexpr double kHot = 1, kWarm = 0.15, kCool = 0.03;
    const Placement start = starts_.front().placement;
    const double left = std::max(0.0, 1 - std::min(1.0, part()));
    const bool timed = options_.limits.moves == INT64_MAX;
    const double all = timed ? left : 1;
    const Candidate cool = staged(start, kCool, 0.12 * all, "cool");
    const Candidate warm = staged(start, kWarm, 0.12 * all, "warm");
    const Candidate hot = staged(start, kHot, 0.16 * all, "hot");
    // The rest goes to the kind that did best, and to a polish of what came out.
    // A hot run gains most from more time: it only needs to come near the others in this race.
    constexpr double kNear = 0.1;
    const bool from_hot = hot.value < std::min(warm.value, cool.value) + kNear;
    if (matrix_.tasks() <= kFew) {
      // Few tasks are cooled down in no time: several goes find more than a long one.
      constexpr int kGoes = 12;
      for (int i = 0; i < kGoes; ++i) staged(start, kHot, 0.45 * all / kGoes, "again");
    } else {
      const double heat = from_hot ? kHot : warm.value < cool.value ? kWarm : kCool;
      staged(from_hot ? start : best_, heat, 0.45 * all, "long");
    }
    const double rest = timed ? std::max(0.0, 1 - part()) : 0.15;
    if (rest > 0) staged(best_, kCool, rest, "polish");
  }

  static constexpr double kCooling = 0.01;
  static constexpr int kFew = 32;  ///< tasks

  const CommMatrix& matrix_;
  const Network& network_;
  const Room& room_;
  const RefineOptions& options_;
  std::chrono::steady_clock::time_point begin_;
  uint64_t seed_ = 0;
  std::vector<Candidate> starts_;
  Placement best_;
  double best_value_ = 0;
  Evaluation best_evaluation_;
};

}  // namespace

Placement refine(const CommMatrix& matrix, const Network& network, const Room& room,
                 const RefineOptions& options) {
  return Refiner(matrix, network, room, options).run();
}

Result<Placement> exhaustive(const CommMatrix& matrix, const Network& network, const Room& room,
                             const Goal& goal) {
  IBCOLL_TRY(check_room(room, network, matrix.tasks()));
  std::vector<int> node_of_slot;
  for (int node = 0; node < node_count(network); ++node) {
    if (room.allows(node)) node_of_slot.insert(node_of_slot.end(), room.per_node, node);
  }
  const int slots = static_cast<int>(node_of_slot.size());
  if (slots > kExhaustiveSlots) {
    return fail(ErrorCode::kInvalidArgument, "{} places: all placements are tried up to {} places",
                slots, kExhaustiveSlots);
  }
  // Slots that are taken by no task sort behind the tasks, so each placement comes up once.
  const int tasks = matrix.tasks();
  std::vector<int> task_at(slots);
  for (int slot = 0; slot < slots; ++slot) task_at[slot] = std::min(slot, tasks);
  Placement best, current(tasks);
  double best_value = std::numeric_limits<double>::infinity();
  do {
    for (int slot = 0; slot < slots; ++slot) {
      if (task_at[slot] < tasks) current[task_at[slot]] = node_of_slot[slot];
    }
    const double value = goal_value(goal, evaluate(matrix, network, current));
    if (value < best_value) {
      best_value = value;
      best = current;
    }
  } while (std::next_permutation(task_at.begin(), task_at.end()));
  return best;
}

}  // namespace ibcoll::topology
