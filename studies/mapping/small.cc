#include "studies/mapping/small.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "studies/mapping/near.h"
#include "studies/mapping/random.h"

namespace ibcoll::topology {
namespace {

/// Values placements with every route and distance looked up. A placement is here the task of each
/// slot, `tasks` or more where it is idle.
class SmallProblem {
 public:
  SmallProblem(const CommMatrix& matrix, const Network& network, const Room& room, const Goal& goal)
      : tasks_(matrix.tasks()), goal_(goal), flows_(matrix.flows()) {
    for (int node = 0; node < node_count(network); ++node) {
      if (room.allows(node)) node_of_slot_.insert(node_of_slot_.end(), room.per_node, node);
    }
    std::visit([&](const auto& paths) { table(paths); }, network);
    slot_of_.resize(tasks_);
  }

  int slots() const { return static_cast<int>(node_of_slot_.size()); }

  double value(const std::vector<int>& task_at) {
    for (int slot = 0; slot < slots(); ++slot) {
      if (task_at[slot] < tasks_) slot_of_[task_at[slot]] = slot;
    }
    Evaluation evaluation;
    std::fill(loads_.begin(), loads_.end(), 0);
    for (const Flow& flow : flows_) {
      const size_t pair = static_cast<size_t>(slot_of_[flow.from]) * slots() + slot_of_[flow.to];
      evaluation.hop_bytes += flow.bytes * hops_[pair];
      for (size_t i = first_link_[pair]; i < first_link_[pair + 1]; ++i)
        loads_[links_[i]] += flow.bytes * slowness_[links_[i]];
    }
    evaluation.hop_bytes_mesh = evaluation.hop_bytes;  // hops_ are what the goal counts
    for (const double load : loads_)
      evaluation.max_link_load = std::max(evaluation.max_link_load, load);
    return goal_value(goal_, evaluation);
  }

  Placement placement(const std::vector<int>& task_at) const {
    Placement result(tasks_);
    for (int slot = 0; slot < slots(); ++slot) {
      if (task_at[slot] < tasks_) result[task_at[slot]] = node_of_slot_[slot];
    }
    return result;
  }

 private:
  template <class Paths>
  void table(const Paths& paths) {
    const Hops<Paths> hops(paths, goal_.mesh_hops);
    std::vector<int> short_name(paths.links(), -1);
    first_link_.push_back(0);
    for (const int a : node_of_slot_) {
      for (const int b : node_of_slot_) {
        hops_.push_back(a == b ? 0 : hops(a, b));
        if (a != b) {
          paths.route(a, b, [&](int link) {
            if (short_name[link] < 0) {
              short_name[link] = static_cast<int>(slowness_.size());
              slowness_.push_back(slowness(paths, link));
            }
            links_.push_back(short_name[link]);
          });
        }
        first_link_.push_back(links_.size());
      }
    }
    loads_.resize(slowness_.size());
  }

  int tasks_;
  Goal goal_;
  std::vector<Flow> flows_;
  std::vector<int> node_of_slot_, slot_of_;
  std::vector<double> hops_;  ///< slot * slots + slot
  std::vector<size_t> first_link_;
  std::vector<int> links_;  ///< those that some route uses, numbered anew
  std::vector<double> slowness_, loads_;
};

}  // namespace

int usable_slots(const Network& network, const Room& room) {
  int slots = 0;
  for (int node = 0; node < node_count(network); ++node) {
    if (room.allows(node)) slots += room.per_node;
  }
  return slots;
}

Result<Placement> exhaustive(const CommMatrix& matrix, const Network& network, const Room& room,
                             const Goal& goal) {
  IBCOLL_TRY(check_room(room, network, matrix.tasks()));
  const int slots = usable_slots(network, room);
  if (slots > kExhaustiveSlots) {
    return fail(ErrorCode::kInvalidArgument, "{} places: all placements are tried up to {} places",
                slots, kExhaustiveSlots);
  }
  SmallProblem problem(matrix, network, room, goal);
  // Idle slots are alike, so each placement comes up once.
  std::vector<int> task_at(slots);
  for (int slot = 0; slot < slots; ++slot) task_at[slot] = std::min(slot, matrix.tasks());
  std::vector<int> best;
  double best_value = std::numeric_limits<double>::infinity();
  do {
    const double value = problem.value(task_at);
    if (value < best_value) {
      best_value = value;
      best = task_at;
    }
  } while (std::next_permutation(task_at.begin(), task_at.end()));
  return problem.placement(best);
}

Placement descend_often(const CommMatrix& matrix, const Network& network, const Room& room,
                        const Goal& goal, const AnnealLimits& limits, uint64_t seed) {
  SmallProblem problem(matrix, network, room, goal);
  FastRandom random(seed);
  const int slots = problem.slots();
  std::vector<int> at(slots);
  std::iota(at.begin(), at.end(), 0);
  std::vector<int> best = at;
  double best_value = problem.value(at);
  const Stopwatch watch(limits.clock);
  const auto in_time = [&] { return watch.seconds() < limits.seconds; };
  for (int64_t moves = 1; moves < limits.moves && in_time();) {
    for (int slot = slots - 1; slot > 0; --slot) std::swap(at[slot], at[random.below(slot + 1)]);
    double value = problem.value(at);
    for (bool better = true; better && moves < limits.moves;) {
      better = false;
      int best_a = 0, best_b = 0;
      double lowest = value;
      for (int a = 0; a < slots; ++a) {
        for (int b = a + 1; b < slots; ++b) {
          if (at[a] >= matrix.tasks() && at[b] >= matrix.tasks()) continue;
          std::swap(at[a], at[b]);
          const double trial = problem.value(at);
          std::swap(at[a], at[b]);
          ++moves;
          if (trial >= lowest) continue;
          lowest = trial;
          best_a = a;
          best_b = b;
        }
      }
      better = lowest < value;
      std::swap(at[best_a], at[best_b]);
      value = lowest;
    }
    if (value < best_value) {
      best_value = value;
      best = at;
    }
  }
  return problem.placement(best);
}

}  // namespace ibcoll::topology
