#pragma once
/// Plans as JSON.

#include <nlohmann/json.hpp>

#include "engine/planner/contention_free/plan.h"

namespace ibcoll::contention_free {

/// {"format": "ibcoll plan", "version": 1, "kind", "servers", "root", "planner", "policy",
/// "tokens_ahead", "piece_bytes", "relay_buffer_bytes", "time_ns", "bound_ns", "jitter_ns",
/// "groups", "relayed_bytes", "transfers": [[from, to, origin, target, bytes, start_ns, end_ns,
/// rate, forwards], ..], "tokens": [[after, before, anchor, at_sender, bytes_left, wait_ns,
/// slack_ns], ..]};
/// -1 stands for no transfer and for everyone.
nlohmann::ordered_json plan_to_json(const Plan& plan);

/// Reads it back. Refuses what is not of this form, of another version, or refers to transfers and
/// servers that are not there; whether the plan is right is check_plan()'s to say.
Result<Plan> plan_from_json(const nlohmann::ordered_json& json);

}  // namespace ibcoll::contention_free
