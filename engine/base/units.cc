#include "engine/base/units.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace ibcoll {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

/// Reads "<number><unit>", where the unit is one of the list (an empty name allows none).
template <size_t N>
Result<double> parse_with_unit(std::string_view text, const Unit (&units)[N], std::string_view what,
                               std::string_view example) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || text.empty() || text.front() == '-' || !std::isfinite(value)) {
    return fail(ErrorCode::kInvalidArgument, "'{}' is not a {} (like {})", text, what, example);
  }
  const std::string_view suffix(end, text.data() + text.size() - end);
  for (const Unit& unit : units) {
    if (suffix == unit.name) return value * unit.factor;
  }
  return fail(ErrorCode::kInvalidArgument, "'{}' is not a {}: unknown unit '{}' (like {})", text,
              what, suffix, example);
}

constexpr double kKi = 1024, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;

}  // namespace

Result<int64_t> parse_size(std::string_view text) {
  static constexpr Unit kUnits[] = {{"", 1},      {"B", 1},    {"K", kKi},  {"KB", kKi},
                                    {"KiB", kKi}, {"k", kKi},  {"M", kMi},  {"MB", kMi},
                                    {"MiB", kMi}, {"G", kGi},  {"GB", kGi}, {"GiB", kGi},
                                    {"T", kTi},   {"TB", kTi}, {"TiB", kTi}};
  IBCOLL_ASSIGN(const double bytes, parse_with_unit(text, kUnits, "size", "64, 4K or 1M"));
  if (bytes > 0x1p62)
    return fail(ErrorCode::kInvalidArgument, "size '{}' is over the limit of 2^62 bytes", text);
  if (bytes != std::floor(bytes)) {
    return fail(ErrorCode::kInvalidArgument, "size '{}' is not a whole number of bytes", text);
  }
  return static_cast<int64_t>(bytes);
}

Result<std::vector<int64_t>> parse_sizes(std::string_view text) {
  std::vector<int64_t> sizes;
  for (const std::string_view part : split(text, ',')) {
    const size_t dash = part.find('-', 1);
    if (dash == std::string_view::npos) {
      IBCOLL_ASSIGN(const int64_t size, parse_size(part));
      sizes.push_back(size);
      continue;
    }
    const size_t colon = part.find(':', dash);
    if (dash + 1 == std::min(colon, part.size()))
      return fail(ErrorCode::kInvalidArgument, "size range '{}' has no end (like 1K-1M)", part);
    IBCOLL_ASSIGN(const int64_t low, parse_size(part.substr(0, dash)));
    IBCOLL_ASSIGN(
        const int64_t high,
        parse_size(part.substr(dash + 1, colon == std::string_view::npos ? std::string_view::npos
                                                                         : colon - dash - 1)));
    int64_t factor = 2;
    if (colon != std::string_view::npos) {
      IBCOLL_ASSIGN(factor,
                    parse_integer(part.substr(colon + 1), 2, 1 << 20, "factor of a size range"));
    }
    if (low > high)
      return fail(ErrorCode::kInvalidArgument, "size range '{}' runs backwards", part);
    int64_t size = low;
    while (size <= high) {
      sizes.push_back(size);
      if (size > high / factor) break;
      size = size == 0 ? 1 : size * factor;
    }
  }
  if (sizes.empty()) return fail(ErrorCode::kInvalidArgument, "'{}' names no size", text);
  return sizes;
}

Result<int64_t> parse_integer(std::string_view text, int64_t low, int64_t high,
                              std::string_view what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
    return fail(ErrorCode::kInvalidArgument, "'{}' is not a whole number ({})", text, what);
  }
  if (error != std::errc() || value < low || value > high) {
    return fail(ErrorCode::kInvalidArgument, "{} must be {} to {}, not {}", what, low, high, text);
  }
  return value;
}

Result<int64_t> parse_duration(std::string_view text) {
  static constexpr Unit kUnits[] = {{"ns", 1},  {"us", 1e3},   {"ms", 1e6},
                                    {"s", 1e9}, {"min", 60e9}, {"", 1e9}};
  IBCOLL_ASSIGN(const double ns, parse_with_unit(text, kUnits, "duration", "200ns, 1.5us or 10s"));
  if (ns > 0x1p62) return fail(ErrorCode::kInvalidArgument, "duration '{}' is too long", text);
  return static_cast<int64_t>(std::llround(ns));
}

Result<double> parse_rate(std::string_view text) {
  static constexpr Unit kUnits[] = {{"B/s", 1},          {"kB/s", 1e3},       {"KB/s", 1e3},
                                    {"MB/s", 1e6},       {"GB/s", 1e9},       {"bit/s", 1.0 / 8},
                                    {"kbit/s", 1e3 / 8}, {"Mbit/s", 1e6 / 8}, {"Gbit/s", 1e9 / 8},
                                    {"Tbit/s", 1e12 / 8}};
  return parse_with_unit(text, kUnits, "rate", "2000MB/s or 10Gbit/s");
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  size_t begin = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    if (at == text.size() || text[at] == separator) {
      parts.push_back(text.substr(begin, at - begin));
      begin = at + 1;
    }
  }
  return parts;
}

std::string format_size(int64_t bytes) {
  static constexpr std::pair<int64_t, char> kUnits[] = {
      {int64_t{1} << 40, 'T'}, {1 << 30, 'G'}, {1 << 20, 'M'}, {1 << 10, 'K'}};
  for (const auto& [unit, name] : kUnits) {
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, name);
    if (bytes >= unit && bytes % (unit / 2) == 0) return fmt::format("{}.5{}", bytes / unit, name);
  }
  return fmt::format("{}", bytes);
}

std::string format_duration(int64_t nanoseconds) {
  const double ns = static_cast<double>(nanoseconds);
  if (ns < 1e3) return fmt::format("{} ns", nanoseconds);
  if (ns < 1e6) return fmt::format("{:.3g} us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.3g} ms", ns / 1e6);
  return fmt::format("{:.3g} s", ns / 1e9);
}

}  // namespace ibcoll
