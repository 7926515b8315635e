#pragma once
/// Numbers as people write them. Sizes are binary (1K = 1024), rates decimal (MB/s = 10^6 bytes a
/// second).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll {

/// A size in bytes: "0", "64", "4K", "1M", "2G", "1.5M", optionally with "B" or "iB" behind.
/// Refuses signs, other text and anything over 2^62.
Result<int64_t> parse_size(std::string_view text);

/// Sizes in ascending or given order: a list "1K,64K,1M", where each part may be a range "1K-1M"
/// (each size twice the one before) or "1K-1M:4" (four times).
Result<std::vector<int64_t>> parse_sizes(std::string_view text);

/// A whole number in [low, high]; `what` names it in the error.
Result<int64_t> parse_integer(std::string_view text, int64_t low, int64_t high,
                              std::string_view what);

/// A duration in nanoseconds: "200ns", "1.5us", "10ms", "2s", "3min"; a bare number is in seconds.
Result<int64_t> parse_duration(std::string_view text);

/// A rate in bytes a second: "2000MB/s", "10Gbit/s", "1GB/s".
Result<double> parse_rate(std::string_view text);

/// The text at each separator; an empty text gives no parts.
std::vector<std::string_view> split(std::string_view text, char separator);

/// "4K", "1M", "1.5M"; "1000" where no unit fits without loss. parse_size reads it back.
std::string format_size(int64_t bytes);

/// A duration with a unit that suits it, three significant digits: "350 ns", "4.20 us", "1.31 s".
std::string format_duration(int64_t nanoseconds);

}  // namespace ibcoll
