#include "studies/mapping/boxes.h"

namespace ibcoll::topology {

bool Boxes::choose(FastRandom& random) {
  const int dimensions = grid_->dimensions();
  if (!praised_.empty() && random.below(2) == 0) {
    sides_ = praised_[random.below(static_cast<int>(praised_.size()))];
  } else if (!draw_sides(random)) {
    return false;
  }
  const bool aligned = random.below(4) != 0;
  const std::vector<int> corner = draw_corner(aligned, random);
  const bool in_place = random.below(3) == 0;
  list(corner, {}, first_);
  if (in_place) {
    draw_mirrors(random);
    list(corner, mirrors_, first_to_);
    second_.clear();
    return true;
  }
  const std::vector<int> other = draw_corner(aligned, random);
  for (int d = 0;; ++d) {
    if (d == dimensions) return false;  // they overlap
    const int side = grid_->side(d), up = (other[d] - corner[d] + side) % side;
    if (up >= sides_[d] && side - up >= sides_[d]) break;
  }
  list(other, {}, second_);
  draw_mirrors(random);
  list(other, mirrors_, first_to_);
  draw_mirrors(random);
  list(corner, mirrors_, second_to_);
  return true;
}

void Boxes::praise() {
  constexpr size_t kRemembered = 256;
  if (praised_.size() < kRemembered) {
    praised_.push_back(sides_);
  } else {
    praised_[next_praised_++ % kRemembered] = sides_;
  }
}

bool Boxes::draw_sides(FastRandom& random) {
  constexpr int kMostDoublings = 6, kMostNodes = 32;
  const int dimensions = grid_->dimensions();
  sides_.assign(dimensions, 1);
  int volume = 1;
  for (int tries = 1 + random.below(kMostDoublings); tries > 0; --tries) {
    const int d = random.below(dimensions);
    if (sides_[d] * 2 > grid_->side(d) || volume * 2 > kMostNodes) continue;
    sides_[d] *= 2;
    volume *= 2;
  }
  return volume > 1;
}

std::vector<int> Boxes::draw_corner(bool aligned, FastRandom& random) const {
  std::vector<int> corner;
  for (int d = 0; d < grid_->dimensions(); ++d) {
    const int side = grid_->side(d), last = grid_->torus() ? side - 1 : side - sides_[d];
    int x = random.below(last + 1);
    if (aligned) x -= x % sides_[d];
    corner.push_back(x);
  }
  return corner;
}

void Boxes::draw_mirrors(FastRandom& random) {
  mirrors_.clear();
  for (const int side : sides_) mirrors_.push_back(side > 1 && random.below(2) == 0 ? 1 : 0);
}

/// The box's nodes in order, or in the order that mirrors make of it.
void Boxes::list(const std::vector<int>& corner, const std::vector<int>& mirrors,
                 std::vector<int>& nodes) const {
  nodes.clear();
  std::vector<int> offset(sides_.size(), 0), at(sides_.size());
  for (;;) {
    for (size_t d = 0; d < at.size(); ++d) {
      const bool mirrored = !mirrors.empty() && mirrors[d] != 0;
      at[d] = (corner[d] + (mirrored ? sides_[d] - 1 - offset[d] : offset[d])) %
              grid_->side(static_cast<int>(d));
    }
    nodes.push_back(grid_->node_at(at));
    size_t d = 0;
    while (d < offset.size() && ++offset[d] == sides_[d]) offset[d++] = 0;
    if (d == offset.size()) return;
  }
}

}  // namespace ibcoll::topology
