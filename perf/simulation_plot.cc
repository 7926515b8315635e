// Draws what docs/examples/simulation.cc writes: simulation_plot OUTPUT.svg < steps.jsonl. Above
// which ranks got the event of each step, below how long it took until all had it.

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "engine/base/json.h"
#include "engine/base/stats.h"
#include "studies/drawing/plot_axis.h"
#include "studies/drawing/svg.h"

namespace {

using namespace ibcoll;

struct Step {
  int number = 0, ranks = 0;
  double us = 0;
  std::vector<int> members;
};

constexpr double kLeft = 64, kTop = 56, kWidth = 680, kRow = 18, kGap = 40, kBars = 150,
                 kRight = 16;

Result<std::vector<Step>> read_steps(std::istream& in) {
  std::vector<Step> steps;
  for (std::string line; std::getline(in, line);) {
    IBCOLL_ASSIGN(const nlohmann::ordered_json row, parse_json(line));
    if (!row.contains("step") || !row.contains("ranks") || !row.contains("us") ||
        !row.contains("members"))
      return fail(ErrorCode::kInput, "no step of the simulation: {}", line);
    steps.push_back({row["step"], row["ranks"], row["us"], row["members"]});
  }
  if (steps.empty()) return fail(ErrorCode::kInput, "the input has no steps");
  return steps;
}

Svg draw(const std::vector<Step>& steps) {
  const int ranks = steps.front().ranks;
  const double raster = kRow * (ranks - 1), bars = kTop + raster + kGap, bottom = bars + kBars;
  Svg svg(kLeft + kWidth + kRight, bottom + 48);
  svg.text(kLeft, 22,
           fmt::format("A multicast to another set of {} workers in every time step", ranks - 1),
           {{"class", "fg"}, {"font-size", "15"}, {"font-weight", "600"}});
  std::vector<double> times;
  for (const Step& step : steps) times.push_back(step.us);
  svg.text(kLeft, 42,
           fmt::format("filled: the rank gets the event; below until all have it, median {:.1f} us",
                       median(times)),
           {{"class", "dim"}});
  const double width = kWidth / static_cast<double>(steps.size());
  const auto x_of = [&](size_t i) { return kLeft + width * static_cast<double>(i); };
  for (int rank = 1; rank < ranks; ++rank) {
    const double y = kTop + kRow * (rank - 1);
    svg.line(kLeft, y + kRow, kLeft + kWidth, y + kRow, {{"class", "grid"}});
    svg.text(kLeft - 8, y + kRow - 5, fmt::format("rank {}", rank),
             {{"class", "dim"}, {"text-anchor", "end"}});
  }
  const ScaledAxis axis({.label = {}, .scale = Scale::kLinear}, 0, maximum(times), 5);
  for (const Tick& tick : axis.ticks()) {
    const double y = bottom - kBars * axis.fraction(tick.value);
    svg.line(kLeft, y, kLeft + kWidth, y, {{"class", "grid"}});
    svg.text(kLeft - 8, y + 4, tick.label, {{"class", "dim"}, {"text-anchor", "end"}});
  }
  svg.begin_group({{"class", "s0"}});
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const int rank : steps[i].members)
      svg.rect(x_of(i) + 0.5, kTop + kRow * (rank - 1) + 2, width - 1, kRow - 3,
               {{"fill", "currentColor"}});
  }
  svg.end_group();
  svg.begin_group({{"class", "s1"}});
  for (size_t i = 0; i < steps.size(); ++i) {
    const double height = kBars * axis.fraction(steps[i].us);
    svg.rect(x_of(i) + 0.5, bottom - height, width - 1, height, {{"fill", "currentColor"}});
  }
  svg.end_group();
  svg.text(kLeft, bars - 10, "latency (us)", {{"class", "fg"}});
  svg.line(kLeft, bottom, kLeft + kWidth, bottom, {{"class", "axis"}});
  for (size_t i = 0; i < steps.size(); i += 10)
    svg.text(x_of(i) + width / 2, bottom + 16, std::to_string(steps[i].number),
             {{"class", "dim"}, {"text-anchor", "middle"}});
  svg.text(kLeft + kWidth / 2, bottom + 36, "time step",
           {{"class", "fg"}, {"text-anchor", "middle"}});
  return svg;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || std::string(argv[1]).starts_with("-")) {
    fmt::print(stderr,
               "usage: simulation_plot OUTPUT.svg < what docs/examples/simulation.cc wrote\n");
    return 2;
  }
  const auto steps = read_steps(std::cin);
  const Status written = steps ? draw(*steps).write(argv[1]) : tl::unexpected<Error>(steps.error());
  if (written) return 0;
  fmt::print(stderr, "simulation_plot: {}\n", written.error().message);
  return 1;
}
