#include "engine/multicast/logp.h"

#include <algorithm>
#include <cmath>

#include "engine/base/input.h"
#include "engine/base/json.h"
#include "engine/base/units.h"

namespace ibcoll {
namespace {

constexpr size_t kMostLogpBytes = size_t{1} << 20;

/// What the lines of one layer say.
struct LayerLines {
  std::vector<LayerCosts::Row> rows;
  double wake_us = 0, delay_us = 0;

  LayerCosts costs() && {
    return rows.empty() ? LayerCosts() : LayerCosts(std::move(rows), wake_us, delay_us);
  }
};

/// A time or a ratio: finite, not negative.
Result<double> number(const nlohmann::ordered_json& object, const char* key) {
  const auto field = object.find(key);
  if (field == object.end()) return fail(ErrorCode::kInvalidArgument, "'{}' is missing", key);
  const double value = field->is_number() ? field->get<double>() : -1;
  if (!std::isfinite(value) || value < 0)
    return fail(ErrorCode::kInvalidArgument, "'{}' must be a number, 0 or more", key);
  return value;
}

Result<double> microseconds(const nlohmann::ordered_json& object, const char* key) {
  IBCOLL_ASSIGN(const double ns, number(object, key));
  return ns / 1000;
}

Status read_line(std::string_view line, LayerLines& local, LayerLines& network, LogP& logp) {
  IBCOLL_ASSIGN(const nlohmann::ordered_json object, parse_json(line));
  if (!object.is_object()) return fail(ErrorCode::kInvalidArgument, "is not a JSON object");
  const auto layer = object.find("layer");
  if (layer == object.end() || (*layer != "shm" && *layer != "network"))
    return fail(ErrorCode::kInvalidArgument,
                "'layer' must be \"shm\" or \"network\", as `ib_logp --calls` writes it");
  LayerLines& lines = *layer == "shm" ? local : network;
  LayerCosts::Row row;
  IBCOLL_ASSIGN(const double bytes, number(object, "bytes"));
  constexpr double kMostBytes = 1e15;
  if (bytes < 1 || bytes > kMostBytes || bytes != std::floor(bytes))
    return fail(ErrorCode::kInvalidArgument, "'bytes' must be a whole number from 1 to 1e15");
  row.bytes = static_cast<int64_t>(bytes);
  for (const LayerCosts::Row& other : lines.rows)
    if (other.bytes == row.bytes)
      return fail(ErrorCode::kInvalidArgument, "{} bytes in layer {} stand there twice", row.bytes,
                  layer->get<std::string>());
  IBCOLL_ASSIGN(row.hop_us, microseconds(object, "hop_p99_ns"));
  IBCOLL_ASSIGN(row.gap_us, microseconds(object, "gap_p99_ns"));
  row.usual_hop_us = row.hop_us;
  row.usual_gap_us = row.gap_us;
  if (object.contains("hop_ns")) {
    IBCOLL_ASSIGN(row.usual_hop_us, microseconds(object, "hop_ns"));
  }
  if (object.contains("gap_ns")) {
    IBCOLL_ASSIGN(row.usual_gap_us, microseconds(object, "gap_ns"));
  }
  IBCOLL_ASSIGN(const double most, microseconds(object, "hop_max_ns"));
  IBCOLL_ASSIGN(const double wake, microseconds(object, "wake_p99_ns"));
  IBCOLL_ASSIGN(const double operation, microseconds(object, "operation_p99_ns"));
  IBCOLL_ASSIGN(const double ranks_per_core, number(object, "ranks_per_core"));
  lines.wake_us = std::max(lines.wake_us, wake);
  lines.delay_us = std::max(lines.delay_us, most - row.hop_us);
  lines.rows.push_back(row);
  logp.operation_us = std::max(logp.operation_us, operation);
  // What holds for all lines holds for the fewest.
  logp.ranks_per_core =
      logp.ranks_per_core == 0 ? ranks_per_core : std::min(logp.ranks_per_core, ranks_per_core);
  return {};
}

}  // namespace

LayerCosts::LayerCosts(std::vector<Row> rows, double wake_us, double delay_us)
    : rows_(std::move(rows)), wake_us_(wake_us), delay_us_(delay_us) {
  std::sort(rows_.begin(), rows_.end(),
            [](const Row& a, const Row& b) { return a.bytes < b.bytes; });
  for (size_t i = 1; i < rows_.size(); ++i) {
    for (double Row::*const cost :
         {&Row::hop_us, &Row::gap_us, &Row::usual_hop_us, &Row::usual_gap_us})
      rows_[i].*cost = std::max(rows_[i].*cost, rows_[i - 1].*cost);
  }
}

double LayerCosts::at(double bytes, double Row::*what) const {
  if (rows_.empty()) return 0;
  if (bytes <= static_cast<double>(rows_.front().bytes)) return rows_.front().*what;
  for (size_t i = 1; i < rows_.size(); ++i) {
    const Row &low = rows_[i - 1], &high = rows_[i];
    if (bytes > static_cast<double>(high.bytes)) continue;
    const double part =
        (bytes - static_cast<double>(low.bytes)) / static_cast<double>(high.bytes - low.bytes);
    return low.*what + part * (high.*what - low.*what);
  }
  return rows_.back().*what * (bytes / static_cast<double>(rows_.back().bytes));
}

Result<LogP> parse_logp(std::string_view text) {
  LogP logp;
  LayerLines local, network;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (line.empty()) continue;
    if (const Status read = read_line(line, local, network, logp); !read)
      return fail(ErrorCode::kInput, "line {}: {}", number, read.error().message);
  }
  if (local.rows.empty() && network.rows.empty())
    return fail(ErrorCode::kInput,
                "no costs of messages in it: `ib_logp --calls --json FILE` writes them");
  logp.local = std::move(local).costs();
  logp.network = std::move(network).costs();
  return logp;
}

Result<LogP> read_logp(const std::string& path) {
  IBCOLL_ASSIGN(const std::string text, read_input(path, kMostLogpBytes));
  return of_input(path, parse_logp(text));
}

}  // namespace ibcoll
