#pragma once
/// Robust tabu search for assignments (Taillard 1991): always the best exchange of two tasks, even
/// one for the worse, but none that takes both back to where they have lately been.

#include <cstdint>
#include <functional>
#include <vector>

#include "studies/mapping/assignment.h"
#include "studies/mapping/random.h"

namespace ibcoll::topology {

/// What every exchange would change is kept in a table. An exchange changes the sums behind it by
/// outer products, so bringing the table up to date takes O(slots^2).
class TabuSearch {
 public:
  TabuSearch(const Assignment& problem, uint64_t seed);

  /// Begins anew. `slot_of` has an entry for each task, idle ones included. Time O(slots^3).
  void start(std::vector<int> slot_of);
  /// Makes this many exchanges; fewer if `stop`, asked now and then, says so.
  void run(int64_t exchanges, const std::function<bool()>& stop);

  /// The best assignment since the start, and its value as Assignment::value.
  const std::vector<int>& best() const { return best_; }
  double best_value() const { return best_value_; }
  /// Exchanges made since the start.
  int exchanges() const { return now_; }

 private:
  size_t at(int row, int column) const { return static_cast<size_t>(row) * stride_ + column; }
  size_t pair(int a, int b) const { return a < b ? at(a, b) : at(b, a); }
  void tabulate();
  float tabled_change(int a, int b) const;
  double exact_change(int a, int b) const;
  void exchange(int a, int b);
  void update_tables(int a, int b);
  void update_forbidden(int task);
  int draw_tenure();

  const Assignment& problem_;
  const int tasks_, slots_, stride_;
  FastRandom random_;
  std::vector<int> slot_of_, best_;
  double value_ = 0, best_value_ = 0;
  int now_ = 0;
  std::vector<float> distance_;  ///< between the slots of two tasks: [task][task]
  std::vector<float> products_;  ///< [a][b]: sum over tasks k of flow(a, k) x distance(b, k)
  std::vector<float> changes_;   ///< [a][b]: of the value by the exchange of a < b
  std::vector<float> flow_gap_, distance_gap_;  ///< see OuterProducts
  std::vector<int> away_until_;                 ///< [task][slot]: it has lately been there
  std::vector<int> forbidden_until_;            ///< [a][b]: the exchange of a < b
};

}  // namespace ibcoll::topology
