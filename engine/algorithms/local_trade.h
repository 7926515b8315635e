#pragma once
/// How the ranks of a server give each other what each has.

#include <cstddef>

#include "engine/schedule/shape.h"

namespace ibcoll {

/// Between each two ranks of this one's server: to the next one and from the one before first, one
/// thing in each direction at a time, so that nobody waits for two that wait for each other.
/// `given(to)` and `taken(from)` are the numbers of things; give(to, i) and take(from, i) write
/// them.
template <class Given, class Taken, class Give, class Take>
void trade_locally(const Shape& shape, Rank me, const Given& given, const Taken& taken,
                   const Give& give, const Take& take) {
  const auto members = shape.members(shape.server_of(me));
  const auto local = static_cast<size_t>(shape.local_of(me));
  const size_t size = members.size();
  for (size_t distance = 1; distance < size; ++distance) {
    const Rank to = members[(local + distance) % size];
    const Rank from = members[(local + size - distance) % size];
    const auto out = static_cast<size_t>(given(to)), in = static_cast<size_t>(taken(from));
    for (size_t i = 0; i < out || i < in; ++i) {
      if (i < out) give(to, i);
      if (i < in) take(from, i);
    }
  }
}

}  // namespace ibcoll
