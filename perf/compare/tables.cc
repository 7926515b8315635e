#include "perf/compare/tables.h"

#include <sched.h>

#include <cstdint>
#include <set>
#include <tuple>

#include "engine/base/json.h"
#include "engine/base/units.h"

namespace ibcoll::compare {
namespace {

Result<double> take_number(const nlohmann::ordered_json& line, const char* name) {
  const nlohmann::ordered_json value = line.value(name, nlohmann::ordered_json());
  if (!value.is_number()) return fail(ErrorCode::kInput, "'{}' is missing, or no number", name);
  return value.get<double>();
}

Result<double> take_positive(const nlohmann::ordered_json& line, const char* name) {
  IBCOLL_ASSIGN(const double value, take_number(line, name));
  if (!(value > 0)) return fail(ErrorCode::kInput, "'{}' is not above 0", name);
  return value;
}

Result<int64_t> take_integer(const nlohmann::ordered_json& line, const char* name, int64_t low,
                             int64_t high) {
  const nlohmann::ordered_json value = line.value(name, nlohmann::ordered_json());
  // What is above all numbers with a sign would wrap around.
  const bool fits =
      value.is_number_unsigned() ? value.get<uint64_t>() <= INT64_MAX : value.is_number_integer();
  if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high)
    return fail(ErrorCode::kInput, "'{}' is no whole number from {} to {}", name, low, high);
  return value.get<int64_t>();
}

/// What a page says of a machine, as far as it is there.
Status check_machine(const nlohmann::ordered_json& line) {
  if (line.contains("usable_cores")) IBCOLL_TRY(take_integer(line, "usable_cores", 1, CPU_SETSIZE));
  const nlohmann::ordered_json caches = line.value("caches", nlohmann::ordered_json::array());
  if (!caches.is_array()) return fail(ErrorCode::kInput, "'caches' is no array");
  for (const nlohmann::ordered_json& cache : caches) {
    if (!cache.is_object()) return fail(ErrorCode::kInput, "a cache is no object");
    IBCOLL_TRY(take_integer(cache, "bytes", 1, INT64_MAX));
  }
  return {};
}

Result<Interval> take_interval(const nlohmann::ordered_json& line) {
  Interval interval;
  IBCOLL_ASSIGN(interval.value, take_positive(line, "speedup"));
  IBCOLL_ASSIGN(interval.low, take_number(line, "speedup_low"));
  IBCOLL_ASSIGN(interval.high, take_number(line, "speedup_high"));
  return interval;
}

Result<contest_collective> take_collective(const nlohmann::ordered_json& line) {
  const nlohmann::ordered_json name = line.value("collective", nlohmann::ordered_json());
  for (int i = 0; i < CONTEST_COLLECTIVES; ++i)
    if (name == contest_name(i)) return static_cast<contest_collective>(i);
  return fail(ErrorCode::kInput, "'collective' names none");
}

/// Whether a cell's calls followed a barrier; files of before there was a choice do not say.
Result<bool> take_after_barrier(const nlohmann::ordered_json& line) {
  const nlohmann::ordered_json value = line.value("after_barrier", nlohmann::ordered_json(false));
  if (!value.is_boolean()) return fail(ErrorCode::kInput, "'after_barrier' is not true or false");
  return value.get<bool>();
}

/// A cell's line; nothing where there was no MPI to compare.
Result<std::optional<Cell>> parse_cell(const nlohmann::ordered_json& line) {
  if (!line.contains("speedup")) return std::nullopt;
  Cell cell;
  IBCOLL_ASSIGN(cell.collective, take_collective(line));
  IBCOLL_ASSIGN(const int64_t ranks, take_integer(line, "ranks", 1, CONTEST_MAX_RANKS));
  cell.ranks = static_cast<int>(ranks);
  IBCOLL_ASSIGN(cell.bytes, take_integer(line, "bytes_per_pair", 0, INT32_MAX));
  const nlohmann::ordered_json memory = line.value("memory", nlohmann::ordered_json());
  cell.private_memory = memory == memory_member(true);
  if (!cell.private_memory && memory != memory_member(false))
    return fail(ErrorCode::kInput, "'memory' is neither user nor engine");
  IBCOLL_ASSIGN(cell.ours_us, take_positive(line, "ibcoll_us"));
  IBCOLL_ASSIGN(cell.faster, take_interval(line));
  cell.of_rounds = cell.faster.value;
  if (line.contains("speedup_of_rounds")) {
    IBCOLL_ASSIGN(cell.of_rounds, take_positive(line, "speedup_of_rounds"));
  }
  if (const auto again = line.find("again"); again != line.end()) {
    if (!again->is_object()) return fail(ErrorCode::kInput, "'again' is no object");
    IBCOLL_ASSIGN(cell.again, take_interval(*again));
  }
  if (line.contains("copy_fraction")) {
    IBCOLL_ASSIGN(cell.copying, take_number(line, "copy_fraction"));
  }
  return cell;
}

}  // namespace

int Tables::cores() const {
  const auto& count = machine.value("usable_cores", nlohmann::ordered_json());
  return count.is_number_integer() ? count.get<int>() : 0;
}

const State* Tables::state(std::string_view when) const {
  for (const State& one : states)
    if (one.when == when) return &one;
  return nullptr;
}

const char* memory_member(bool private_memory) { return private_memory ? "user" : "engine"; }

const char* memory_text(bool private_memory) {
  return private_memory ? "private memory" : "the engine's memory";
}

std::string name_of(const Cell& cell) {
  return fmt::format("{}, {} ranks, {}, {}", contest_name(cell.collective), cell.ranks,
                     format_size(cell.bytes), memory_text(cell.private_memory));
}

Result<Tables> parse_tables(std::string_view text) {
  Tables tables;
  std::string costs;  // where they are in the text, for the number of a line that is wrong
  bool has_costs = false;
  std::set<std::tuple<contest_collective, int, int64_t, bool>> there;
  int number = 0;
  const auto take = [&](std::string_view row) -> Status {
    IBCOLL_ASSIGN(const nlohmann::ordered_json line, parse_json(row));
    if (!line.is_object()) return fail(ErrorCode::kInput, "it is no object");
    const nlohmann::ordered_json kind = line.value("kind", nlohmann::ordered_json());
    if (kind == "machine") {
      if (!tables.machine.empty())
        return fail(ErrorCode::kInput, "a second machine: is this more than one comparison?");
      IBCOLL_TRY(check_machine(line));
      tables.machine = line;
    } else if (kind == "pair_costs" || kind == "machine_costs") {
      costs += row;
      has_costs = true;
    } else if (kind == "machine_state") {
      IBCOLL_ASSIGN(State state, parse_state(line));
      if (tables.state(state.when) != nullptr)
        return fail(ErrorCode::kInput, "a second state '{}'", state.when);
      tables.states.push_back(std::move(state));
    } else if (kind.is_null() && line.contains("collective")) {
      if (line.contains("summary")) return {};
      IBCOLL_ASSIGN(std::optional<Cell> cell, parse_cell(line));
      if (!cell) return {};
      if (!there.emplace(cell->collective, cell->ranks, cell->bytes, cell->private_memory).second)
        return fail(ErrorCode::kInput, "a second cell of {}", name_of(*cell));
      IBCOLL_ASSIGN(const bool after_barrier, take_after_barrier(line));
      if (!tables.cells.empty() && after_barrier != tables.after_barrier)
        return fail(ErrorCode::kInput, "only some calls followed a barrier");
      tables.after_barrier = after_barrier;
      tables.cells.push_back(std::move(*cell));
    } else if (kind == "verdict") {
      tables.judged = true;
      if (line.contains("most_load")) {
        IBCOLL_ASSIGN(tables.most_load, take_percent(line, "most_load"));
      }
    } else {
      return fail(ErrorCode::kInput, "it is no line of compare_mpi --json");
    }
    return {};
  };
  for (const std::string_view row : split(text, '\n')) {
    ++number;
    const bool blank = row.find_first_not_of(" \t\r") == std::string_view::npos;
    if (const Status taken = blank ? Status() : take(row); !taken)
      return fail(ErrorCode::kInput, "line {}: {}", number, taken.error().message);
    costs += '\n';
  }
  if (has_costs) {
    IBCOLL_ASSIGN(tables.costs, parse_costs(costs));
  }
  if (tables.cells.empty()) return fail(ErrorCode::kInput, "it has no cell of a table");
  return tables;
}

}  // namespace ibcoll::compare
