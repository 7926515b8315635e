#include "studies/mapping/breed.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "studies/mapping/symmetries.h"
#include "studies/mapping/tabu.h"

namespace ibcoll::topology {
namespace {

class Breeder {
 public:
  Breeder(const Assignment& problem, const Network& network, const Room& room,
          const BreedOptions& options)
      : problem_(problem),
        options_(options),
        symmetries_(network, room, options.mesh_hops),
        watch_(options.limits.clock),
        random_(options.seed),
        search_(problem, options.seed + 1) {
    free_on_.resize(node_count(network));
    for (const int node : problem.node_of_slot) ++free_on_[node];
    room_on_ = free_on_;
    slot_order_.resize(problem.slots);
    std::iota(slot_order_.begin(), slot_order_.end(), 0);
  }

  Placement run(std::span<const Placement> starts) {
    do {
      parents_.clear();
      // One there is even without any time.
      for (size_t i = 0; i < kParents && (i == 0 || !over()); ++i)
        parents_.push_back(improved(i < starts.size() ? starts[i] : random_placement()));
      for (int in_vain = 0; in_vain < kMostInVain && !over();)
        in_vain = take_in(improved(child())) ? 0 : in_vain + 1;
      starts = {};
    } while (!over());
    return best_.placement;
  }

 private:
  struct Individual {
    double value = 0;
    Placement placement;
  };
  static constexpr size_t kParents = 15;
  static constexpr int kMostInVain = 8 * static_cast<int>(kParents);  ///< children in a row

  bool over() const {
    return moves_ >= options_.limits.moves || watch_.seconds() >= options_.limits.seconds;
  }

  Individual improved(const Placement& placement) {
    const int64_t in_moves = std::max(1, problem_.slots / 2);
    // As many exchanges as there are pairs of places.
    const int64_t most = int64_t{problem_.slots} * problem_.slots / 2;
    const int64_t left = (options_.limits.moves - moves_ - 1) / in_moves + 1;
    search_.start(problem_.slots_of(placement));
    search_.run(std::min(most, left), [&] { return over(); });
    moves_ += search_.exchanges() * in_moves;
    Individual found{search_.best_value(), problem_.placement(search_.best())};
    if (best_.placement.empty() || found.value < best_.value) best_ = found;
    if (options_.offer) options_.offer(found.placement);
    return found;
  }

  /// Takes the place of the worst parent, unless it is worse still or there already.
  bool take_in(Individual found) {
    Individual& worst = *std::ranges::max_element(parents_, {}, &Individual::value);
    if (found.value >= worst.value) return false;
    for (const Individual& parent : parents_) {
      if (parent.value == found.value &&
          symmetries_.aligned(found.placement, parent.placement) == parent.placement)
        return false;
    }
    worst = std::move(found);
    return true;
  }

  Placement random_placement() {
    Placement placement(problem_.tasks, -1);
    complete(placement);
    return placement;
  }

  /// Tasks where one of two parents has them, the others at random.
  Placement child() {
    const int count = static_cast<int>(parents_.size()), first = random_.below(count);
    const int second = (first + 1 + random_.below(count - 1)) % count;
    const Placement& a = parents_[first].placement;
    const Placement b = symmetries_.aligned(parents_[second].placement, a);
    Placement placement(problem_.tasks, -1);
    free_on_ = room_on_;
    if (random_.below(2) == 0) {
      mix(a, b, placement);
    } else {
      join(a, b, placement);
    }
    complete(placement);
    return placement;
  }

  bool put(int task, int node, Placement& placement) {
    if (free_on_[node] == 0) return false;
    --free_on_[node];
    placement[task] = node;
    return true;
  }

  /// What both parents agree on; each other task where one of them, drawn at random, has it.
  void mix(const Placement& a, const Placement& b, Placement& placement) {
    std::vector<int> others;
    for (int task = 0; task < problem_.tasks; ++task) {
      if (a[task] == b[task]) {
        put(task, a[task], placement);
      } else {
        others.push_back(task);
      }
    }
    shuffle(others);
    for (const int task : others) {
      const bool from_a = random_.below(2) == 0;
      if (!put(task, from_a ? a[task] : b[task], placement))
        put(task, from_a ? b[task] : a[task], placement);
    }
  }

  /// The half of the places that are nearest to one from `a`, the rest from `b`.
  void join(const Placement& a, const Placement& b, Placement& placement) {
    const int centre = random_.below(problem_.slots);
    shuffle(slot_order_);  // decides between places that are as far
    std::ranges::stable_sort(slot_order_, {},
                             [&](int slot) { return problem_.distance_between(centre, slot); });
    std::vector<char> is_near(room_on_.size());
    for (int i = 0; i < problem_.slots / 2; ++i) is_near[problem_.node_of_slot[slot_order_[i]]] = 1;
    for (int task = 0; task < problem_.tasks; ++task) {
      if (is_near[a[task]] != 0) put(task, a[task], placement);
    }
    for (int task = 0; task < problem_.tasks; ++task) {
      if (placement[task] < 0) put(task, b[task], placement);
    }
  }

  /// Puts what has no node yet on free ones.
  void complete(Placement& placement) {
    std::vector<int> free(room_on_);
    for (const int node : placement) {
      if (node >= 0) --free[node];
    }
    std::vector<int> nodes;
    for (size_t node = 0; node < free.size(); ++node)
      nodes.insert(nodes.end(), free[node], static_cast<int>(node));
    shuffle(nodes);
    for (int& node : placement) {
      if (node >= 0) continue;
      node = nodes.back();
      nodes.pop_back();
    }
  }

  void shuffle(std::vector<int>& list) {
    for (int i = static_cast<int>(list.size()) - 1; i > 0; --i)
      std::swap(list[i], list[random_.below(i + 1)]);
  }

  const Assignment& problem_;
  const BreedOptions& options_;
  const Symmetries symmetries_;
  const Stopwatch watch_;
  FastRandom random_;
  TabuSearch search_;
  int64_t moves_ = 0;
  std::vector<int> room_on_, free_on_;  ///< tasks that a node takes, and still takes
  std::vector<int> slot_order_;
  std::vector<Individual> parents_;
  Individual best_;
};

}  // namespace

std::optional<Placement> breed(const CommMatrix& matrix, const Network& network, const Room& room,
                               std::span<const Placement> starts, const BreedOptions& options) {
  const Goal goal{.mesh_hops = options.mesh_hops};
  const auto problem = Assignment::of(matrix, network, room, goal, kMostBredPlaces);
  if (!problem) return std::nullopt;
  return Breeder(*problem, network, room, options).run(starts);
}

}  // namespace ibcoll::topology
