#pragma once
/// Placements of grids on grids of other sides, folded so that they fit.

#include <cstdint>
#include <functional>

#include "studies/mapping/evaluate.h"
#include "studies/mapping/grid_pattern.h"

namespace ibcoll::topology {

/// The best of many ways to fold a pattern into a grid, one task a node, all nodes usable; empty
/// where none was found. Each coordinate of the pattern is written in digits, and each coordinate
/// of the network made of digits, from one or several coordinates of the pattern. Digits run to and
/// fro (reflected, as in Gray codes), so that a step in the pattern changes one digit by one. The
/// digits are drawn at random again and again, `most` times or until `stop` says so. The best is
/// the one of least hop-bytes.
Placement fold(const CommMatrix& matrix, const GridPattern& pattern, const Grid& grid,
               bool mesh_hops, int most, uint64_t seed, const std::function<bool()>& stop);

}  // namespace ibcoll::topology
