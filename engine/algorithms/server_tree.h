#pragma once
/// What rooted algorithms have in common: the servers as a tree, one rank of each speaking for it.

#include <vector>

#include "engine/schedule/builder.h"

namespace ibcoll {

/// Where blocks travel in the order (server, local rank), starting at the root's server, the blocks
/// of these servers lie side by side. Servers are counted from the root's on: place 0 is its own.
class ServerLine {
 public:
  ServerLine(const Shape& shape, Rank root);

  int places() const { return shape_->servers(); }
  int place_of(int server) const { return (server - first_ + places()) % places(); }
  int server_at(int place) const { return (place + first_) % places(); }
  /// The rank that sends and receives for the server: the root for its own, else local rank 0.
  Rank leader(int place) const;
  /// The ranks of the places first .. end - 1.
  std::vector<Rank> ranks(int first, int end) const;

 private:
  const Shape* shape_;
  Rank root_;
  int first_;
};

/// The binomial tree over places 0 .. places - 1 with root 0: place v hangs under v less its lowest
/// bit, and with all below it covers v .. end(v) - 1.
struct BinomialTree {
  int places;

  /// The distance of v from its parent: its lowest bit; of place 0 the first power of two that
  /// reaches past the end.
  int span(int v) const {
    if (v != 0) return v & -v;
    int span = 1;
    while (span < places) span *= 2;
    return span;
  }
  int parent(int v) const { return v & (v - 1); }
  int end(int v) const { return v + span(v) < places ? v + span(v) : places; }
  /// Ascending, so the child with the smallest subtree first.
  std::vector<int> children(int v) const {
    std::vector<int> result;
    for (int distance = 1; distance < span(v) && v + distance < places; distance *= 2) {
      result.push_back(v + distance);
    }
    return result;
  }
  /// Of the edge between v and its parent: 0 for the shortest.
  uint32_t level(int v) const {
    uint32_t level = 0;
    while ((v >> level & 1) == 0) ++level;
    return level;
  }
  uint32_t levels() const {
    uint32_t levels = 0;
    while (1 << levels < places) ++levels;
    return levels;
  }
};

/// One rank's program along the binomial tree of servers, which gather and scatter go up and down.
class AlongServerTree {
 protected:
  AlongServerTree(Collective collective, const Shape& shape, Rank me,
                  const AlgorithmOptions& options)
      : program_(collective, "binomial", shape, me, options),
        shape_(shape),
        root_(options.root),
        me_(me),
        one_size_(!is_unequal(collective)),
        line_(shape, root_),
        tree_{line_.places()} {}

  /// The ranks of the server at `place` and of those below it.
  std::vector<Rank> ranks_below(int place) const { return line_.ranks(place, tree_.end(place)); }
  /// A lone rank has nothing to gather or to pass on.
  bool direct(int place) const { return ranks_below(place).size() == 1; }

  ProgramBuilder program_;
  const Shape& shape_;
  const Rank root_, me_;
  const bool one_size_;
  const ServerLine line_;
  const BinomialTree tree_;
};

}  // namespace ibcoll
