#pragma once
/// A picture of a fabric.

#include <string>

#include "topology/fabric.h"

namespace ibcoll::topology {

/// An SVG document: trees of switches in levels with the hosts at the bottom, other networks on a
/// circle. The width of a line grows with the bandwidth of the bundle it stands for, its colour
/// tells how much of the routes' load it would carry in a uniform all-to-all against the link with
/// most. Names and figures are in tooltips, and beside the nodes where there is room.
std::string draw_fabric(const Fabric& fabric);

/// Most nodes that draw_fabric shows legibly; hosts beyond are drawn as one mark a switch.
inline constexpr int kMostHostsDrawn = 256;

}  // namespace ibcoll::topology
