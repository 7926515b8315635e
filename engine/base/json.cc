#include "engine/base/json.h"

namespace ibcoll {
namespace {

/// Values copy and print what is in them level by level, each on the stack.
constexpr int kMostLevels = 500;

/// Whether there are more levels of arrays and objects. What is no JSON is for the parser to say.
bool is_too_deep(std::string_view text) {
  int levels = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++levels > kMostLevels) return true;
    } else if (c == ']' || c == '}') {
      --levels;
    }
  }
  return false;
}

}  // namespace

Result<nlohmann::ordered_json> parse_json(std::string_view text) {
  if (is_too_deep(text))
    return fail(ErrorCode::kInvalidArgument, "is nested more than {} levels deep", kMostLevels);
  try {
    return nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::ordered_json::parse_error& error) {
    return fail(ErrorCode::kInvalidArgument, "is not JSON, at byte {}", error.byte);
  } catch (const nlohmann::ordered_json::exception& error) {  // a number beyond all bounds
    return fail(ErrorCode::kInvalidArgument, "is not JSON: {}", error.what());
  }
}

std::string json_text(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ibcoll
