#include "studies/mapping/bisect.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

namespace ibcoll::topology {
namespace {

/// Fewer are cut without levels.
constexpr int kFew = 80;
/// Joining goes on as long as it leaves no more than this part.
constexpr double kShrinks = 0.95;

}  // namespace

Bisector::Bisector(const CommMatrix& matrix, uint64_t seed)
    : matrix_(matrix),
      random_(seed),
      set_of_(matrix.tasks(), 0),
      pull_(matrix.tasks(), 0),
      place_(matrix.tasks()) {}

void Bisector::make_set(const std::vector<int>& tasks) {
  ++sets_;
  for (const int task : tasks) set_of_[task] = sets_;
}

void Bisector::cut(std::vector<int>& tasks, int count, double distance) {
  if (count == 0 || count == static_cast<int>(tasks.size())) return;
  Graph graph = graph_of(tasks);
  Sides side = cut_by_rim(graph, count, distance);
  if (graph.size() > kFew) {
    const double by_rim = cost(graph, side, distance);
    Graph same = graph;
    Sides other = cut_by_levels(std::move(same), count, distance);
    if (cost(graph, other, distance) < by_rim) side = std::move(other);
  }
  std::vector<int> sorted;
  sorted.reserve(tasks.size());
  for (const char half : {0, 1}) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (side[i] == half) sorted.push_back(tasks[i]);
    }
  }
  tasks = std::move(sorted);
}

Bisector::Graph Bisector::graph_of(const std::vector<int>& tasks) {
  const int set = set_of_[tasks.front()];
  for (size_t i = 0; i < tasks.size(); ++i) place_[tasks[i]] = static_cast<int>(i);
  Graph graph;
  graph.weight.assign(tasks.size(), 1);
  graph.start.push_back(0);
  for (const int task : tasks) {
    graph.pull.push_back(pull_[task]);
    for (const CommMatrix::Edge& edge : matrix_.both(task)) {
      if (set_of_[edge.task] == set) graph.edges.push_back({place_[edge.task], edge.bytes});
    }
    graph.start.push_back(graph.edges.size());
  }
  return graph;
}

Bisector::Graph Bisector::join(Graph& graph, int most_weight) {
  std::vector<int> order(graph.size()), mate(graph.size(), -1);
  std::iota(order.begin(), order.end(), 0);
  for (int i = graph.size() - 1; i > 0; --i) std::swap(order[i], order[random_.below(i + 1)]);
  graph.joined.assign(graph.size(), -1);
  Graph joined;
  for (const int one : order) {
    if (graph.joined[one] >= 0) continue;
    int best = -1;
    double most = 0;
    for (size_t e = graph.start[one]; e < graph.start[one + 1]; ++e) {
      const auto& [other, bytes] = graph.edges[e];
      if (graph.joined[other] >= 0 || graph.weight[one] + graph.weight[other] > most_weight)
        continue;
      const double each = bytes / (static_cast<double>(graph.weight[one]) * graph.weight[other]);
      if (each <= most) continue;
      most = each;
      best = other;
    }
    graph.joined[one] = joined.size();
    joined.weight.push_back(graph.weight[one]);
    joined.pull.push_back(graph.pull[one]);
    if (best < 0) continue;
    mate[one] = best;
    graph.joined[best] = graph.joined[one];
    joined.weight.back() += graph.weight[best];
    joined.pull.back() += graph.pull[best];
  }
  std::vector<size_t> at(joined.size(), std::numeric_limits<size_t>::max());  // of an edge to it
  joined.start.push_back(0);
  int next = 0;
  for (const int one : order) {
    if (graph.joined[one] != next) continue;  // is the second of a pair
    const size_t first = joined.edges.size();
    for (const int member : {one, mate[one]}) {
      if (member < 0) continue;
      for (size_t e = graph.start[member]; e < graph.start[member + 1]; ++e) {
        const int to = graph.joined[graph.edges[e].to];
        if (to == next) continue;
        if (at[to] < first || at[to] >= joined.edges.size()) {
          at[to] = joined.edges.size();
          joined.edges.push_back({to, 0});
        }
        joined.edges[at[to]].bytes += graph.edges[e].bytes;
      }
    }
    joined.start.push_back(joined.edges.size());
    ++next;
  }
  return joined;
}

/// Those of a graph by their hops from one at the rim, the end that is pulled to the first half in
/// front.
std::vector<int> Bisector::order_from_rim(const Graph& graph) {
  std::vector<int> queue;
  std::vector<char> reached(graph.size());
  int rim = random_.below(graph.size());
  constexpr int kSweeps = 3;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    std::fill(reached.begin(), reached.end(), 0);
    queue.clear();
    int next = 0;
    for (size_t head = 0; static_cast<int>(queue.size()) < graph.size();) {
      // The next connected part.
      int begin = rim;
      while (reached[begin] != 0) begin = next++;
      reached[begin] = 1;
      queue.push_back(begin);
      for (; head < queue.size(); ++head) {
        for (size_t e = graph.start[queue[head]]; e < graph.start[queue[head] + 1]; ++e) {
          const int other = graph.edges[e].to;
          if (reached[other] != 0) continue;
          reached[other] = 1;
          queue.push_back(other);
        }
      }
    }
    rim = queue.back();
  }
  double front = 0, back = 0;
  for (size_t i = 0; i < queue.size(); ++i)
    (i < queue.size() / 2 ? front : back) += graph.pull[queue[i]];
  if (back > front) std::reverse(queue.begin(), queue.end());
  return queue;
}

Bisector::Sides Bisector::cut_by_rim(const Graph& graph, int count, double distance) {
  const std::vector<int> order = order_from_rim(graph);
  Sides side(graph.size(), 1);
  for (int i = 0; i < count; ++i) side[order[i]] = 0;
  improve(graph, side, count, distance);
  return side;
}

Bisector::Sides Bisector::cut_by_levels(Graph graph, int count, double distance) {
  const int all = graph.size();
  const int most_weight = std::max(2, 3 * all / (2 * kFew));
  std::vector<Graph> levels;
  levels.push_back(std::move(graph));
  while (levels.back().size() > kFew) {
    Graph joined = join(levels.back(), most_weight);
    if (joined.size() > kShrinks * levels.back().size()) break;
    levels.push_back(std::move(joined));
  }
  Sides side = cut_few(levels.back(), count, distance);
  for (size_t level = levels.size() - 1; level-- > 0;) {
    const Graph& finer = levels[level];
    Sides fine(finer.size());
    for (int i = 0; i < finer.size(); ++i) fine[i] = side[finer.joined[i]];
    improve(finer, fine, count, distance);
    side = std::move(fine);
  }
  return side;
}

Bisector::Sides Bisector::cut_few(const Graph& graph, int count, double distance) {
  constexpr int kTries = 8;
  Sides best;
  double best_cost = 0;
  for (int i = 0; i < kTries; ++i) {
    // What talks most to the first side goes there, until it is full.
    Sides side(graph.size(), 1);
    std::vector<double> gain(graph.size());
    for (int one = 0; one < graph.size(); ++one) gain[one] = graph.pull[one];
    int weight = 0, next = random_.below(graph.size());
    while (weight < count) {
      side[next] = 0;
      weight += graph.weight[next];
      for (size_t e = graph.start[next]; e < graph.start[next + 1]; ++e)
        gain[graph.edges[e].to] += graph.edges[e].bytes * distance;
      next = -1;
      for (int one = 0; one < graph.size(); ++one) {
        if (side[one] == 1 && (next < 0 || gain[one] > gain[next])) next = one;
      }
      if (next < 0) break;
    }
    improve(graph, side, count, distance);
    const double now = cost(graph, side, distance);
    if (!best.empty() && now >= best_cost) continue;
    best_cost = now;
    best = std::move(side);
  }
  return best;
}

double Bisector::cost(const Graph& graph, const Sides& side, double distance) const {
  double cut = 0, pulled = 0;
  for (int one = 0; one < graph.size(); ++one) {
    if (side[one] == 0) pulled += graph.pull[one];
    for (size_t e = graph.start[one]; e < graph.start[one + 1]; ++e) {
      if (side[graph.edges[e].to] != side[one]) cut += graph.edges[e].bytes;
    }
  }
  return cut / 2 * distance - pulled;  // both ends count an edge
}

void Bisector::improve(const Graph& graph, Sides& side, int count, double distance) {
  constexpr int kPasses = 4;
  for (int i = 0; i < kPasses; ++i) {
    if (!pass(graph, side, count, distance)) return;
  }
}

bool Bisector::pass(const Graph& graph, Sides& side, int count, double distance) {
  struct Offer {
    double gain;
    int one;
    bool operator<(const Offer& other) const {
      return gain != other.gain ? gain < other.gain : one < other.one;
    }
  };
  std::array<std::priority_queue<Offer>, 2> offers;
  std::vector<double> gain(graph.size());
  std::vector<char> moved(graph.size());
  int weight = 0, heaviest = 0;
  for (int one = 0; one < graph.size(); ++one) {
    gain[one] = side[one] == 0 ? -graph.pull[one] : graph.pull[one];
    for (size_t e = graph.start[one]; e < graph.start[one + 1]; ++e)
      gain[one] +=
          graph.edges[e].bytes * distance * (side[graph.edges[e].to] == side[one] ? -1 : 1);
    offers[side[one]].push({gain[one], one});
    if (side[one] == 0) weight += graph.weight[one];
    heaviest = std::max(heaviest, graph.weight[one]);
  }
  const int spare = heaviest - 1;  // how far from `count` a cut may be
  const auto off = [&] { return std::max(0, std::abs(weight - count) - spare); };
  std::vector<int> moves;
  double sum = 0, best = 0;
  int best_off = off(), idle = 0;
  size_t kept = 0;
  constexpr int kPatience = 400;
  constexpr double kRounding = 1e-12;
  while (idle < kPatience) {
    for (auto& queue : offers) {  // drop what has moved, or is offered with another gain by now
      while (!queue.empty() &&
             (moved[queue.top().one] != 0 || queue.top().gain != gain[queue.top().one]))
        queue.pop();
    }
    // From the larger half; the better of the two where they are as they should be.
    int from = weight >= count ? 0 : 1;
    if (weight == count && heaviest > 1 && !offers[1].empty() &&
        (offers[0].empty() || offers[0].top() < offers[1].top()))
      from = 1;
    if (offers[from].empty()) break;
    const int one = offers[from].top().one;
    offers[from].pop();
    moved[one] = 1;
    moves.push_back(one);
    sum += gain[one];
    side[one] ^= 1;
    weight += from == 0 ? -graph.weight[one] : graph.weight[one];
    for (size_t e = graph.start[one]; e < graph.start[one + 1]; ++e) {
      const auto& [other, bytes] = graph.edges[e];
      if (moved[other] != 0) continue;
      gain[other] += 2 * bytes * distance * (side[other] == side[one] ? -1 : 1);
      offers[side[other]].push({gain[other], other});
    }
    ++idle;
    const int now_off = off();
    if (now_off < best_off || (now_off == best_off && sum > best + kRounding * std::abs(best))) {
      best_off = now_off;
      best = sum;
      kept = moves.size();
      idle = 0;
    }
  }
  for (size_t i = kept; i < moves.size(); ++i) side[moves[i]] ^= 1;
  return kept > 0;
}

}  // namespace ibcoll::topology
