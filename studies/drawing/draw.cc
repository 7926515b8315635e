#include "studies/drawing/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "engine/schedule/describe.h"
#include "studies/drawing/svg.h"
#include "studies/drawing/timeline.h"

namespace ibcoll {

namespace {

constexpr double kLeft = 90, kTop = 64, kWidth = 1060, kRight = 24, kBottom = 48;
constexpr double kHeight = 760;  // of all rows, unless they would be too thin or thick
constexpr double kThinnest = 3, kThickest = 28;
constexpr double kServerGap = 4;
constexpr size_t kMostLines = 800, kMostTooltips = 3000;
constexpr int kColours = 8;
constexpr std::string_view kPlanUnit = "time in blocks put to another server, no contention";

/// Rows are so thick in a picture of `charts` of them.
double row_height(const Shape& shape, int charts) {
  return std::clamp(kHeight / charts / shape.ranks(), kThinnest, kThickest);
}

double rows_height(const Shape& shape, int charts) {
  return row_height(shape, charts) * shape.ranks() + kServerGap * (shape.servers() - 1);
}

/// A picture with room for `charts` of them, one below the other.
Svg picture(const Shape& shape, int charts) {
  return {kLeft + kWidth + kRight, charts * (kTop + rows_height(shape, charts) + kBottom)};
}

/// The chart number `number` of `charts`.
class Chart {
 public:
  Chart(Svg& svg, int number, int charts, const Shape& shape,
        std::span<const std::shared_ptr<const RankProgram>> programs,
        std::vector<Activity> activities)
      : shape_(shape),
        programs_(programs),
        activities_(std::move(activities)),
        row_(row_height(shape, charts)),
        height_(rows_height(shape, charts)),
        begin_(number * (kTop + height_ + kBottom)),
        svg_(svg) {
    top_.resize(shape.ranks());
    double y = begin_ + kTop;
    for (int server = 0; server < shape.servers(); ++server) {
      for (const Rank rank : shape.members(server)) top_[rank] = y, y += row_;
      y += kServerGap;
    }
    for (const Activity& activity : activities_) {
      end_ = std::max({end_, activity.end, activity.arrival});
      if (activity.lane != Lane::kLocal) ++puts_;
    }
    if (end_ == 0) end_ = 1;
  }

  /// `unit`: what is written at the axis.
  void draw(const std::string& title, std::string_view unit) {
    svg_.text(kLeft, begin_ + 24, title, {{"class", "fg"}, {"font-size", "15"}});
    draw_rows();
    draw_axis(unit);
    draw_legend();
    if (puts_ <= kMostLines) draw_landings();
    // In the order of rows and time, so that bars that touch can be joined.
    std::stable_sort(
        activities_.begin(), activities_.end(), [](const Activity& a, const Activity& b) {
          return std::tuple(a.rank, a.lane, a.begin) < std::tuple(b.rank, b.lane, b.begin);
        });
    draw_bars();
  }

 private:
  double x(double time) const { return kLeft + time / end_ * kWidth; }
  Op op_of(const Activity& activity) const {
    return programs_[activity.rank]->lane(activity.lane)[activity.op];
  }
  /// The server a put goes to; -1: inside.
  int target(const Activity& activity) const {
    return activity.lane != Lane::kLocal ? shape_.server_of(op_of(activity).peer) : -1;
  }
  static std::string number(double value) { return fmt::format("{:.6g}", value); }

  void draw_rows() {
    for (int server = 0; server < shape_.servers(); ++server) {
      const auto members = shape_.members(server);
      const double top = top_[members.front()];
      const double height = row_ * static_cast<double>(members.size());
      svg_.rect(kLeft, top, kWidth, height, {{"class", "grid"}, {"fill", "none"}});
      if (height >= 9) {
        svg_.text(6, top + height / 2 + 4, fmt::format("server {}", server),
                  {{"class", "dim"}, {"font-size", "11"}});
      }
      if (row_ < 9) continue;
      for (const Rank rank : members) {
        svg_.text(kLeft - 5, top_[rank] + row_ / 2 + 4, fmt::format("{}", rank),
                  {{"class", "fg"}, {"font-size", "11"}, {"text-anchor", "end"}});
      }
    }
  }

  void draw_axis(std::string_view unit) {
    const double y = begin_ + kTop + height_;
    double tick = std::pow(10, std::floor(std::log10(end_)));
    for (const double part : {0.2, 0.5}) {
      if (end_ / tick < 4 && end_ / (tick * part) <= 12) tick *= part;
    }
    for (double time = 0; time <= end_ * (1 + 1e-9); time += tick) {
      svg_.line(x(time), begin_ + kTop, x(time), y + 4, {{"class", "grid"}});
      svg_.text(x(time), y + 17, number(time),
                {{"class", "dim"}, {"font-size", "11"}, {"text-anchor", "middle"}});
    }
    svg_.text(kLeft + kWidth / 2, y + 36, unit,
              {{"class", "dim"}, {"font-size", "12"}, {"text-anchor", "middle"}});
  }

  void draw_legend() {
    double at = kLeft;
    const auto entry = [&](std::string_view colour, const std::string& text) {
      svg_.begin_group({{"class", colour}, {"opacity", colour == "mark" ? "0.5" : "1"}});
      svg_.rect(at, begin_ + 38, 12, 10, {{"fill", "currentColor"}});
      svg_.end_group();
      svg_.text(at + 17, begin_ + 47, text, {{"class", "fg"}, {"font-size", "11"}});
      at += 17 + text_width(text, 11) + 16;
    };
    const int servers = shape_.servers();
    for (int server = 0; puts_ > 0 && server < std::min(servers, kColours); ++server) {
      entry(series_class(server), servers <= kColours
                                      ? fmt::format("to server {}", server)
                                      : fmt::format("to {}, {}{}", server, server + kColours,
                                                    server + 2 * kColours < servers ? ", .." : ""));
    }
    entry("mark", "copies inside the server");
  }

  void draw_landings() {
    for (int colour = 0; colour < std::min(shape_.servers(), kColours); ++colour) {
      svg_.begin_group({{"class", series_class(colour)}, {"opacity", "0.45"}});
      for (const Activity& activity : activities_) {
        const int server = target(activity);
        if (server < 0 || server % kColours != colour) continue;
        svg_.line(x(activity.begin), top_[activity.rank] + row_ * 0.35, x(activity.arrival),
                  top_[op_of(activity).peer] + row_ * 0.5, {{"stroke", "currentColor"}});
      }
      svg_.end_group();
    }
  }

  void draw_bars() {
    const bool tooltips = activities_.size() <= kMostTooltips;
    for (size_t first = 0, end; first < activities_.size(); first = end) {
      const Activity& activity = activities_[first];
      const int server = target(activity);
      double until = activity.end;
      for (end = first + 1; !tooltips && end < activities_.size(); ++end) {
        const Activity& next = activities_[end];
        if (next.rank != activity.rank || next.lane != activity.lane || target(next) != server ||
            x(next.begin) - x(until) > 0.5) {
          break;
        }
        until = std::max(until, next.end);
      }
      const bool inside = server < 0;
      svg_.begin_group({{"class", inside ? "mark" : series_class(server % kColours)},
                        {"opacity", inside ? "0.5" : "1"}});
      if (tooltips) {
        svg_.tooltip(describe(*programs_[activity.rank], activity.lane, activity.op));
      }
      svg_.rect(x(activity.begin), top_[activity.rank] + row_ * (inside ? 0.72 : 0.1),
                std::max(0.5, x(until) - x(activity.begin) - (tooltips ? 0.6 : 0)),
                row_ * (inside ? 0.2 : 0.55), {{"fill", "currentColor"}});
      svg_.end_group();
    }
  }

  const Shape& shape_;
  std::span<const std::shared_ptr<const RankProgram>> programs_;
  std::vector<Activity> activities_;
  const double row_, height_, begin_;
  Svg& svg_;
  std::vector<double> top_;  // by rank
  double end_ = 0;
  size_t puts_ = 0;
};

}  // namespace

std::string draw(const Shape& shape, std::span<const std::shared_ptr<const RankProgram>> programs,
                 const std::string& title, uint32_t pieces) {
  Svg svg = picture(shape, 1);
  Chart(svg, 0, 1, shape, programs, timeline(shape, programs, pieces)).draw(title, kPlanUnit);
  return svg.str();
}

std::string draw_beside(const Shape& shape,
                        std::span<const std::shared_ptr<const RankProgram>> programs,
                        const std::string& title, uint32_t pieces, std::vector<Activity> recorded,
                        const std::string& recorded_title) {
  Svg svg = picture(shape, 2);
  Chart(svg, 0, 2, shape, programs, timeline(shape, programs, pieces)).draw(title, kPlanUnit);
  Chart(svg, 1, 2, shape, programs, std::move(recorded))
      .draw(recorded_title, "time in microseconds, from posted to seen by the receiver");
  return svg.str();
}

}  // namespace ibcoll
