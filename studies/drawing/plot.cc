#include "studies/drawing/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "engine/base/json_lines.h"
#include "studies/drawing/plot_axis.h"
#include "studies/drawing/svg.h"

namespace ibcoll {
namespace {

constexpr double kFont = 12, kTitleFont = 15, kMargin = 14;
constexpr std::string_view kDashed = "5 4";

/// Smallest and largest value that can be drawn.
struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value, Scale scale) {
    if (!std::isfinite(value) || (scale != Scale::kLinear && value <= 0)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

double value_at(const std::vector<double>& values, size_t index) {
  return index < values.size() ? values[index] : std::numeric_limits<double>::quiet_NaN();
}

Extent y_extent(const Plot& plot) {
  Extent extent;
  bool bars = false;
  for (const Series& series : plot.series) {
    bars = bars || series.mark == Mark::kBar;
    for (const auto* values : {&series.y, &series.y_low, &series.y_high}) {
      for (const double value : *values) extent.include(value, plot.y.scale);
    }
  }
  if (extent.empty()) return extent;
  if (plot.y.scale == Scale::kLinear) {
    extent.include(0, plot.y.scale);
  } else if (bars) {
    extent.low /= 2;  // the shortest bar shows, too
  }
  return extent;
}

Extent x_extent(const Plot& plot) {
  Extent extent;
  if (!plot.categories.empty()) return {-0.5, static_cast<double>(plot.categories.size()) - 0.5};
  for (const Series& series : plot.series) {
    for (const double value : series.x) extent.include(value, plot.x.scale);
  }
  return extent;
}

/// Draws one plot: lays out its parts and maps values to places.
class Drawing {
 public:
  Drawing(const Plot& plot, Extent x, Extent y)
      : plot_(plot),
        svg_(plot.width, plot.height),
        top_(header()),
        bottom_(plot.height - kMargin - (plot.x.label.empty() ? 0 : 20) - 18),
        y_axis_(plot.y, y.low, y.high, static_cast<int>((bottom_ - top_) / 40)),
        left_(kMargin + (plot.y.label.empty() ? 0 : 20) + label_width() + 6),
        right_(plot.width - kMargin - 8),
        x_axis_(x_axis_of(plot), x.low, x.high, static_cast<int>((right_ - left_) / 60)) {}

  std::string draw() {
    grid();
    for (const Series& series : plot_.series) places_.push_back(places(series));
    for (size_t index = 0; index < plot_.series.size(); ++index) {
      const Series& series = plot_.series[index];
      svg_.begin_group({{"class", series_class(index)}});
      if (!series.name.empty()) svg_.tooltip(series.name);
      if (series.mark == Mark::kBar) {
        bars(series);
      } else {
        points(series, index);
      }
      svg_.end_group();
    }
    return svg_.str();
  }

 private:
  static Axis x_axis_of(const Plot& plot) {
    if (plot.categories.empty()) return plot.x;
    const double last = static_cast<double>(plot.categories.size()) - 0.5;
    return {.label = plot.x.label, .low = -0.5, .high = last};
  }

  double px(double x) const { return left_ + x_axis_.fraction(x) * (right_ - left_); }
  double py(double y) const { return bottom_ - y_axis_.fraction(y) * (bottom_ - top_); }

  double label_width() const {
    double widest = 0;
    for (const Tick& tick : y_axis_.ticks()) {
      widest = std::max(widest, text_width(tick.label, kFont));
    }
    return widest;
  }

  /// Title, subtitle and legend; returns where the plot area begins.
  double header() {
    double y = kMargin;
    if (!plot_.title.empty()) {
      y += kTitleFont;
      svg_.text(kMargin, y, plot_.title,
                {{"class", "fg"}, {"font-size", "15"}, {"font-weight", "600"}});
      y += 5;
    }
    if (!plot_.subtitle.empty()) {
      y += kFont;
      svg_.text(kMargin, y, plot_.subtitle, {{"class", "dim"}});
      y += 5;
    }
    return legend(y) + 16;
  }

  double legend(double y) {
    double x = kMargin;
    bool begun = false;
    for (size_t index = 0; index < plot_.series.size(); ++index) {
      const Series& series = plot_.series[index];
      if (series.name.empty()) continue;
      const double width = 26 + text_width(series.name, kFont) + 16;
      if (!begun || (x + width > plot_.width - kMargin && x > kMargin)) {
        x = kMargin;
        y += 18;
        begun = true;
      }
      svg_.begin_group({{"class", series_class(index)}});
      sample(series, x, y - 4);
      svg_.end_group();
      svg_.text(x + 26, y, series.name, {{"class", "fg"}});
      x += width;
    }
    return y;
  }

  void sample(const Series& series, double x, double y) {
    if (series.mark == Mark::kBar) {
      svg_.rect(x + 5, y - 5, 12, 10, {{"fill", "currentColor"}});
      return;
    }
    const std::string_view dashes = series.dashed ? kDashed : "none";
    if (series.mark == Mark::kLine) stroke(std::vector<Svg::Point>{{x, y}, {x + 20, y}}, dashes);
    if (!series.dashed) svg_.circle(x + 10, y, 3, {{"fill", "currentColor"}});
  }

  void stroke(std::span<const Svg::Point> line, std::string_view dashes) {
    svg_.polyline(line, {{"fill", "none"},
                         {"stroke", "currentColor"},
                         {"stroke-width", "1.8"},
                         {"stroke-linejoin", "round"},
                         {"stroke-dasharray", dashes}});
  }

  void grid() {
    for (const Tick& tick : y_axis_.ticks()) {
      const double y = py(tick.value);
      svg_.line(left_, y, right_, y,
                {{"class", "grid"}, {"opacity", tick.label.empty() ? "0.5" : "1"}});
      svg_.text(left_ - 6, y + 4, tick.label, {{"class", "dim"}, {"text-anchor", "end"}});
    }
    if (plot_.categories.empty()) {
      x_ticks();
    } else {
      category_names();
    }
    svg_.line(left_, bottom_, right_, bottom_, {{"class", "axis"}});
    svg_.text((left_ + right_) / 2, plot_.height - kMargin, plot_.x.label,
              {{"class", "fg"}, {"text-anchor", "middle"}});
    const std::string turn = fmt::format("rotate(-90 {0} {1})", kMargin + 6, (top_ + bottom_) / 2);
    svg_.text(kMargin + 6, (top_ + bottom_) / 2, plot_.y.label,
              {{"class", "fg"}, {"text-anchor", "middle"}, {"transform", turn}});
  }

  void x_ticks() {
    for (const Tick& tick : x_axis_.ticks()) {
      const double x = px(tick.value);
      if (tick.label.empty()) continue;
      svg_.line(x, top_, x, bottom_ + 4, {{"class", "grid"}});
      svg_.text(x, bottom_ + 17, tick.label, {{"class", "dim"}, {"text-anchor", "middle"}});
    }
  }

  /// Names the categories, leaving out what has no room.
  void category_names() {
    const double room = (right_ - left_) / static_cast<double>(plot_.categories.size());
    double widest = 1;
    for (const std::string& name : plot_.categories) {
      widest = std::max(widest, text_width(name, kFont) + 6);
    }
    const auto stride = static_cast<size_t>(std::ceil(widest / room));
    for (size_t index = 0; index < plot_.categories.size(); index += stride) {
      svg_.text(px(static_cast<double>(index)), bottom_ + 17, plot_.categories[index],
                {{"class", "dim"}, {"text-anchor", "middle"}});
    }
  }

  /// Clipped to the plot area, for ends that the caller fixed.
  double clamped_py(double y) const { return std::clamp(py(y), top_, bottom_); }

  void error_bar(const Series& series, size_t index, double x) {
    const double low = value_at(series.y_low, index), high = value_at(series.y_high, index);
    if (!y_axis_.drawable(low) || !y_axis_.drawable(high)) return;
    const double from = clamped_py(low), to = clamped_py(high);
    const Svg::Attributes style = {
        {"stroke", "currentColor"}, {"stroke-width", "1.2"}, {"opacity", "0.75"}};
    svg_.line(x, from, x, to, style);
    svg_.line(x - 3, from, x + 3, from, style);
    svg_.line(x - 3, to, x + 3, to, style);
  }

  bool shown(double x, double y) const {
    return x_axis_.drawable(x) && y_axis_.drawable(y) && !outside(x, y);
  }

  /// Many points of a line say nothing singly.
  static bool has_marks(const Series& series) {
    return series.mark == Mark::kScatter || (!series.dashed && series.x.size() <= 60);
  }

  /// Where a line's points lie: heights in the picture, by x.
  using Places = std::map<double, double>;
  Places places(const Series& series) const {
    Places found;
    if (series.mark != Mark::kLine) return found;
    for (size_t index = 0; index < std::min(series.x.size(), series.y.size()); ++index) {
      const double x = series.x[index], y = series.y[index];
      if (shown(x, y)) found.emplace(x, py(y));
    }
    return found;
  }
  bool passes(size_t line, double x, double y) const {
    constexpr double kHidden = 2;  // about a line's width
    const auto at = places_[line].find(x);
    return at != places_[line].end() && std::abs(at->second - py(y)) < kHidden;
  }

  /// How many earlier lines the line `self` would hide between two of its points.
  size_t lines_below(size_t self, size_t from, size_t to) const {
    const Series& series = plot_.series[self];
    size_t below = 0;
    for (size_t other = 0; other < self; ++other) {
      below += passes(other, series.x[from], series.y[from]) &&
               passes(other, series.x[to], series.y[to]);
    }
    return below;
  }

  /// A line is solid, but where it lies on others it has gaps that they show through; further ones
  /// on top have shorter dashes, which begin at the same place.
  static std::string dashes(const Series& series, size_t below) {
    constexpr double kPeriod = 16;
    if (series.dashed) return std::string(kDashed);
    if (below == 0) return "none";
    const double dash = kPeriod / std::exp2(std::min<size_t>(below, 3));
    return fmt::format("{:g} {:g}", dash, kPeriod - dash);
  }

  /// Marks with others on top of them are larger: all are seen, as rings.
  double mark_radius(size_t self, size_t point) const {
    const Series& series = plot_.series[self];
    double radius = 3;
    if (series.mark != Mark::kLine) return radius;
    for (size_t other = self + 1; other < plot_.series.size(); ++other) {
      if (has_marks(plot_.series[other]) && passes(other, series.x[point], series.y[point]))
        radius += 1.6;
    }
    return radius;
  }

  void points(const Series& series, size_t self) {
    std::vector<Svg::Point> line;
    size_t below = 0;  // of the line so far
    const auto end_line = [&] {
      if (line.size() > 1) stroke(line, dashes(series, below));
      line.clear();
    };
    const size_t count = std::min(series.x.size(), series.y.size());
    for (size_t index = 0; index < count; ++index) {
      const double x = series.x[index], y = series.y[index];
      if (!shown(x, y)) {
        end_line();
        continue;
      }
      const Svg::Point place{px(x), py(y)};
      if (series.mark == Mark::kLine) {
        const size_t under = line.empty() ? 0 : lines_below(self, index - 1, index);
        if (line.size() > 1 && under != below) {
          const Svg::Point corner = line.back();
          end_line();
          line.push_back(corner);
        }
        below = under;
        line.push_back(place);
      }
      error_bar(series, index, place.x);
      if (has_marks(series)) {
        svg_.circle(place.x, place.y, mark_radius(self, index), {{"fill", "currentColor"}});
      }
    }
    end_line();
  }

  bool outside(double x, double y) const {
    constexpr double kSlack = 1e-9;
    const double fx = x_axis_.fraction(x), fy = y_axis_.fraction(y);
    return fx < -kSlack || fx > 1 + kSlack || fy < -kSlack || fy > 1 + kSlack;
  }

  void bars(const Series& series) {
    const auto is_bar = [](const Series& other) { return other.mark == Mark::kBar; };
    const auto groups = std::count_if(plot_.series.begin(), plot_.series.end(), is_bar);
    const auto position =
        std::count_if(plot_.series.data(), &series, is_bar);  // among the bar series
    const double slot = (right_ - left_) / std::max<double>(1, plot_.categories.size());
    const double width = 0.8 * slot / static_cast<double>(groups);
    const double zero = plot_.y.scale == Scale::kLinear ? clamped_py(0) : bottom_;
    for (size_t index = 0; index < series.y.size(); ++index) {
      const double x = index < series.x.size() ? series.x[index] : static_cast<double>(index);
      if (!x_axis_.drawable(x) || !y_axis_.drawable(series.y[index])) continue;
      const double left = px(x) - 0.4 * slot + width * static_cast<double>(position);
      const double end = clamped_py(series.y[index]);
      svg_.rect(left + 0.5, std::min(end, zero), std::max(width - 1, 0.5), std::abs(zero - end),
                {{"fill", "currentColor"}, {"opacity", "0.9"}});
      svg_.begin_group({{"class", "mark"}});
      error_bar(series, index, left + width / 2);
      svg_.end_group();
    }
  }

  const Plot& plot_;
  Svg svg_;
  double top_, bottom_;
  ScaledAxis y_axis_;
  double left_, right_;
  ScaledAxis x_axis_;
  std::vector<Places> places_;  ///< of each series
};

}  // namespace

std::string Plot::svg() const {
  const Extent x_range = x_extent(*this), y_range = y_extent(*this);
  if (x_range.empty() || y_range.empty()) {
    Svg empty(width, height);
    empty.text(kMargin, kMargin + kTitleFont, title, {{"class", "fg"}, {"font-size", "15"}});
    empty.text(width / 2, height / 2, "no data", {{"class", "dim"}, {"text-anchor", "middle"}});
    return empty.str();
  }
  return Drawing(*this, x_range, y_range).draw();
}

Status Plot::write(const std::string& path) const { return write_file(path, svg()); }

}  // namespace ibcoll
