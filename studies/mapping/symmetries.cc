#include "studies/mapping/symmetries.h"

#include <algorithm>
#include <numeric>

namespace ibcoll::topology {

Symmetries::Symmetries(const Network& network, const Room& room, bool mesh_hops) {
  if (!room.usable.empty()) return;
  grid_ = std::get_if<Grid>(&network);
  if (grid_ == nullptr) return;
  shifts_ = grid_->torus() && !mesh_hops;
  add_turns();
}

void Symmetries::add_turns() {
  const int dimensions = grid_->dimensions();
  std::vector<int> from(dimensions);
  std::iota(from.begin(), from.end(), 0);
  do {
    bool fits = true;
    for (int d = 0; d < dimensions; ++d) fits = fits && grid_->side(d) == grid_->side(from[d]);
    if (!fits) continue;
    for (int flips = 0; flips < 1 << dimensions; ++flips) {
      Turn turn{from, std::vector<char>(dimensions)};
      bool is_new = true;
      for (int d = 0; d < dimensions; ++d) {
        turn.flip[d] = static_cast<char>(flips >> d & 1);
        // A side of one node has nothing to reflect; in a ring of two that is a shift.
        if (turn.flip[d] != 0 && grid_->side(d) <= (shifts_ ? 2 : 1)) is_new = false;
      }
      if (is_new) turns_.push_back(std::move(turn));
    }
  } while (std::next_permutation(from.begin(), from.end()));
}

int Symmetries::image(const Turn& turn, int node) const {
  int result = 0;
  for (int d = grid_->dimensions(); d-- > 0;) {
    const int x = grid_->coordinate(node, turn.from[d]), side = grid_->side(d);
    result = result * side + (turn.flip[d] != 0 ? side - 1 - x : x);
  }
  return result;
}

int Symmetries::shifted(int node, int by) const {
  int result = 0;
  for (int d = grid_->dimensions(); d-- > 0;) {
    const int side = grid_->side(d);
    result = result * side + (grid_->coordinate(node, d) + grid_->coordinate(by, d)) % side;
  }
  return result;
}

int Symmetries::shift_between(int from, int to) const {
  int result = 0;
  for (int d = grid_->dimensions(); d-- > 0;) {
    const int side = grid_->side(d);
    const int x = grid_->coordinate(to, d) - grid_->coordinate(from, d);
    result = result * side + (x < 0 ? x + side : x);
  }
  return result;
}

Placement Symmetries::aligned(const Placement& placement, const Placement& model) const {
  if (grid_ == nullptr) return placement;
  // For each turn, the tasks vote on the shift that would put them in their places.
  std::vector<int> votes(grid_->nodes());
  const Turn* best = nullptr;
  int best_shift = 0, most = -1;
  for (const Turn& turn : turns_) {
    std::fill(votes.begin(), votes.end(), 0);
    for (size_t task = 0; task < placement.size(); ++task)
      ++votes[shift_between(image(turn, placement[task]), model[task])];
    const int shift =
        shifts_ ? static_cast<int>(std::ranges::max_element(votes) - votes.begin()) : 0;
    if (votes[shift] <= most) continue;
    most = votes[shift];
    best = &turn;
    best_shift = shift;
  }
  Placement result(placement.size());
  for (size_t task = 0; task < placement.size(); ++task)
    result[task] = shifted(image(*best, placement[task]), best_shift);
  return result;
}

}  // namespace ibcoll::topology
