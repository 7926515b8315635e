#pragma once
/// JSON values from and to text. Compiled in one place: what reads and writes JSON takes a compiler
/// seconds wherever it is used. All values are nlohmann::ordered_json, whose members keep their
/// order: what a second type of values would add to the library is tens of kilobytes.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace ibcoll {

/// The value that a text is; else an error that says at which byte it is no JSON.
Result<nlohmann::ordered_json> parse_json(std::string_view text);

/// The value on one line; bytes that are not UTF-8 become the replacement character.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace ibcoll
