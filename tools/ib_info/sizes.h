#pragma once
/// Sizes as ib_info shows them to people.

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace ibcoll {

/// To a tenth: "4.7 GiB", "14.4 MiB", "48.9 KiB", "768 B".
inline std::string size_text(uint64_t bytes) {
  constexpr double kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;
  const auto value = static_cast<double>(bytes);
  if (value >= kGiB) return fmt::format("{:.1f} GiB", value / kGiB);
  if (value >= kMiB) return fmt::format("{:.1f} MiB", value / kMiB);
  if (value >= kKiB) return fmt::format("{:.1f} KiB", value / kKiB);
  return fmt::format("{} B", bytes);
}

}  // namespace ibcoll
