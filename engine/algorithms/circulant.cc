#include "engine/algorithms/circulant.h"

#include <algorithm>

namespace ibcoll {
namespace {

/// Finds for each k in turn a block that place r - skip(k) has had before: the smallest skip of a
/// path from the root along ever smaller skips to a place between r - skip(k + 1) and r - skip(k),
/// of skips that end no other path. The search goes through the paths from the farthest place down.
class PathSearch {
 public:
  PathSearch(const CirculantGraph& graph, int place)
      : graph_(graph),
        target_(graph.places() + place),
        next_(graph.degree() + 2),
        before_(graph.degree() + 2),
        limit_(2 * graph.places()) {
    for (int e = 0; e <= graph.degree() + 1; ++e) next_[e] = e - 1, before_[e] = e + 1;
  }

  /// The blocks by k; `own` is not used.
  std::vector<int> run(int own) {
    unlink(own);
    go(0, next_[graph_.degree() + 1]);
    return found_;
  }

 private:
  static constexpr int kNone = -1;

  void unlink(int e) {
    next_[before_[e]] = next_[e];
    if (next_[e] != kNone) before_[next_[e]] = before_[e];
  }
  int farthest() const { return target_ - graph_.skip(static_cast<int>(found_.size())); }
  int nearest() const { return target_ - graph_.skip(static_cast<int>(found_.size()) + 1); }
  bool done() const { return static_cast<int>(found_.size()) == graph_.degree(); }

  /// Goes on from place `at` with skips from index `e` on downwards.
  void go(int at, int e) {
    for (; e != kNone && !done(); e = next_[e]) {
      const int place = at + graph_.skip(e);
      if (place > farthest() || place >= limit_) continue;
      if (place <= nearest()) go(place, next_[e]);
      if (done() || at > nearest()) return;
      limit_ = place;
      found_.push_back(e);
      unlink(e);
    }
  }

  const CirculantGraph& graph_;
  const int target_;
  std::vector<int> next_, before_;  ///< skips that end no path yet, by index, as a list
  int limit_;                       ///< places found lie below each other
  std::vector<int> found_;
};

/// The smallest skip on the path to a place that takes the largest skip that fits each time: the
/// block that it gets first.
int first_block(const CirculantGraph& graph, int place) {
  for (int k = graph.degree();; --k) {
    if (graph.skip(k) == place) return k;
    if (graph.skip(k) < place) place -= graph.skip(k);
  }
}

}  // namespace

CirculantGraph::CirculantGraph(int places) {
  skip_.push_back(places);
  while (skip_.back() > 1) skip_.push_back((skip_.back() + 1) / 2);
  std::reverse(skip_.begin(), skip_.end());
}

std::vector<int> CirculantGraph::received(int place) const {
  const int own = first_block(*this, place);
  std::vector<int> blocks = PathSearch(*this, place).run(own);
  for (int& block : blocks) block = block == degree() ? own : block - degree();
  return blocks;
}

CirculantReceipts::CirculantReceipts(const CirculantGraph& graph, int place, uint32_t blocks)
    : blocks_(blocks), degree_(graph.degree()) {
  if (degree_ == 0) return;
  before_ = (degree_ - (blocks - 1) % degree_) % degree_;
  if (place == 0) return;
  first_ = graph.received(place);
  // What would be a block behind the last one is the last one, the first time.
  for (uint64_t k = 0; k < degree_; ++k) {
    uint64_t round = k;
    const int64_t missing = static_cast<int64_t>(blocks) - 1 - number(round);
    if (missing > 0) round += (static_cast<uint64_t>(missing) + degree_ - 1) / degree_ * degree_;
    last_ = std::min(last_, round);
  }
}

int64_t CirculantReceipts::number(uint64_t round) const {
  return first_[round % degree_] + static_cast<int64_t>(round / degree_ * degree_) -
         static_cast<int64_t>(before_);
}

std::optional<uint32_t> CirculantReceipts::block(uint32_t round) const {
  if (first_.empty()) return {};
  const uint64_t at = before_ + round;
  const int64_t block = number(at);
  const int64_t last_block = static_cast<int64_t>(blocks_) - 1;
  if (block < 0 || (block >= last_block && at != last_)) return {};
  return static_cast<uint32_t>(std::min(block, last_block));
}

}  // namespace ibcoll
