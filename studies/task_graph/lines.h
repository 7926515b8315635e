#pragma once
/// Numbers in text files: in lines that are made of them, and in JSON.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll::task_graph {

inline constexpr int64_t kMaxTasksOfAFile = int64_t{1} << 30;

/// The words of a line up to the sign that begins a comment.
std::vector<std::string_view> line_words(std::string_view line, char comment);

/// A whole number in [low, high]; the error names the line.
Result<int64_t> line_number(std::string_view word, int64_t low, int64_t high, const char* what,
                            int line);

/// The value of a JSON number that is whole and fits.
std::optional<int64_t> whole_number(const nlohmann::ordered_json& value);

}  // namespace ibcoll::task_graph
