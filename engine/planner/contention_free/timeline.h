#pragma once
/// When one link is free.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ibcoll::contention_free {

/// How many of a link's slots are taken at each time, from 0 on.
class Timeline {
 public:
  Timeline() : steps_{{0, 0}} {}
  /// `shortest_ns`: nothing shorter will ever be placed; shorter gaps are closed.
  Timeline(int slots, int64_t shortest_ns)
      : steps_{{0, 0}}, slots_(slots), shortest_ns_(shortest_ns) {}

  /// The earliest time from `from_ns` on at which `need` slots are free for `length_ns`.
  int64_t fit(int64_t from_ns, int64_t length_ns, int need) const;
  /// Takes slots that fit() found free.
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
  int slots_ = 1;
  int64_t shortest_ns_ = 0;
};

}  // namespace ibcoll::contention_free
