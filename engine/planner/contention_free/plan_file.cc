#include "engine/planner/contention_free/plan_file.h"

#include "engine/base/json.h"

namespace ibcoll::contention_free {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPlanFormat = "ibcoll plan";
constexpr int kPlanVersion = 1;

int64_t index_to_json(uint32_t index) {
  return index == Transfer::kNone ? -1 : static_cast<int64_t>(index);
}

/// Reads numbers of rows one by one; remembers whether all were what they should be.
class Row {
 public:
  Row(const Json& json, size_t columns)
      : json_(json), good_(json.is_array() && json.size() == columns) {}

  int64_t integer(int64_t low, int64_t high) {
    const Json* cell = next();
    if (cell == nullptr || !cell->is_number_integer()) return bad();
    const auto value = cell->get<int64_t>();
    return value < low || value > high ? bad() : value;
  }
  double number() {
    const Json* cell = next();
    return cell == nullptr || !cell->is_number() ? static_cast<double>(bad()) : cell->get<double>();
  }
  bool good() const { return good_; }

 private:
  const Json* next() { return good_ ? &json_[at_++] : nullptr; }
  int64_t bad() {
    good_ = false;
    return 0;
  }
  const Json& json_;
  bool good_;
  size_t at_ = 0;
};

uint32_t index_from_json(int64_t value) {
  return value < 0 ? Transfer::kNone : static_cast<uint32_t>(value);
}

Result<Plan> read_plan(const Json& json) {
  const auto bad = [](std::string_view what) {
    return fail(ErrorCode::kInvalidArgument, "not a plan: {}", what);
  };
  if (!json.is_object() || json.value("format", "") != kPlanFormat) {
    return bad(R"("format" is not "ibcoll plan")");
  }
  if (json.value("version", 0) != kPlanVersion) {
    return fail(ErrorCode::kInvalidArgument, "a plan of version {}: this reads version {}",
                json.value("version", 0), kPlanVersion);
  }
  Plan plan;
  IBCOLL_ASSIGN(plan.collective, parse_planned(json.at("kind").get<std::string>()));
  IBCOLL_ASSIGN(plan.planner, parse_planner(json.at("planner").get<std::string>()));
  IBCOLL_ASSIGN(plan.policy, parse_policy(json.at("policy").get<std::string>()));
  plan.servers = json.at("servers").get<int>();
  plan.root = json.at("root").get<int>();
  plan.tokens_ahead = json.at("tokens_ahead").get<bool>();
  plan.piece_bytes = json.at("piece_bytes").get<uint64_t>();
  plan.relay_buffer_bytes = json.at("relay_buffer_bytes").get<uint64_t>();
  plan.time_ns = json.at("time_ns").get<int64_t>();
  plan.bound_ns = json.at("bound_ns").get<int64_t>();
  plan.jitter_ns = json.at("jitter_ns").get<int64_t>();
  plan.groups = json.at("groups").get<int64_t>();
  plan.relayed_bytes = json.at("relayed_bytes").get<uint64_t>();
  plan.parts = json.value("parts", 1);
  if (plan.parts < 1 || plan.parts > kMostParts) {
    return bad(fmt::format("messages in {} parts: must be 1 to {}", plan.parts, kMostParts));
  }
  if (plan.servers < 1 || plan.root < 0 || plan.root >= plan.servers) {
    return fail(ErrorCode::kInvalidArgument, "not a plan: root {} of {} servers", plan.root,
                plan.servers);
  }
  const Json &transfers = json.at("transfers"), &tokens = json.at("tokens");
  if (!transfers.is_array() || !tokens.is_array()) return bad("transfers and tokens are lists");
  const auto count = static_cast<int64_t>(transfers.size());
  const int64_t last = plan.servers - 1;
  for (const Json& cells : transfers) {
    Row row(cells, plan.parts > 1 ? 10 : 9);
    Transfer t;
    t.from = static_cast<int32_t>(row.integer(0, last));
    t.to = static_cast<int32_t>(row.integer(0, last));
    t.origin = static_cast<int32_t>(row.integer(kEveryone, last));
    t.target = static_cast<int32_t>(row.integer(kEveryone, last));
    t.bytes = static_cast<uint64_t>(row.integer(1, INT64_MAX));
    t.start_ns = row.integer(0, INT64_MAX);
    t.end_ns = row.integer(0, INT64_MAX);
    t.rate = row.number();
    t.forwards = index_from_json(row.integer(-1, count - 1));
    if (plan.parts > 1) t.part = static_cast<int32_t>(row.integer(0, plan.parts - 1));
    if (!row.good()) {
      return fail(ErrorCode::kInvalidArgument, "not a plan: transfer {}: {}", plan.transfers.size(),
                  json_text(cells));
    }
    plan.transfers.push_back(t);
  }
  for (const Json& cells : tokens) {
    Row row(cells, cells.size() == 6 ? 6 : 7);  // older ones have no slack
    Token t;
    t.after = index_from_json(row.integer(0, count - 1));
    t.before = index_from_json(row.integer(0, count - 1));
    t.anchor = index_from_json(row.integer(-1, count - 1));
    t.at_sender = row.integer(0, 1) != 0;
    t.bytes_left = static_cast<uint64_t>(row.integer(0, INT64_MAX));
    t.wait_ns = row.integer(0, INT64_MAX);
    if (cells.size() == 7) t.slack_ns = row.integer(0, INT64_MAX);
    if (!row.good()) {
      return fail(ErrorCode::kInvalidArgument, "not a plan: token {}: {}", plan.tokens.size(),
                  json_text(cells));
    }
    plan.tokens.push_back(t);
  }
  return plan;
}

}  // namespace

Json plan_to_json(const Plan& plan) {
  Json transfers = Json::array(), tokens = Json::array();
  for (const Transfer& t : plan.transfers) {
    transfers.push_back({t.from, t.to, t.origin, t.target, t.bytes, t.start_ns, t.end_ns, t.rate,
                         index_to_json(t.forwards)});
    if (plan.parts > 1) transfers.back().push_back(t.part);
  }
  for (const Token& t : plan.tokens) {
    tokens.push_back({t.after, t.before, index_to_json(t.anchor), t.at_sender ? 1 : 0, t.bytes_left,
                      t.wait_ns, t.slack_ns});
  }
  Json json = {{"format", kPlanFormat},
               {"version", kPlanVersion},
               {"kind", to_string(plan.collective)},
               {"servers", plan.servers},
               {"root", plan.root},
               {"planner", to_string(plan.planner)},
               {"policy", to_string(plan.policy)},
               {"tokens_ahead", plan.tokens_ahead},
               {"piece_bytes", plan.piece_bytes},
               {"relay_buffer_bytes", plan.relay_buffer_bytes},
               {"time_ns", plan.time_ns},
               {"bound_ns", plan.bound_ns},
               {"jitter_ns", plan.jitter_ns},
               {"groups", plan.groups},
               {"relayed_bytes", plan.relayed_bytes},
               {"transfers", std::move(transfers)},
               {"tokens", std::move(tokens)}};
  if (plan.parts > 1) json["parts"] = plan.parts;
  return json;
}

Result<Plan> plan_from_json(const Json& json) {
  try {
    return read_plan(json);
  } catch (
      const nlohmann::ordered_json::exception& error) {  // a key that is missing or of another type
    return fail(ErrorCode::kInvalidArgument, "not a plan: {}", error.what());
  }
}

}  // namespace ibcoll::contention_free
