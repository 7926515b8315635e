#include "tests/lockstep/bed/tally.h"

#include <fmt/format.h>

#include <cstring>

#include "tests/lockstep/bed/hooks.h"

namespace ibcoll::lockstep {
namespace {

constexpr const char* kFaultNames[kFaults] = {
    "death",          "stop",    "late",      "cancel",      "deadline",
    "clock",          "memory",  "heap",      "system_call", "flipped_bit",
    "outage",         "no_room", "late_wake", "early_wake",  "reordered_store",
    "failed_exchange"};

constexpr const char* kStatusNames[Tally::kStatuses] = {
    "OK",       "INVALID", "MISMATCH", "NO_MEMORY", "UNSUPPORTED", "PEER_FAILED",
    "DEADLINE", "SYSTEM",  "PROGRAM",  "INTERNAL",  "CANCELLED",   "BUSY"};

struct Number {
  const char* name;
  uint64_t Tally::*of;
};
constexpr Number kNumbers[] = {{"runs", &Tally::runs},           {"failures", &Tally::failures},
                               {"steps", &Tally::steps},         {"calls", &Tally::calls},
                               {"accesses", &Tally::accesses},   {"switches", &Tally::switches},
                               {"jobs_over", &Tally::jobs_over}, {"virtual_ns", &Tally::virtual_ns},
                               {"cpu_ns", &Tally::cpu_ns}};

}  // namespace

const char* to_string(Fault fault) { return kFaultNames[static_cast<size_t>(fault)]; }

void Tally::add(const Tally& other) {
  static_assert(std::is_trivially_copyable_v<Tally> && sizeof(Tally) % sizeof(uint64_t) == 0);
  std::array<uint64_t, sizeof(Tally) / sizeof(uint64_t)> mine, others;
  std::memcpy(mine.data(), this, sizeof *this);
  std::memcpy(others.data(), &other, sizeof other);
  for (size_t i = 0; i < mine.size(); ++i) mine[i] += others[i];
  std::memcpy(static_cast<void*>(this), mine.data(), sizeof *this);
}

uint64_t Tally::large_faults() const {
  uint64_t sum = 0;
  for (int i = 0; i < kLargeFaults; ++i) sum += faults[static_cast<size_t>(i)];
  return sum;
}

uint64_t Tally::with_status(int status) const {
  uint64_t sum = 0;
  for (const auto& of_kind : ended) sum += of_kind[static_cast<size_t>(status)];
  return sum;
}

uint64_t Tally::of_kind(Operation kind) const {
  uint64_t sum = 0;
  for (const uint64_t count : ended[static_cast<size_t>(kind)]) sum += count;
  return sum;
}

nlohmann::ordered_json to_json(const Tally& tally) {
  nlohmann::ordered_json json;
  for (const Number& number : kNumbers) json[number.name] = tally.*number.of;
  json["faults"] = tally.large_faults();
  for (int i = 0; i < kFaults; ++i)
    json["faults_by_kind"][kFaultNames[i]] = tally.faults[static_cast<size_t>(i)];
  for (int i = 0; i < kWays; ++i)
    json["ways"][to_string(static_cast<Way>(i))] = tally.ways[static_cast<size_t>(i)];
  for (int status = 0; status < Tally::kStatuses; ++status)
    json["statuses"][kStatusNames[status]] = tally.with_status(status);
  for (int i = 0; i < kOperations; ++i) {
    auto& kind = json["operations"][to_string(static_cast<Operation>(i))];
    kind = nlohmann::ordered_json::object();
    for (int status = 0; status < Tally::kStatuses; ++status) {
      const uint64_t count = tally.ended[static_cast<size_t>(i)][static_cast<size_t>(status)];
      if (count != 0) kind[kStatusNames[status]] = count;
    }
  }
  return json;
}

Tally tally_of(const nlohmann::ordered_json& json) {
  Tally tally;
  const auto number = [](const nlohmann::ordered_json& of, const char* name) -> uint64_t {
    const auto found = of.find(name);
    return found == of.end() || !found->is_number_unsigned() ? 0 : found->get<uint64_t>();
  };
  const auto part = [&json](const char* name) {
    const auto found = json.find(name);
    return found == json.end() ? nlohmann::ordered_json::object() : *found;
  };
  for (const Number& one : kNumbers) tally.*one.of = number(json, one.name);
  const auto faults = part("faults_by_kind"), ways = part("ways"), operations = part("operations");
  for (int i = 0; i < kFaults; ++i)
    tally.faults[static_cast<size_t>(i)] = number(faults, kFaultNames[i]);
  for (int i = 0; i < kWays; ++i)
    tally.ways[static_cast<size_t>(i)] = number(ways, to_string(static_cast<Way>(i)));
  for (int i = 0; i < kOperations; ++i) {
    const auto kind = operations.find(to_string(static_cast<Operation>(i)));
    if (kind == operations.end()) continue;
    for (int status = 0; status < Tally::kStatuses; ++status)
      tally.ended[static_cast<size_t>(i)][static_cast<size_t>(status)] =
          number(*kind, kStatusNames[status]);
  }
  return tally;
}

std::string to_table(const Tally& tally) {
  std::string text;
  const auto line = [&text](std::string_view what, uint64_t count) {
    text += fmt::format("{:<36} {:>16}\n", what, count);
  };
  line("runs", tally.runs);
  line("runs that failed", tally.failures);
  line("steps that changed something", tally.steps);
  line("calls finished and checked", tally.calls);
  line("faults", tally.large_faults());
  text += fmt::format("{:<36} {:>16.0f}\n", "seconds of CPU time",
                      static_cast<double>(tally.cpu_ns) / 1e9);
  for (int i = 0; i < kFaults; ++i)
    line(fmt::format("fault: {}", kFaultNames[i]), tally.faults[static_cast<size_t>(i)]);
  for (int i = 0; i < kWays; ++i)
    line(fmt::format("way: {}", to_string(static_cast<Way>(i))),
         tally.ways[static_cast<size_t>(i)]);
  for (int status = 0; status < Tally::kStatuses; ++status)
    line(fmt::format("status: {}", kStatusNames[status]), tally.with_status(status));
  for (int i = 0; i < kOperations; ++i)
    line(fmt::format("operation: {}", to_string(static_cast<Operation>(i))),
         tally.of_kind(static_cast<Operation>(i)));
  return text;
}

}  // namespace ibcoll::lockstep
