#include "studies/task_graph/lines.h"

#include <algorithm>

#include "engine/base/json.h"
#include "engine/base/units.h"

namespace ibcoll::task_graph {

std::vector<std::string_view> line_words(std::string_view line, char comment) {
  std::vector<std::string_view> result;
  line = line.substr(0, line.find(comment));
  const char* const kSpace = " \t\r";
  for (size_t at = line.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kSpace, at), line.size());
    result.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kSpace, end);
  }
  return result;
}

Result<int64_t> line_number(std::string_view word, int64_t low, int64_t high, const char* what,
                            int line) {
  Result<int64_t> value = parse_integer(word, low, high, what);
  if (!value) return fail(ErrorCode::kInvalidArgument, "line {}: {}", line, value.error().message);
  return value;
}

std::optional<int64_t> whole_number(const nlohmann::ordered_json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

}  // namespace ibcoll::task_graph
