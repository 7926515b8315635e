#pragma once
/// JSON values from and to text. Compiled in one place: what reads and writes JSON takes a compiler
/// seconds wherever it is used.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace ibcoll {

/// The value that a text is; else an error that says at which byte it is no JSON.
Result<nlohmann::json> parse_json(std::string_view text);
/// The same, members in the order of the text.
Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text);

/// The value on one line; bytes that are not UTF-8 become the replacement character.
std::string json_text(const nlohmann::json& value);
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace ibcoll
