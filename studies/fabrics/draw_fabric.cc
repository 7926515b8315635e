#include "studies/fabrics/draw_fabric.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "studies/drawing/svg.h"
#include "studies/fabrics/analysis.h"

namespace ibcoll::topology {
namespace {

constexpr double kWidth = 960, kMargin = 40, kHead = 64, kLevelHeight = 130;

/// Cables between two nodes, taken together.
struct Bundle {
  int cables = 0;
  double bandwidth = 0;  ///< bytes a second and direction, all cables
  double load = 0;       ///< the busiest direction's routes over bandwidth, highest
  int64_t routes = 0;    ///< of that direction
};

class Picture {
 public:
  explicit Picture(const Fabric& fabric)
      : fabric_(fabric), hosts_shown_(fabric.hosts() <= kMostHostsDrawn) {
    collect();
    place();
  }

  std::string draw() {
    Svg svg(kWidth, height_);
    svg.text(kMargin, 28, fabric_.name(),
             {{"class", "fg"}, {"font-size", "16"}, {"font-weight", "600"}});
    svg.text(
        kMargin, 48,
        fmt::format("{} hosts, {} switches, {} cables; red carries most of a uniform all-to-all, "
                    "for its bandwidth",
                    fabric_.hosts(), fabric_.switches(), fabric_.links() / 2),
        {{"class", "dim"}, {"font-size", "12"}});
    for (const auto& [ends, bundle] : bundles_) line(svg, ends.first, ends.second, bundle);
    const int first = hosts_shown_ ? 0 : fabric_.hosts();
    for (int node = first; node < fabric_.nodes(); ++node) mark(svg, node);
    for (int node = first; node < fabric_.nodes(); ++node) name(svg, node);
    return svg.str();
  }

 private:
  void collect() {
    const std::vector<int64_t> routes = routes_over_links(fabric_);
    for (int l = 0; l < fabric_.links(); ++l) {
      const Link& link = fabric_.link(l);
      if (!hosts_shown_ && (fabric_.is_host(link.from) || fabric_.is_host(link.to))) continue;
      const auto ends = std::minmax(link.from, link.to);
      Bundle& bundle = bundles_[ends];
      const double load = static_cast<double>(routes[l]) / link.bandwidth;
      if (load > bundle.load) {
        bundle.load = load;
        bundle.routes = routes[l];
      }
      bundle.cables += l % 2 == 0;
      bundle.bandwidth += l % 2 == 0 ? link.bandwidth : 0;
      most_load_ = std::max(most_load_, load);
      most_bandwidth_ = std::max(most_bandwidth_, bundle.bandwidth);
    }
  }

  /// Levels of switches: hops from the nearest host. Switches joined on their own level make the
  /// picture a circle.
  void place() {
    std::vector<int> level(fabric_.nodes(), -1), queue;
    for (int host = 0; host < fabric_.hosts(); ++host) {
      level[host] = 0;
      queue.push_back(host);
    }
    for (size_t head = 0; head < queue.size(); ++head) {
      for (int port = 1; port <= fabric_.ports(queue[head]); ++port) {
        const int link = fabric_.link_at(queue[head], port);
        if (link < 0 || level[fabric_.link(link).to] >= 0) continue;
        level[fabric_.link(link).to] = level[queue[head]] + 1;
        queue.push_back(fabric_.link(link).to);
      }
    }
    for (int& one : level) {
      if (one < 0) one = 1;  // a switch that no cable joins to the others
    }
    bool layered = true;
    for (const auto& [ends, bundle] : bundles_) {
      layered = layered && level[ends.first] != level[ends.second];
    }
    points_.resize(fabric_.nodes());
    layered ? place_levels(level) : place_circle();
  }

  void place_levels(const std::vector<int>& level) {
    const int top = *std::max_element(level.begin(), level.end());
    height_ = kHead + kMargin + kLevelHeight * top + 30;
    for (int l = 0; l <= top; ++l) {
      const auto count = std::count(level.begin(), level.end(), l);
      double at = 0.5;
      for (int node = 0; node < fabric_.nodes(); ++node) {
        if (level[node] != l) continue;
        points_[node] = {kMargin + (kWidth - 2 * kMargin) * at / static_cast<double>(count),
                         height_ - 40 - kLevelHeight * l};
        at += 1;
      }
    }
  }

  void place_circle() {
    height_ = kHead + kWidth;
    const double radius = kWidth / 2 - kMargin - (hosts_shown_ ? 60 : 20);
    const auto on_circle = [&](double turn, double r) {
      const double angle = (turn - 0.25) * 2 * std::numbers::pi;
      return Svg::Point{kWidth / 2 + r * std::cos(angle), kHead + kWidth / 2 + r * std::sin(angle)};
    };
    std::vector<double> next(fabric_.nodes(), 0);
    for (int s = 0; s < fabric_.switches(); ++s) {
      points_[fabric_.hosts() + s] = on_circle(static_cast<double>(s) / fabric_.switches(), radius);
    }
    std::vector<int> below(fabric_.nodes(), 0);
    for (int host = 0; host < fabric_.hosts(); ++host) {
      ++below[fabric_.switch_of(host)];
    }
    for (int host = 0; host < fabric_.hosts(); ++host) {
      const int edge = fabric_.switch_of(host);
      const double turn =
          edge - fabric_.hosts() + 0.8 * ((next[edge] += 1) / (below[edge] + 1) - 0.5);
      points_[host] = on_circle(turn / fabric_.switches(), radius + 50);
    }
  }

  void line(Svg& svg, int a, int b, const Bundle& bundle) const {
    const double load = most_load_ > 0 ? bundle.load / most_load_ : 0;
    const std::string colour =
        fmt::format("hsl({:.0f},{:.0f}%,{:.0f}%)", 210 * (1 - load) * (load < 1), 35 + 50 * load,
                    60 - 10 * load);
    const double width = 0.6 + 2.4 * bundle.bandwidth / most_bandwidth_;
    svg.begin_group();
    svg.tooltip(fmt::format("{} to {}: {} x {:g} MB/s, {} routes on the busiest",
                            fabric_.node(a).name, fabric_.node(b).name, bundle.cables,
                            bundle.bandwidth / bundle.cables / 1e6, bundle.routes));
    svg.line(points_[a].x, points_[a].y, points_[b].x, points_[b].y,
             {{"stroke", colour}, {"stroke-width", fmt::format("{:.2f}", width)}});
    svg.end_group();
  }

  void mark(Svg& svg, int node) const {
    const auto [x, y] = points_[node];
    const bool host = fabric_.is_host(node);
    svg.begin_group({{"class", host ? "dim" : series_class(0)}});
    svg.tooltip(fabric_.node(node).name);
    if (host) {
      svg.rect(x - 3, y - 3, 6, 6, {{"fill", "currentColor"}, {"class", "mark"}});
    } else {
      svg.circle(x, y, fabric_.switches() > 100 ? 3 : 6, {{"fill", "currentColor"}});
    }
    svg.end_group();
  }

  /// Names come last, above cables and marks.
  void name(Svg& svg, int node) const {
    const auto [x, y] = points_[node];
    const bool host = fabric_.is_host(node);
    const bool room = host ? fabric_.hosts() <= 32 : fabric_.switches() <= 40;
    if (!room) return;
    svg.text(x, host ? y + 18 : y - 10, fabric_.node(node).name,
             {{"class", "dim halo"}, {"font-size", "10"}, {"text-anchor", "middle"}});
  }

  const Fabric& fabric_;
  const bool hosts_shown_;
  std::map<std::pair<int, int>, Bundle> bundles_;
  double most_load_ = 0, most_bandwidth_ = 1, height_ = 0;
  std::vector<Svg::Point> points_;
};

}  // namespace

std::string draw_fabric(const Fabric& fabric) { return Picture(fabric).draw(); }

}  // namespace ibcoll::topology
