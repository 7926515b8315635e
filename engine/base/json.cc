#include "engine/base/json.h"

namespace ibcoll {
namespace {

template <class Json>
Result<Json> parse(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return fail(ErrorCode::kInvalidArgument, "is not JSON, at byte {}", error.byte);
  } catch (const nlohmann::json::exception& error) {  // a number beyond all bounds
    return fail(ErrorCode::kInvalidArgument, "is not JSON: {}", error.what());
  }
}

template <class Json>
std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text) { return parse<nlohmann::json>(text); }
Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text) {
  return parse<nlohmann::ordered_json>(text);
}

std::string json_text(const nlohmann::json& value) { return dump(value); }
std::string json_text(const nlohmann::ordered_json& value) { return dump(value); }

}  // namespace ibcoll
