#include "studies/mapping/embed.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace ibcoll::topology {
namespace {

using Lists = std::vector<std::vector<int>>;

/// The usable nodes beside each usable node.
Lists nodes_beside(const Grid& grid, const Room& room, bool mesh) {
  Lists beside(grid.nodes());
  for (int node = 0; node < grid.nodes(); ++node) {
    if (!room.allows(node)) continue;
    std::vector<int> at;
    for (int d = 0; d < grid.dimensions(); ++d) at.push_back(grid.coordinate(node, d));
    for (int d = 0; d < grid.dimensions(); ++d) {
      const int side = grid.side(d), here = at[d];
      for (const int by : {-1, 1}) {
        const bool wraps = here + by < 0 || here + by == side;
        if (wraps && (mesh || !grid.torus())) continue;
        at[d] = (here + by + side) % side;
        const int other = grid.node_at(at);
        if (other != node && room.allows(other)) beside[node].push_back(other);
      }
      at[d] = here;
    }
    std::sort(beside[node].begin(), beside[node].end());
    beside[node].erase(std::unique(beside[node].begin(), beside[node].end()), beside[node].end());
  }
  return beside;
}

class Embedder {
 public:
  Embedder(Lists partners, Lists beside, const Grid& grid, const Room& room)
      : partners_(std::move(partners)),
        beside_(std::move(beside)),
        node_of_(partners_.size(), kNone),
        task_at_(grid.nodes(), kNone),
        open_partners_(partners_.size()),
        free_beside_(grid.nodes()),
        waiting_key_(partners_.size()) {
    for (int node = 0; node < grid.nodes(); ++node) {
      if (room.allows(node)) usable_.push_back(node);
      free_beside_[node] = static_cast<int>(beside_[node].size());
    }
    for (size_t task = 0; task < partners_.size(); ++task) {
      open_partners_[task] = static_cast<int>(partners_[task].size());
      waiting_key_[task] = {kNone, kNone, static_cast<int>(task)};  // not in waiting_
    }
    // Corners first, onto corners: where a mesh ends, little is left open.
    order_.resize(partners_.size());
    for (size_t task = 0; task < order_.size(); ++task) order_[task] = static_cast<int>(task);
    std::stable_sort(order_.begin(), order_.end(),
                     [this](int a, int b) { return partners_[a].size() < partners_[b].size(); });
    std::stable_sort(usable_.begin(), usable_.end(),
                     [this](int a, int b) { return beside_[a].size() < beside_[b].size(); });
  }

  std::optional<Placement> run(int64_t most_steps) {
    if (!fits()) return std::nullopt;
    std::vector<Trial> trials;
    while (trials.size() < partners_.size()) {
      trials.push_back(next_trial());
      while (!take_next(trials.back())) {
        trials.pop_back();
        if (trials.empty()) return std::nullopt;
        take_back(trials.back().task);
      }
      if (++steps_ > most_steps) return std::nullopt;
    }
    return node_of_;
  }

 private:
  static constexpr int kNone = -1;

  /// A task to place and the nodes to try, the next one last.
  struct Trial {
    int task;
    std::vector<int> nodes;
  };
  /// Tasks with a placed partner: fewest nodes left first, then those that have waited longest.
  using Key = std::tuple<int, int64_t, int>;

  /// Whether the degrees leave a chance: the i-th busiest task on the i-th widest node.
  bool fits() const {
    if (order_.size() > usable_.size()) return false;
    for (size_t i = 1; i <= order_.size(); ++i) {
      if (partners_[order_[order_.size() - i]].size() > beside_[usable_[usable_.size() - i]].size())
        return false;
    }
    return true;
  }

  Trial next_trial() {
    Trial trial;
    if (!waiting_.empty()) {
      trial.task = std::get<2>(*waiting_.begin());
      trial.nodes = nodes_for(trial.task);
    } else {  // the first of all, or of another part of the pattern
      trial.task = *std::find_if(order_.begin(), order_.end(),
                                 [this](int task) { return node_of_[task] == kNone; });
      for (const int node : usable_) {
        if (suits(trial.task, node)) trial.nodes.push_back(node);
      }
    }
    std::reverse(trial.nodes.begin(), trial.nodes.end());
    return trial;
  }

  bool take_next(Trial& trial) {
    while (!trial.nodes.empty()) {
      const int node = trial.nodes.back();
      trial.nodes.pop_back();
      place(trial.task, node);
      if (waiting_.empty() || std::get<0>(*waiting_.begin()) > 0) return true;
      take_back(trial.task);  // some task has no node left
      ++steps_;
    }
    return false;
  }

  /// Whether a node is free and has room beside it for all partners not yet placed, and those
  /// around it keep room for theirs.
  bool suits(int task, int node) const {
    if (task_at_[node] != kNone || free_beside_[node] < open_partners_[task]) return false;
    for (const int beside : beside_[node]) {
      const int other = task_at_[beside];
      if (other == kNone || free_beside_[beside] > open_partners_[other]) continue;
      if (!std::binary_search(partners_[task].begin(), partners_[task].end(), other)) return false;
    }
    return true;
  }

  /// Nodes beside all placed partners that suit the task; it has at least one such partner.
  std::vector<int> nodes_for(int task) const {
    std::vector<int> nodes;
    const auto placed = [this](int partner) { return node_of_[partner] != kNone; };
    const auto first = std::find_if(partners_[task].begin(), partners_[task].end(), placed);
    for (const int node : beside_[node_of_[*first]]) {
      if (!suits(task, node)) continue;
      const bool beside_all = std::all_of(first + 1, partners_[task].end(), [&](int partner) {
        return !placed(partner) ||
               std::binary_search(beside_[node].begin(), beside_[node].end(), node_of_[partner]);
      });
      if (beside_all) nodes.push_back(node);
    }
    return nodes;
  }

  void place(int task, int node) {
    waiting_.erase(waiting_key_[task]);
    node_of_[task] = node;
    task_at_[node] = task;
    for (const int partner : partners_[task]) --open_partners_[partner];
    for (const int beside : beside_[node]) --free_beside_[beside];
    look_again_around(task, node);
  }
  void take_back(int task) {
    const int node = node_of_[task];
    node_of_[task] = kNone;
    task_at_[node] = kNone;
    for (const int partner : partners_[task]) ++open_partners_[partner];
    for (const int beside : beside_[node]) ++free_beside_[beside];
    look_again(task);
    look_again_around(task, node);
  }

  /// Counts anew what is left for the tasks that a placing can have changed something for.
  void look_again_around(int task, int node) {
    for (const int partner : partners_[task]) look_again(partner);
    const auto around = [this](int at) {
      for (const int beside : beside_[at]) {
        if (task_at_[beside] == kNone) continue;
        for (const int other : partners_[task_at_[beside]]) look_again(other);
      }
    };
    around(node);
    for (const int beside : beside_[node]) around(beside);
  }
  void look_again(int task) {
    waiting_.erase(waiting_key_[task]);
    if (node_of_[task] != kNone || open_partners_[task] == static_cast<int>(partners_[task].size()))
      return;
    waiting_key_[task] = {static_cast<int>(nodes_for(task).size()), steps_, task};
    waiting_.insert(waiting_key_[task]);
  }

  const Lists partners_, beside_;
  std::vector<int> usable_, order_;
  std::vector<int> node_of_, task_at_;
  std::vector<int> open_partners_;  ///< of each task: partners not placed
  std::vector<int> free_beside_;    ///< of each node: free nodes beside it
  std::set<Key> waiting_;
  std::vector<Key> waiting_key_;
  int64_t steps_ = 0;
};

}  // namespace

std::vector<std::vector<int>> partners_that_count(const CommMatrix& matrix, double significant) {
  std::vector<double> heaviest(matrix.tasks(), 0);
  for (int task = 0; task < matrix.tasks(); ++task) {
    for (const CommMatrix::Edge& edge : matrix.both(task))
      heaviest[task] = std::max(heaviest[task], edge.bytes);
  }
  Lists lists(matrix.tasks());
  for (int task = 0; task < matrix.tasks(); ++task) {
    for (const CommMatrix::Edge& edge : matrix.both(task)) {
      if (edge.bytes >= significant * std::max(heaviest[task], heaviest[edge.task]))
        lists[task].push_back(edge.task);
    }
  }
  return lists;
}

std::optional<Placement> embed(const CommMatrix& matrix, const Grid& grid, const Room& room,
                               const EmbedOptions& options) {
  if (room.per_node != 1) return std::nullopt;
  Embedder embedder(partners_that_count(matrix, options.significant),
                    nodes_beside(grid, room, options.mesh_hops), grid, room);
  constexpr int64_t kStepsATask = 10;
  return embedder.run(options.most_steps > 0 ? options.most_steps : kStepsATask * matrix.tasks());
}

}  // namespace ibcoll::topology
