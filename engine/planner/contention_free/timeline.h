#pragma once
/// When one link is free.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ibcoll::contention_free {

/// How many of a link's units are taken at each time, from 0 on.
class Timeline {
 public:
  Timeline() : steps_{{0, 0}} {}
  /// `shortest_ns`: nothing shorter will ever be placed; shorter gaps are closed.
  Timeline(int units, int64_t shortest_ns)
      : steps_{{0, 0}}, units_(units), shortest_ns_(shortest_ns) {}

  /// The earliest time from `from_ns` on at which `need` units are free for `length_ns`.
  int64_t fit(int64_t from_ns, int64_t length_ns, int need) const;
  /// Takes units that fit() found free.
  void take(int64_t begin_ns, int64_t length_ns, int need);

 private:
  struct Step {
    int64_t begin;
    int32_t used;  ///< until the next step begins
  };
  /// The step that holds this time.
  size_t find(int64_t time) const;
  size_t split(int64_t time);
  /// Closes the step if it is a gap too short to use, and joins it with what is like it.
  void smooth(size_t step);

  std::vector<Step> steps_;
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

}  // namespace ibcoll::contention_free
