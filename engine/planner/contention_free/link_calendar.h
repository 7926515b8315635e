#pragma once
/// When one link is free.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// How many of a link's units are taken at each time, from 0 on.
class LinkCalendar {
 public:
  LinkCalendar() : LinkCalendar(1, 0) {}
  /// `shortest_ns`: nothing shorter will ever be placed; shorter gaps are closed.
  LinkCalendar(int units, int64_t shortest_ns)
      : blocks_(1, Block{{0, 0}}), begins_{0}, units_(units), shortest_ns_(shortest_ns) {}

  /// The earliest time from `from_ns` on at which `need` units are free for `length_ns`.
  int64_t fit(int64_t from_ns, int64_t length_ns, int need) const;
  /// Takes units that fit() found free.
  void take(int64_t begin_ns, int64_t length_ns, int need);

 private:
  struct Step {
    int64_t begin;
    int32_t used;  ///< until the next step begins
  };
  using Block = std::vector<Step>;
  /// A step: its block, and its place in it.
  struct At {
    size_t block, index;
    friend bool operator==(const At&, const At&) = default;
  };

  const Step& step(At at) const { return blocks_[at.block][at.index]; }
  Step& step(At at) { return blocks_[at.block][at.index]; }
  bool is_last(At at) const {
    return at.block + 1 == blocks_.size() && at.index + 1 == blocks_[at.block].size();
  }
  At next(At at) const {
    return at.index + 1 < blocks_[at.block].size() ? At{at.block, at.index + 1}
                                                   : At{at.block + 1, 0};
  }
  At previous(At at) const {
    return at.index > 0 ? At{at.block, at.index - 1}
                        : At{at.block - 1, blocks_[at.block - 1].size() - 1};
  }
  /// The step that holds this time.
  At find(int64_t time) const;
  /// The step that begins then, made if there is none.
  At split(int64_t time);
  /// Steps before it keep their places.
  void erase(At at);
  /// Closes the step if it is a gap too short to use, and joins it with what is like it.
  void smooth(At at);

  /// The steps in order, in blocks so that putting one in between moves few others; none is empty.
  std::vector<Block> blocks_;
  std::vector<int64_t> begins_;  ///< of each block's first step
  int units_ = 1;
  int64_t shortest_ns_ = 0;
};

/// When one link is free after all that it has, gaps before that left as they are.
class Tail {
 public:
  explicit Tail(int units) : shares_{{0, units}} {}

  /// The earliest time from `from_ns` on at which `need` units have nothing more to do.
  int64_t fit(int64_t from_ns, int64_t /*length_ns*/, int need) const {
    size_t i = 0;
    for (int units = shares_[0].units; units < need; units += shares_[i].units) ++i;
    return std::max(from_ns, shares_[i].free_ns);
  }
  /// Gives `need` units, those free first, something to do.
  void take(int64_t begin_ns, int64_t length_ns, int need);

 private:
  struct Share {
    int64_t free_ns;
    int units;
  };
  std::vector<Share> shares_;  ///< by time
};

/// The earliest time from `begin` on at which a shipment may start, all links of its way being free
/// when it comes to them.
template <class LinkTimes>
int64_t fit_way(const std::vector<LinkTimes>& links, std::span<const Hop> route, int64_t begin,
                int64_t length_ns) {
  for (bool moved = true; moved;) {
    moved = false;
    for (const Hop& hop : route) {
      const int64_t at = begin + hop.before_ns;
      const int64_t free = links[hop.link].fit(at, length_ns, hop.units);
      if (free == at) continue;
      begin = free - hop.before_ns;
      moved = true;
    }
  }
  return begin;
}

}  // namespace ibcoll::contention_free
