#pragma once
/// On which line of a JSON text its members are, so that errors can say where.

#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/base/result.h"

namespace ibcoll::topology {

/// The line on which each container and each member begins, by JSON pointer. What is not JSON, has
/// a name twice in one object (which parsers accept) or is nested more than 16 deep is an error
/// "file:line: what".
Result<std::unordered_map<std::string, int>> find_member_lines(std::string_view text,
                                                               const std::string& file);

}  // namespace ibcoll::topology
