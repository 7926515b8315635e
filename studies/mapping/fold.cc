#include "studies/mapping/fold.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "studies/mapping/near.h"
#include "studies/mapping/random.h"

namespace ibcoll::topology {
namespace {

/// One digit of a coordinate of the pattern, and the dimension of the network that it goes to.
struct Digit {
  int coordinate, radix, dimension;
};

/// The lowest digit of a number whose digits run to and fro; leaves the others.
int take_digit(int& number, int radix) {
  const int digit = number % radix;
  number /= radix;
  return number % 2 == 0 ? digit : radix - 1 - digit;
}

class Folder {
 public:
  Folder(const CommMatrix& matrix, const GridPattern& pattern, const Grid& grid, bool mesh_hops,
         uint64_t seed)
      : matrix_(matrix),
        pattern_(pattern),
        grid_(grid),
        hops_(grid, mesh_hops),
        random_(seed),
        lengths_(pattern.shape.sides()) {
    // Which copy it is counts as one more coordinate: steps in it cost nothing.
    lengths_.push_back(pattern.copies);
  }

  Placement run(int most, const std::function<bool()>& stop) {
    Placement best;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < most && !stop(); ++i) {
      if (!draw_digits()) continue;
      Placement placement = lay();
      const double hop_bytes = hop_bytes_of(placement);
      if (hop_bytes >= least) continue;
      least = hop_bytes;
      best = std::move(placement);
    }
    return best;
  }

 private:
  /// Draws digits, lowest first; false if they don't fit the network.
  bool draw_digits() {
    digits_.clear();
    std::vector<int> left = lengths_, room = grid_.sides();
    while (true) {
      std::vector<int> open;
      for (size_t coordinate = 0; coordinate < left.size(); ++coordinate) {
        if (left[coordinate] > 1) open.push_back(static_cast<int>(coordinate));
      }
      if (open.empty()) return true;
      std::vector<int> roomy;
      for (size_t d = 0; d < room.size(); ++d) {
        if (room[d] > 1) roomy.push_back(static_cast<int>(d));
      }
      if (roomy.empty()) return false;
      const int coordinate = draw(open), dimension = draw(roomy);
      const int radix = draw_radix(left[coordinate], room[dimension]);
      digits_.push_back({coordinate, radix, dimension});
      left[coordinate] = (left[coordinate] + radix - 1) / radix;
      room[dimension] /= radix;
    }
  }
  int draw(const std::vector<int>& list) {
    return list[random_.below(static_cast<int>(list.size()))];
  }
  /// As much as there is, or a common divisor.
  int draw_radix(int length, int room) {
    std::vector<int> radices{std::min(length, room)};
    for (int radix = 2; radix < radices.front(); ++radix) {
      if (length % radix == 0 && room % radix == 0) radices.push_back(radix);
    }
    return draw(radices);
  }

  Placement lay() {
    Placement placement(matrix_.tasks(), -1);
    std::vector<char> taken(grid_.nodes());
    std::vector<int> left(lengths_.size()), values(digits_.size()), at(grid_.dimensions());
    for (int task = 0; task < matrix_.tasks(); ++task) {
      const int place = pattern_.place[task];
      if (place < 0) continue;
      const int node = place % pattern_.shape.nodes();
      for (int d = 0; d < pattern_.shape.dimensions(); ++d)
        left[d] = pattern_.shape.coordinate(node, d);
      left.back() = place / pattern_.shape.nodes();
      for (size_t i = 0; i < digits_.size(); ++i)
        values[i] = take_digit(left[digits_[i].coordinate], digits_[i].radix);
      std::fill(at.begin(), at.end(), 0);
      for (size_t i = digits_.size(); i-- > 0;) {
        int& x = at[digits_[i].dimension];
        x = x * digits_[i].radix + (x % 2 == 0 ? values[i] : digits_[i].radix - 1 - values[i]);
      }
      placement[task] = grid_.node_at(at);
      taken[placement[task]] = 1;
    }
    // Tasks in no grid go where there is room.
    int free = 0;
    for (int& node : placement) {
      if (node >= 0) continue;
      while (taken[free] != 0) ++free;
      node = free++;
    }
    return placement;
  }

  double hop_bytes_of(const Placement& placement) const {
    double sum = 0;
    for (int task = 0; task < matrix_.tasks(); ++task) {
      for (const CommMatrix::Edge& edge : matrix_.out(task))
        sum += edge.bytes * hops_(placement[task], placement[edge.task]);
    }
    return sum;
  }

  const CommMatrix& matrix_;
  const GridPattern& pattern_;
  const Grid& grid_;
  const Hops<Grid> hops_;
  FastRandom random_;
  std::vector<int> lengths_;  ///< of each coordinate of the pattern
  std::vector<Digit> digits_;
};

}  // namespace

Placement fold(const CommMatrix& matrix, const GridPattern& pattern, const Grid& grid,
               bool mesh_hops, int most, uint64_t seed, const std::function<bool()>& stop) {
  return Folder(matrix, pattern, grid, mesh_hops, seed).run(most, stop);
}

}  // namespace ibcoll::topology
