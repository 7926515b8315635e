#include "verbs/port_history.h"

#include <fmt/format.h>

namespace ibcoll::verbs {

namespace {

double seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

}  // namespace

void PortHistory::went_down(int64_t now_ns) {
  if (down_) return;
  down_ = was_down_ = true;
  down_since_ns_ = now_ns;
}

void PortHistory::came_up(int64_t now_ns) {
  if (!down_) return;
  down_ = false;
  up_since_ns_ = now_ns;
}

std::string PortHistory::trouble(int64_t now_ns, int64_t span_ns) const {
  if (down_) return fmt::format("is down, for {:.1f} s", seconds(now_ns - down_since_ns_));
  if (!was_down_ || now_ns - up_since_ns_ > span_ns) return {};
  return fmt::format("was down for {:.1f} s until {:.1f} s ago",
                     seconds(up_since_ns_ - down_since_ns_), seconds(now_ns - up_since_ns_));
}

}  // namespace ibcoll::verbs
