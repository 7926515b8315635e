#pragma once
/// The one way in which ordered reductions combine: by a tree over the ranks that depends on
/// nothing else, so that the result has the same bits whatever the algorithm, layout and root.
///
/// The data of ranks first .. end - 1 is (that of first .. middle - 1) operator (that of middle ..
/// end - 1), and so on for each part; middle - first is the largest power of two that is smaller
/// than end - first. That is the order in which a binomial tree combines whose rank v is the child
/// of v less its lowest bit, as MPICH's is: ((0 1) (2 3)) 4 of five ranks. What a scan gives rank r
/// is combined as if there were no ranks behind r.

#include <bit>
#include <cstdint>

#include "engine/schedule/shape.h"

namespace ibcoll {

/// Where the two parts of what ranks first .. end - 1 have meet; there are at least two of them.
inline Rank middle_of(Rank first, Rank end) {
  return first + static_cast<Rank>(std::bit_floor(static_cast<uint32_t>(end - first - 1)));
}

/// Whether what ranks first .. middle - 1 and middle .. end - 1 have may be combined so. Parts of
/// parts begin at multiples of their length rounded up to a power of two.
inline bool are_parts(Rank first, Rank middle, Rank end) {
  return first < middle && middle < end && middle_of(first, end) == middle &&
         first % (2 * (middle - first)) == 0;
}

}  // namespace ibcoll
