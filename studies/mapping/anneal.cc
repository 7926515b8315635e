#include "studies/mapping/anneal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "studies/mapping/boxes.h"
#include "studies/mapping/near.h"
#include "studies/mapping/random.h"

namespace ibcoll::topology {
namespace {

template <class Paths>
class Annealer {
 public:
  Annealer(const CommMatrix& matrix, const Paths& paths, const Network& network, const Room& room,
           const AnnealOptions& options)
      : matrix_(matrix),
        paths_(paths),
        network_(network),
        room_(room),
        options_(options),
        hops_(paths, options.goal.mesh_hops),
        neighbours_(paths),
        with_hops_(options.goal.link_share < 1),
        with_links_(options.goal.link_share > 0),
        random_(options.seed) {
    first_slot_.assign(paths.nodes(), -1);
    for (int node = 0; node < paths.nodes(); ++node) {
      if (!room.allows(node)) continue;
      first_slot_[node] = static_cast<int>(node_of_slot_.size());
      node_of_slot_.insert(node_of_slot_.end(), room.per_node, node);
    }
    for (int task = 0; task < matrix.tasks(); ++task) {
      if (!matrix.both(task).empty()) talkers_.push_back(task);
    }
    loads_.resize(paths.links());
    change_.resize(paths.links());
    is_moved_.resize(matrix.tasks());
    if constexpr (std::is_same_v<Paths, Grid>) boxes_ = Boxes(paths);
  }

  Placement run(const Placement& start) {
    place(start);
    best_ = start;
    best_value_ = goal_value(options_.goal, evaluate(matrix_, network_, start));
    if (talkers_.empty() || node_of_slot_.size() < 2) return best_;
    const Stopwatch watch(options_.limits.clock);
    const double hot = options_.hot / static_cast<double>(talkers_.size());
    const double ratio = options_.cold / options_.hot;
    constexpr int kBetweenLooks = 256;
    const int64_t between_checks = std::max<int64_t>(4096, 4 * matrix_.tasks());
    int64_t next_check = between_checks;
    double done = 0;
    for (int64_t moves = 0; done < 1; moves += kBetweenLooks) {
      const double temperature = hot * std::pow(ratio, done);
      radius_ = std::max(1, static_cast<int>(neighbours_.reach() * std::pow(1 - done, 2)));
      for (int i = 0; i < kBetweenLooks; ++i) move(temperature);
      done = std::max(
          watch.seconds() / options_.limits.seconds,
          static_cast<double>(moves + kBetweenLooks) / static_cast<double>(options_.limits.moves));
      if (moves >= next_check) {
        next_check = moves + between_checks;
        check(done);
      }
    }
    check(1);
    return best_;
  }

 private:
  void place(const Placement& placement) {
    task_at_.assign(node_of_slot_.size(), -1);
    slot_of_.assign(placement.size(), -1);
    node_of_ = placement;
    for (size_t task = 0; task < placement.size(); ++task) {
      int slot = first_slot_[placement[task]];
      while (task_at_[slot] >= 0) ++slot;
      task_at_[slot] = static_cast<int>(task);
      slot_of_[task] = slot;
    }
    recompute();
  }

  /// Energies from scratch; also takes away what rounding left behind.
  void recompute() {
    hop_bytes_ = 0;
    std::fill(loads_.begin(), loads_.end(), 0);
    for (int task = 0; task < matrix_.tasks(); ++task) {
      for (const CommMatrix::Edge& edge : matrix_.out(task)) {
        if (with_hops_) hop_bytes_ += edge.bytes * hops_(node_of_[task], node_of_[edge.task]);
        if (with_links_) {
          paths_.route(node_of_[task], node_of_[edge.task],
                       [&](int link) { loads_[link] += edge.bytes * slowness(paths_, link); });
        }
      }
    }
    if (!with_links_) return;
    const double largest = *std::max_element(loads_.begin(), loads_.end());
    inverse_scale_ = largest > 0 ? 1 / largest : 1;
    norm_ = 0;
    for (const double load : loads_) norm_ += power(load);
  }

  double power(double load) const {
    double x = load * inverse_scale_;
    for (int p = options_.goal.norm; p > 1; p /= 2) x *= x;
    return x;
  }

  /// Hop-bytes of the moved tasks' messages, each counted once.
  double hop_bytes_of_moved() const {
    double sum = 0;
    for (const int task : moved_) {
      const int here = node_of_[task];
      if constexpr (kAsFarBack<Paths>) {
        for (const CommMatrix::Edge& edge : matrix_.both(task)) {
          const double hops = edge.bytes * hops_(here, node_of_[edge.task]);
          sum += is_moved_[edge.task] ? hops / 2 : hops;
        }
      } else {
        for (const CommMatrix::Edge& edge : matrix_.out(task)) {
          sum += edge.bytes * hops_(here, node_of_[edge.task]);
        }
        for (const CommMatrix::Edge& edge : matrix_.in(task)) {
          if (!is_moved_[edge.task]) sum += edge.bytes * hops_(node_of_[edge.task], here);
        }
      }
    }
    return sum;
  }

  /// Adds the moved tasks' messages to the links' changes, each once.
  void route_moved(double sign) {
    for (const int task : moved_) {
      const int here = node_of_[task];
      for (const CommMatrix::Edge& edge : matrix_.out(task)) {
        const double bytes = sign * edge.bytes;
        paths_.route(here, node_of_[edge.task], [&](int link) { touch(link, bytes); });
      }
      for (const CommMatrix::Edge& edge : matrix_.in(task)) {
        if (is_moved_[edge.task]) continue;
        const double bytes = sign * edge.bytes;
        paths_.route(node_of_[edge.task], here, [&](int link) { touch(link, bytes); });
      }
    }
  }
  void touch(int link, double bytes) {
    if (change_[link] == 0) touched_.push_back(link);
    change_[link] += bytes * slowness(paths_, link);
  }

  /// Plans that what is in slot `from` goes to slot `to`.
  void plan(int from, int to) { plan_.push_back({to, task_at_[to], task_at_[from]}); }
  void fill(int slot, int task) {
    task_at_[slot] = task;
    if (task < 0) return;
    slot_of_[task] = slot;
    node_of_[task] = node_of_slot_[slot];
  }

  /// A slot that a move of `task` aims at; -1 where there is none.
  int aim(int task) {
    const int kind = random_.below(8);
    int node;
    if (kind < 5) {
      // Beside a partner, the heavier one of two drawn.
      const auto partners = matrix_.both(task);
      const CommMatrix::Edge* partner = &partners[random_.below(static_cast<int>(partners.size()))];
      const CommMatrix::Edge* other = &partners[random_.below(static_cast<int>(partners.size()))];
      if (other->bytes > partner->bytes) partner = other;
      node = node_of_[partner->task];
      if (room_.per_node == 1 || random_.below(2) == 0) node = neighbours_.beside(node, random_);
    } else if (kind < 7 || radius_ < neighbours_.reach()) {
      node = neighbours_.around(node_of_[task], radius_, random_);
    } else {
      return random_.below(static_cast<int>(node_of_slot_.size()));
    }
    if (first_slot_[node] < 0) return -1;
    return first_slot_[node] + (room_.per_node == 1 ? 0 : random_.below(room_.per_node));
  }

  /// Plans the exchange of a task with another or with an idle slot; false if it would do nothing.
  bool plan_exchange() {
    const int task = talkers_[random_.below(static_cast<int>(talkers_.size()))];
    const int here = slot_of_[task], there = aim(task);
    if (there < 0 || node_of_slot_[here] == node_of_slot_[there]) return false;
    plan(here, there);
    plan(there, here);
    return true;
  }

  /// Plans the exchange of two boxes of nodes, each turned over at random; or turns one over.
  bool plan_box_move() {
    if constexpr (std::is_same_v<Paths, Grid>) {
      if (!boxes_.choose(random_)) return false;
      for (size_t i = 0; i < boxes_.first().size(); ++i) {
        const auto move_node = [&](int from, int to) {
          const int a = first_slot_[from], b = first_slot_[to];
          if (a < 0 || b < 0) return false;
          for (int slot = 0; slot < room_.per_node; ++slot) plan(a + slot, b + slot);
          return true;
        };
        if (!move_node(boxes_.first()[i], boxes_.first_goes_to()[i])) return false;
        if (boxes_.second().empty()) continue;
        if (!move_node(boxes_.second()[i], boxes_.second_goes_to()[i])) return false;
      }
      return true;
    }
    return false;
  }

  /// Carries out the plan; the relative change of the goal that it makes.
  double carry_out() {
    moved_.clear();
    for (const Refill& refill : plan_) {
      if (refill.after >= 0 && refill.after != refill.before) moved_.push_back(refill.after);
    }
    for (const int task : moved_) is_moved_[task] = 1;
    double before = 0;
    if (with_hops_) before = hop_bytes_of_moved();
    if (with_links_) route_moved(-1);
    for (const Refill& refill : plan_) fill(refill.slot, refill.after);
    double change = 0;
    const double share = options_.goal.link_share;
    if (with_hops_) {
      hop_change_ = hop_bytes_of_moved() - before;
      change += (1 - share) * hop_change_ / hop_bytes_;
    }
    if (with_links_) {
      route_moved(1);
      norm_change_ = 0;
      for (const int link : touched_) {
        if (change_[link] != 0) {
          norm_change_ += power(loads_[link] + change_[link]) - power(loads_[link]);
        }
      }
      change += share * norm_change_ / (norm_ * options_.goal.norm);
    }
    for (const int task : moved_) is_moved_[task] = 0;
    return change;
  }

  void settle(bool accepted) {
    if (accepted) {
      hop_bytes_ += hop_change_;
      norm_ += norm_change_;
    } else {
      for (const Refill& refill : plan_) fill(refill.slot, refill.before);
    }
    for (const int link : touched_) {
      if (accepted) loads_[link] += change_[link];
      change_[link] = 0;
    }
    touched_.clear();
  }

  /// What exchanging task `a` with what is in slot `there` does to hop-bytes, nothing moved.
  double exchange_hops(int a, int there) const {
    const int b = task_at_[there], from = node_of_[a], to = node_of_slot_[there];
    double change = 0;
    for (const CommMatrix::Edge& edge : matrix_.both(a)) {
      if (edge.task == b) continue;
      const int other = node_of_[edge.task];
      change += edge.bytes * (hops_(to, other) - hops_(from, other));
    }
    if (b < 0) return change;
    for (const CommMatrix::Edge& edge : matrix_.both(b)) {
      if (edge.task == a) continue;
      const int other = node_of_[edge.task];
      change += edge.bytes * (hops_(from, other) - hops_(to, other));
    }
    return change;
  }

  /// An exchange of hop-bytes alone, where it is as far there as back: by far the most frequent
  /// move of that goal, so it takes the short way.
  void exchange_by_hops(double temperature) {
    const int task = talkers_[random_.below(static_cast<int>(talkers_.size()))];
    const int here = slot_of_[task], there = aim(task);
    if (there < 0 || node_of_slot_[here] == node_of_slot_[there]) return;
    const double change = exchange_hops(task, there);
    if (change > 0 && random_.unit() >= std::exp(-change / (hop_bytes_ * temperature))) return;
    const int other = task_at_[there];
    hop_bytes_ += change;
    fill(there, task);
    fill(here, other);
  }

  void move(double temperature) {
    const bool of_boxes = random_.below(options_.between_boxes) == 0;
    if (kAsFarBack<Paths> && !with_links_ && !of_boxes) {
      exchange_by_hops(temperature);
      return;
    }
    plan_.clear();
    if (!(of_boxes ? plan_box_move() : plan_exchange())) return;
    const double change = carry_out();
    const bool accepted = change <= 0 || random_.unit() < std::exp(-change / temperature);
    settle(accepted);
    constexpr double kRounding = 1e-12;
    if (of_boxes && accepted && std::abs(change) > kRounding) boxes_.praise();
  }

  /// Keeps the state if it is the best so far.
  void check(double done) {
    recompute();
    Evaluation now;
    now.hop_bytes = now.hop_bytes_mesh = hop_bytes_;
    if (with_links_) now.max_link_load = *std::max_element(loads_.begin(), loads_.end());
    const double value = goal_value(options_.goal, now);
    if (value < best_value_) {
      best_value_ = value;
      best_ = node_of_;
    }
    if (options_.progress) {
      options_.progress(std::min(done, 1.0), now.hop_bytes, now.max_link_load);
    }
  }

  const CommMatrix& matrix_;
  const Paths& paths_;
  const Network& network_;
  const Room& room_;
  const AnnealOptions& options_;
  Hops<Paths> hops_;
  Neighbours<Paths> neighbours_;
  bool with_hops_, with_links_;
  FastRandom random_;
  int radius_ = 1;

  std::vector<int> first_slot_;    ///< of each node, -1 where it may not be used
  std::vector<int> node_of_slot_;  ///< room for one task each
  std::vector<int> task_at_;       ///< of each slot, -1 where it is idle
  std::vector<int> slot_of_, node_of_;
  std::vector<int> talkers_;  ///< tasks with any traffic

  double hop_bytes_ = 0, norm_ = 0, inverse_scale_ = 1;
  std::vector<double> loads_;
  /// What a planned move does to one slot.
  struct Refill {
    int slot, before, after;
  };
  Boxes boxes_;
  std::vector<Refill> plan_;
  std::vector<int> moved_;
  std::vector<char> is_moved_;
  double hop_change_ = 0, norm_change_ = 0;
  std::vector<double> change_;  ///< of each link by the move at hand; zero between moves
  std::vector<int> touched_;

  Placement best_;
  double best_value_ = 0;
};

}  // namespace

double goal_value(const Goal& goal, const Evaluation& evaluation) {
  // The quantity with no share decides ties, by a share too small to outweigh a real difference.
  constexpr double kTie = 1e-9;
  const double hops = goal.mesh_hops ? evaluation.hop_bytes_mesh : evaluation.hop_bytes;
  const double share = std::clamp(goal.link_share, kTie, 1 - kTie);
  const auto logarithm = [](double x) { return std::log(std::max(x, 1e-300)); };
  return (1 - share) * logarithm(hops) + share * logarithm(evaluation.max_link_load);
}

Placement anneal(const CommMatrix& matrix, const Network& network, const Room& room,
                 const Placement& start, const AnnealOptions& options) {
  return std::visit(
      [&](const auto& paths) { return Annealer(matrix, paths, network, room, options).run(start); },
      network);
}

}  // namespace ibcoll::topology
