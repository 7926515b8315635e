#include "studies/mapping/grow.h"

#include <limits>
#include <queue>

#include "studies/mapping/near.h"

namespace ibcoll::topology {
namespace {

constexpr int kUnreached = -1;

/// The pairs that make up the communication graph, without weights.
class Skeleton {
 public:
  explicit Skeleton(const CommMatrix& matrix) {
    constexpr double kSignificant = 0.1;
    std::vector<double> heaviest(matrix.tasks(), 0);
    for (int task = 0; task < matrix.tasks(); ++task) {
      for (const CommMatrix::Edge& edge : matrix.both(task)) {
        heaviest[task] = std::max(heaviest[task], edge.bytes);
      }
    }
    start_.push_back(0);
    for (int task = 0; task < matrix.tasks(); ++task) {
      for (const CommMatrix::Edge& edge : matrix.both(task)) {
        const double limit = kSignificant * std::min(heaviest[task], heaviest[edge.task]);
        if (edge.bytes >= limit) partners_.push_back(edge.task);
      }
      start_.push_back(partners_.size());
    }
  }
  int tasks() const { return static_cast<int>(start_.size()) - 1; }

  /// Hops to each task, kUnreached where there is no way.
  std::vector<int> distances(int from) const {
    std::vector<int> hops(tasks(), kUnreached), queue{from};
    hops[from] = 0;
    for (size_t head = 0; head < queue.size(); ++head) {
      const int task = queue[head];
      for (size_t i = start_[task]; i < start_[task + 1]; ++i) {
        if (hops[partners_[i]] != kUnreached) continue;
        hops[partners_[i]] = hops[task] + 1;
        queue.push_back(partners_[i]);
      }
    }
    return hops;
  }

 private:
  std::vector<size_t> start_;
  std::vector<int> partners_;
};

template <class Paths>
class Grower {
 public:
  Grower(const CommMatrix& matrix, const Paths& paths, const Room& room, const GrowOptions& options)
      : matrix_(matrix),
        room_(room),
        skeleton_(matrix),
        hops_(paths, options.mesh_hops),
        neighbours_(paths),
        nodes_(paths.nodes()),
        at_edge_(starts_at_edge(paths, options)),
        scale_(options.scale),
        random_(options.seed) {
    if (scale_ <= 0) scale_ = mean_ratio();
  }

  Placement run() {
    constexpr int kBeginnings = 64;
    const int length = std::min(matrix_.tasks(), 48);
    uint64_t best_seed = 0;
    double best_misfit = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kBeginnings && length < matrix_.tasks(); ++i) {
      const uint64_t seed = random_.next();
      const double misfit = attempt(seed, length);
      if (misfit < best_misfit) {
        best_misfit = misfit;
        best_seed = seed;
      }
    }
    attempt(best_seed, matrix_.tasks());
    return placement_;
  }

 private:
  struct Reference {
    int node;
    std::vector<int> hops;  ///< in the communication graph, to each task
  };

  static bool starts_at_edge(const Grid& grid, const GrowOptions& options) {
    return !grid.torus() || options.mesh_hops;
  }
  template <class Others>
  static bool starts_at_edge(const Others&, const GrowOptions&) {
    return false;
  }

  double mean_ratio() {
    double graph = 0, network = 0;
    int samples = 0;
    for (int i = 0; i < 16; ++i) {
      const std::vector<int> hops = skeleton_.distances(random_.below(matrix_.tasks()));
      const int node = random_.below(nodes_);
      for (int j = 0; j < 64; ++j) {
        const int reached = hops[random_.below(matrix_.tasks())];
        if (reached <= 0) continue;
        graph += reached;
        network += hops_(node, random_.below(nodes_));
        ++samples;
      }
    }
    return samples > 0 && graph > 0 && network > 0 ? network / graph : 1;
  }

  /// Places the first `count` tasks; the mean misfit of their distances.
  double attempt(uint64_t seed, int count) {
    random_ = FastRandom(seed);
    placement_.assign(matrix_.tasks(), -1);
    room_left_.assign(nodes_, 0);
    for (int node = 0; node < nodes_; ++node) {
      if (room_.allows(node)) room_left_[node] = room_.per_node;
    }
    pull_.assign(matrix_.tasks(), 0);
    front_ = {};
    references_.clear();
    last_ = 0;
    double misfit = 0;
    for (int placed = 0; placed < count; ++placed) {
      const int task = next_task();
      misfit += put(task, placed, count);
    }
    return misfit;
  }

  int next_task() {
    while (!front_.empty()) {
      const auto [pull, tie, task] = front_.top();
      front_.pop();
      if (placement_[task] < 0 && pull == pull_[task]) return task;
    }
    if (references_.empty() && at_edge_) return outermost();
    // The front is empty at the start and behind each connected part: go on with the task of most
    // traffic of a few drawn.
    int best = -1;
    double most = -1;
    const int first = random_.below(matrix_.tasks());
    int drawn = 0;
    for (int i = 0; i < matrix_.tasks() && drawn < 16; ++i) {
      const int task = (first + i) % matrix_.tasks();
      if (placement_[task] >= 0) continue;
      ++drawn;
      double traffic = 0;
      for (const CommMatrix::Edge& edge : matrix_.both(task)) traffic += edge.bytes;
      if (traffic > most) {
        most = traffic;
        best = task;
      }
    }
    return best;
  }

  /// A task at the rim of the graph: the farthest from the farthest from any.
  int outermost() {
    int task = random_.below(matrix_.tasks());
    for (int i = 0; i < 2; ++i) {
      const std::vector<int> hops = skeleton_.distances(task);
      int ties = 0;
      for (int other = 0; other < matrix_.tasks(); ++other) {
        if (hops[other] > hops[task]) {
          task = other;
          ties = 1;
        } else if (hops[other] == hops[task] && random_.below(++ties) == 0) {
          task = other;
        }
      }
    }
    return task;
  }

  double misfit(int task, int node) const {
    double sum = 0;
    for (const Reference& reference : references_) {
      const int hops = reference.hops[task];
      if (hops == kUnreached) continue;
      const double error = hops_(node, reference.node) - scale_ * hops;
      sum += error * error / (1 + hops);
    }
    return references_.empty() ? 0 : sum / static_cast<double>(references_.size());
  }

  double put(int task, int placed, int count) {
    int best = -1;
    double best_cost = std::numeric_limits<double>::infinity(), best_misfit = 0;
    double weight = 0;
    for (const CommMatrix::Edge& edge : matrix_.both(task)) {
      if (placement_[edge.task] >= 0) weight += edge.bytes;
    }
    const auto consider = [&](int node) {
      if (room_left_[node] == 0) return;
      double stretch = 0;
      for (const CommMatrix::Edge& edge : matrix_.both(task)) {
        if (placement_[edge.task] >= 0) stretch += edge.bytes * hops_(node, placement_[edge.task]);
      }
      if (weight > 0) stretch /= weight;
      const double fit = misfit(task, node);
      const double cost = stretch + 2 * fit + 1e-3 * random_.unit();
      if (cost < best_cost) {
        best_cost = cost;
        best_misfit = fit;
        best = node;
      }
    };
    for (const CommMatrix::Edge& edge : matrix_.both(task)) {
      if (placement_[edge.task] >= 0) neighbours_.for_each_near(placement_[edge.task], consider);
    }
    if (best < 0) best = nearest_free(task);
    placement_[task] = best;
    --room_left_[best];
    for (const CommMatrix::Edge& edge : matrix_.both(task)) {
      if (placement_[edge.task] >= 0) continue;
      pull_[edge.task] += edge.bytes;
      front_.push({pull_[edge.task], random_.next(), edge.task});
    }
    // The first ones all are references, later ones now and then.
    constexpr int kFirst = 16, kMore = 40;
    if (placed < kFirst || placed % std::max(1, count / kMore) == 0) {
      references_.push_back({best, skeleton_.distances(task)});
    }
    return best_misfit;
  }

  /// A free node near the heaviest partner placed, or near the last one where there is none.
  int nearest_free(int task) {
    int centre = last_;
    double heaviest = 0;
    for (const CommMatrix::Edge& edge : matrix_.both(task)) {
      if (placement_[edge.task] >= 0 && edge.bytes > heaviest) {
        heaviest = edge.bytes;
        centre = placement_[edge.task];
      }
    }
    int best = -1;
    for (int node = 0; node < nodes_; ++node) {
      if (room_left_[node] == 0) continue;
      if (best < 0 || hops_(centre, node) < hops_(centre, best)) best = node;
    }
    last_ = best;
    return best;
  }

  const CommMatrix& matrix_;
  const Room& room_;
  Skeleton skeleton_;
  Hops<Paths> hops_;
  Neighbours<Paths> neighbours_;
  int nodes_;
  bool at_edge_;  ///< node 0, where growing starts, is a corner
  double scale_;
  FastRandom random_;

  struct Front {
    double pull;
    uint64_t tie;
    int task;
    bool operator<(const Front& other) const {
      return pull != other.pull ? pull < other.pull : tie < other.tie;
    }
  };
  Placement placement_;
  std::vector<int> room_left_;
  std::vector<double> pull_;  ///< of each task: its traffic with those placed
  std::priority_queue<Front> front_;
  std::vector<Reference> references_;
  int last_ = 0;
};

}  // namespace

Placement grow(const CommMatrix& matrix, const Network& network, const Room& room,
               const GrowOptions& options) {
  return std::visit([&](const auto& paths) { return Grower(matrix, paths, room, options).run(); },
                    network);
}

}  // namespace ibcoll::topology
