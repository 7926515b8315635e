#pragma once
/// Cutting a set of tasks in two halves of given sizes with little traffic between them.

#include <vector>

#include "studies/mapping/matrix.h"
#include "studies/mapping/random.h"

namespace ibcoll::topology {

/// Cuts sets in two in one of two ways, whichever costs less: between the tasks near and far from
/// the set's rim, and in several levels, where tasks that talk to each other are joined until few
/// are left, and a cut of those is brought back to the tasks (Hendrickson, Leland 1995; Karypis,
/// Kumar 1998). Passes of moves with the greatest gain improve a cut (Fiduccia, Mattheyses 1982).
/// Time O(pairs log(pairs)) a cut.
class Bisector {
 public:
  Bisector(const CommMatrix& matrix, uint64_t seed);

  /// The set that a task belongs to; all are in set 0 at first.
  int set_of(int task) const { return set_of_[task]; }
  /// Makes a set of tasks, with a number of its own.
  void make_set(const std::vector<int>& tasks);
  /// The hop-bytes that a task saves in the first half, by tasks of other sets: cut() goes by it.
  double& pull(int task) { return pull_[task]; }

  /// Rearranges the tasks of one set so that the first `count` of them are a half that costs few
  /// hop-bytes; `distance` hops lie between the halves.
  void cut(std::vector<int>& tasks, int count, double distance);

 private:
  struct Edge {
    int to;
    double bytes;
  };
  /// What is cut: tasks, or what has been joined of them.
  struct Graph {
    std::vector<int> weight;  ///< tasks in each
    std::vector<double> pull;
    std::vector<size_t> start;  ///< where the edges of each begin
    std::vector<Edge> edges;
    std::vector<int> joined;  ///< what each has become in the next graph

    int size() const { return static_cast<int>(weight.size()); }
  };
  using Sides = std::vector<char>;

  Graph graph_of(const std::vector<int>& tasks);
  /// The graph of what is joined of this one, which then says what each became.
  Graph join(Graph& graph, int most_weight);
  std::vector<int> order_from_rim(const Graph& graph);
  Sides cut_by_rim(const Graph& graph, int count, double distance);
  Sides cut_by_levels(Graph graph, int count, double distance);
  /// Sides of a graph of few, grown around a few of them.
  Sides cut_few(const Graph& graph, int count, double distance);
  /// What the first side saves and the cut costs, in hop-bytes.
  double cost(const Graph& graph, const Sides& side, double distance) const;
  /// Moves between the sides while that lowers the cost. The first side has `count` tasks
  /// afterwards, or as near to that as the weights allow; with weights of 1 exactly so many.
  void improve(const Graph& graph, Sides& side, int count, double distance);
  bool pass(const Graph& graph, Sides& side, int count, double distance);

  const CommMatrix& matrix_;
  FastRandom random_;
  std::vector<int> set_of_;
  int sets_ = 0;
  std::vector<double> pull_;
  std::vector<int> place_;  ///< scratch: of a task among those that are cut
};

}  // namespace ibcoll::topology
