#include "engine/planner/contention_free/cache.h"

#include <algorithm>
#include <bit>
#include <sstream>

#include "engine/base/hash.h"
#include "engine/base/input.h"
#include "engine/base/json.h"
#include "engine/base/json_lines.h"
#include "engine/planner/contention_free/check.h"
#include "engine/planner/contention_free/plan_file.h"

namespace ibcoll::contention_free {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPlansFormat = "ibcoll plans";
/// Of what stands in a file, of how "for" is computed, and of which plan is made for the same
/// inputs: ranks that find none in the cache must make the one that others find.
constexpr int kPlansVersion = 6;

uint64_t hash_request(const PlanInputs& base) {
  const topology::Fabric& fabric = *base.fabric;
  uint64_t hash = mix(1, static_cast<uint64_t>(fabric.switch_latency_ns()));
  for (int l = 0; l < fabric.links(); ++l) {
    const topology::Link& link = fabric.link(l);
    hash = mix(hash, static_cast<uint64_t>(link.from) << 32 | static_cast<uint64_t>(link.to));
    hash = mix(hash, std::bit_cast<uint64_t>(link.bandwidth));
    hash = mix(hash, static_cast<uint64_t>(link.latency_ns));
  }
  for (int s = fabric.hosts(); s < fabric.nodes(); ++s) {
    for (int to = 0; to < fabric.hosts(); ++to) {
      hash = mix(hash, static_cast<uint64_t>(fabric.next_link(s, to)) + 1);
    }
  }
  for (const int ranks : base.server_ranks) hash = mix(hash, static_cast<uint64_t>(ranks));
  for (const int host : base.hosts) hash = mix(hash, static_cast<uint64_t>(host));
  if (base.permitted) {
    for (const auto& [a, b] : *base.permitted) {
      hash = mix(hash, static_cast<uint64_t>(a) << 32 | static_cast<uint32_t>(b));
    }
  }
  hash = mix(hash, static_cast<uint64_t>(base.planner) << 8 | static_cast<uint64_t>(base.policy));
  hash = mix(hash, (base.relay ? 2 : 0) | (base.tokens_ahead ? 1 : 0));
  hash = mix(mix(hash, base.seed), base.piece_bytes);
  return mix(hash, static_cast<uint64_t>(base.most_parts));
}

}  // namespace

size_t PlanCache::Hash::operator()(const Key& key) const {
  // By the place in the list: plans stand in files in the order that these numbers give.
  const auto place =
      static_cast<uint64_t>(std::ranges::find(kPlanned, key.collective) - kPlanned.begin());
  uint64_t hash = mix(place << 32 | static_cast<uint64_t>(key.root), key.block_bytes);
  for (const uint64_t bytes : key.message_bytes) hash = mix(hash, bytes);
  return hash;
}

PlanCache::PlanCache(PlanInputs base)
    : base_(std::move(base)), hash_(base_.fabric == nullptr ? 0 : hash_request(base_)) {}

uint64_t PlanCache::size_class(uint64_t bytes) {
  constexpr int kDigits = 3;
  const int spare = std::bit_width(bytes) - kDigits;
  if (spare <= 0) return bytes;
  const uint64_t step = uint64_t{1} << spare;
  return (bytes + step - 1) / step * step;
}

PlanInputs PlanCache::request_for(const Key& key) const {
  PlanInputs inputs = base_;
  inputs.collective = key.collective;
  inputs.root = key.root;
  inputs.block_bytes = key.block_bytes;
  inputs.message_bytes = key.message_bytes;
  return inputs;
}

Result<std::shared_ptr<const Plan>> PlanCache::find_or_make() {
  const auto known = plans_.find(key_);
  if (known != plans_.end()) return known->second;
  IBCOLL_ASSIGN(Plan plan, plan_transfers(request_for(key_)));
  auto shared = std::make_shared<const Plan>(std::move(plan));
  plans_.emplace(key_, shared);
  return shared;
}

Result<std::shared_ptr<const Plan>> PlanCache::get(Collective collective, int root,
                                                   uint64_t block_bytes) {
  key_.collective = collective;
  key_.root = root;
  key_.block_bytes = size_class(block_bytes);
  key_.message_bytes.clear();
  return find_or_make();
}

Result<std::shared_ptr<const Plan>> PlanCache::get(Collective collective, int root,
                                                   const std::vector<uint64_t>& message_bytes) {
  key_.collective = collective;
  key_.root = root;
  key_.block_bytes = 0;
  key_.message_bytes = message_bytes;
  return find_or_make();
}

std::vector<std::shared_ptr<const Plan>> PlanCache::plans() const {
  std::vector<std::shared_ptr<const Plan>> all;
  for (const auto& [key, plan] : plans_) all.push_back(plan);
  return all;
}

void PlanCache::forget(const Plan* plan) {
  std::erase_if(plans_, [plan](const auto& known) { return known.second.get() == plan; });
}

Status PlanCache::check_last() const {
  const auto known = plans_.find(key_);
  if (known == plans_.end()) return fail(ErrorCode::kInvalidArgument, "no plan has been asked for");
  return check_plan(request_for(key_), *known->second);
}

Status PlanCache::save(const std::string& path) const {
  IBCOLL_ASSIGN(JsonLines lines, JsonLines::open(path));
  lines.write({{"format", kPlansFormat},
               {"version", kPlansVersion},
               {"for", fmt::format("{:016x}", hash_)},
               {"plans", plans_.size()}});
  for (const auto& [key, plan] : plans_) {
    lines.write({{"block_bytes", key.block_bytes},
                 {"message_bytes", key.message_bytes},
                 {"plan", plan_to_json(*plan)}});
  }
  return lines.close();
}

Status PlanCache::load(const std::string& path) {
  IBCOLL_ASSIGN(std::string text, read_input(path));
  std::istringstream in(std::move(text));
  std::string line;
  size_t number = 0, expected = 0;
  std::unordered_map<Key, std::shared_ptr<const Plan>, Hash> read;
  while (std::getline(in, line)) {
    ++number;
    const auto bad = [&](const std::string& why) {
      return fail(ErrorCode::kInvalidArgument, "{}:{}: {}", path, number, why);
    };
    const Json json = parse_json(line).value_or(Json());
    if (!json.is_object()) return bad("not a JSON object");
    try {
      if (number == 1) {
        if (json.value("format", "") != kPlansFormat) return bad("not a file of plans");
        if (json.value("version", 0) != kPlansVersion) {
          return bad(
              fmt::format("version {}: this reads {}", json.value("version", 0), kPlansVersion));
        }
        if (json.value("for", "") != fmt::format("{:016x}", hash_)) {
          return bad("plans for another network, shape or options");
        }
        expected = json.at("plans").get<size_t>();
        continue;
      }
      auto plan = plan_from_json(json.at("plan"));
      if (!plan) return bad(plan.error().message);
      Key key{plan->collective, plan->root, json.at("block_bytes").get<uint64_t>(),
              json.at("message_bytes").get<std::vector<uint64_t>>()};
      const Status right = check_plan(request_for(key), *plan);
      if (!right) return bad(right.error().message);
      read.emplace(std::move(key), std::make_shared<const Plan>(*std::move(plan)));
    } catch (const nlohmann::ordered_json::exception& error) {
      return bad(error.what());
    }
  }
  if (number == 0) return fail(ErrorCode::kInvalidArgument, "{}: empty", path);
  if (number != expected + 1) {
    return fail(ErrorCode::kInvalidArgument, "{}: {} plans of {}: the file is cut short", path,
                number - 1, expected);
  }
  plans_.merge(read);
  return {};
}

}  // namespace ibcoll::contention_free
