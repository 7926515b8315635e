#include "studies/task_graph/gantt.h"

#include <algorithm>
#include <array>

#include "studies/drawing/plot_axis.h"
#include "studies/drawing/svg.h"

namespace ibcoll::task_graph {

namespace {

using Kind = Instruction::Kind;

constexpr double kLeft = 60, kTop = 44, kRow = 22, kBar = 16, kWidth = 1000;
constexpr size_t kMostLabels = 400, kMostLines = 300;
constexpr std::array kKinds = {Kind::kRun, Kind::kSend, Kind::kReceive};
constexpr std::array<const char*, 3> kNames = {"run", "send", "receive"};

struct Bar {
  Time begin, end;
  Kind kind;
  int32_t id;  ///< -1 for several
};

/// Instructions of one kind in a row that leave no visible gap are one bar.
std::vector<Bar> bars(const TaskGraph& graph, const TaskSchedule& schedule, size_t processor,
                      Time visible) {
  std::vector<Bar> result;
  for (const Instruction& instruction : schedule.processors[processor]) {
    const Time end = instruction.start + schedule.duration(graph, instruction);
    if (!result.empty()) {
      Bar& last = result.back();
      const bool tiny = end - instruction.start < visible || last.end - last.begin < visible;
      if (tiny && instruction.start - last.end < visible &&
          (last.kind == instruction.kind || end - last.begin < visible)) {
        if (end - instruction.start > last.end - last.begin) last.kind = instruction.kind;
        last.end = end;
        last.id = -1;
        continue;
      }
    }
    result.push_back({instruction.start, end, instruction.kind, instruction.id});
  }
  return result;
}

}  // namespace

std::string gantt_svg(const TaskGraph& graph, const TaskSchedule& schedule,
                      const std::string& title) {
  const Time end = std::max<Time>(makespan(graph, schedule), 1);
  const double scale = kWidth / static_cast<double>(end);
  const auto x = [&](Time at) { return kLeft + static_cast<double>(at) * scale; };
  const auto y = [&](size_t row) { return kTop + static_cast<double>(row) * kRow; };
  const size_t rows = schedule.processors.size();
  Svg svg(kLeft + kWidth + 40, y(rows) + 40);
  svg.text(kLeft, 18, title, {{"class", "fg"}, {"font-size", "14"}});
  const auto coloured = [&](Kind kind, const auto& draw) {
    svg.begin_group({{"class", series_class(static_cast<size_t>(kind))}, {"fill", "currentColor"}});
    draw();
    svg.end_group();
  };
  for (Kind kind : kKinds) {
    const double at = kLeft + 80 * static_cast<double>(kind);
    coloured(kind, [&] { svg.rect(at, 26, 10, 10); });
    svg.text(at + 14, 35, kNames[static_cast<size_t>(kind)],
             {{"class", "fg"}, {"font-size", "11"}});
  }
  const Time visible = end / static_cast<Time>(kWidth);
  size_t instructions = 0;
  for (const auto& list : schedule.processors) instructions += list.size();
  for (size_t p = 0; p < rows; ++p) {
    svg.text(kLeft - 6, y(p) + 12, fmt::format("P{}", p),
             {{"class", "fg"}, {"font-size", "11"}, {"text-anchor", "end"}});
    const std::vector<Bar> row = bars(graph, schedule, p, visible);
    for (Kind kind : kKinds) {
      coloured(kind, [&] {
        for (const Bar& bar : row) {
          if (bar.kind == kind)
            svg.rect(x(bar.begin), y(p),
                     std::max(static_cast<double>(bar.end - bar.begin) * scale, 0.3), kBar);
        }
      });
    }
    for (const Bar& bar : row) {
      const double width = static_cast<double>(bar.end - bar.begin) * scale;
      const std::string label = std::to_string(bar.id);
      if (instructions <= kMostLabels && bar.kind == Kind::kRun && bar.id >= 0 &&
          text_width(label, 10) + 4 < width)
        svg.text(x(bar.begin) + 2, y(p) + 12, label, {{"fill", "white"}, {"font-size", "10"}});
    }
  }
  if (schedule.messages.size() <= kMostLines) {
    std::vector<Time> sent(schedule.messages.size(), 0), received = sent;
    for (const auto& list : schedule.processors) {
      for (const Instruction& instruction : list) {
        if (instruction.kind == Kind::kSend)
          sent[instruction.id] = instruction.start + schedule.logp.send_overhead;
        if (instruction.kind == Kind::kReceive) received[instruction.id] = instruction.start;
      }
    }
    for (size_t id = 0; id < sent.size(); ++id) {
      const PackedMessage& message = schedule.messages[id];
      svg.line(x(sent[id]), y(message.from) + kBar / 2, x(received[id]), y(message.to) + kBar / 2,
               {{"class", "axis"}, {"stroke-width", "0.6"}});
    }
  }
  const auto last = static_cast<double>(end);
  const ScaledAxis axis({.low = 0, .high = last}, 0, last, 8);
  for (const Tick& tick : axis.ticks()) {
    const double at = kLeft + kWidth * axis.fraction(tick.value);
    svg.line(at, y(rows) - 2, at, y(rows) + 2, {{"class", "axis"}});
    svg.text(at, y(rows) + 14, tick.label,
             {{"class", "dim"}, {"font-size", "11"}, {"text-anchor", "middle"}});
  }
  svg.text(kLeft + kWidth / 2, y(rows) + 30, "time, in the unit of the weights",
           {{"class", "dim"}, {"font-size", "11"}, {"text-anchor", "middle"}});
  return svg.str();
}

}  // namespace ibcoll::task_graph
