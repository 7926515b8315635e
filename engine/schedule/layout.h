#pragma once
/// Shapes as people write them on command lines.

#include <optional>
#include <string_view>

#include "engine/schedule/shape.h"

namespace ibcoll {

/// The most ranks a layout may have.
inline constexpr int64_t kMaxLayoutRanks = 1'000'000;

/// "block" or "cyclic".
Result<Placement> parse_placement(std::string_view text);

/// "3,1,2" (three servers of 3, 1 and 2 ranks), "24x8" (24 servers of 8), or both mixed: "2x4,1".
Result<Shape> parse_layout(std::string_view text, Placement placement = Placement::kBlock);

/// What `--layout`, `--ranks` and `--servers` say together. Without a layout, `ranks` are spread
/// over `servers` (1 if not given) as evenly as they can be, larger servers first. With one, ranks
/// and servers, where given, must agree with it. At least a layout or a number of ranks is needed.
Result<Shape> shape_from_options(std::string_view layout, std::optional<int64_t> ranks,
                                 std::optional<int64_t> servers, Placement placement);

}  // namespace ibcoll
