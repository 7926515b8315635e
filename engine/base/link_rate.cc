#include "engine/base/link_rate.h"

#include <charconv>
#include <iterator>

namespace ibcoll {
namespace {

/// Speeds in the order of their codes' bits.
struct Speed {
  std::string_view name;
  double lane;  ///< bytes a second
};
constexpr Speed kSpeeds[] = {{"SDR", 0.25e9},
                             {"DDR", 0.5e9},
                             {"QDR", 1e9},
                             {"FDR10", 1.25e9},
                             {"FDR", 14.0625e9 / 8 * 64 / 66},
                             {"EDR", 3.125e9},
                             {"HDR", 6.25e9},
                             {"NDR", 12.5e9},
                             {"XDR", 25e9}};

/// Lanes in the order of their codes' bits.
constexpr int kWidths[] = {1, 4, 8, 12, 2};

}  // namespace

double link_rate(std::string_view name) {
  const char* const end = name.data() + name.size();
  int lanes = 0;
  const auto [x, error] = std::from_chars(name.data(), end, lanes);
  if (error != std::errc() || x == end || *x != 'x') return 0;
  const std::string_view speed_name(x + 1, static_cast<size_t>(end - x - 1));
  for (const int width : kWidths) {
    if (width != lanes) continue;
    for (const Speed& speed : kSpeeds) {
      if (speed.name == speed_name) return lanes * speed.lane;
    }
  }
  return 0;
}

double link_rate(uint32_t width_code, uint32_t speed_code) {
  for (size_t width = 0; width < std::size(kWidths); ++width) {
    if (width_code != 1u << width) continue;
    for (size_t speed = 0; speed < std::size(kSpeeds); ++speed) {
      if (speed_code == 1u << speed) return kWidths[width] * kSpeeds[speed].lane;
    }
  }
  return 0;
}

}  // namespace ibcoll
