// Draws what verbs_incast.sh printed: incast_plot OUTPUT.svg < table.

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "studies/drawing/plot.h"

int main(int argc, char** argv) {
  using namespace ibcoll;
  if (argc != 2 || std::string(argv[1]).starts_with("-")) {
    fmt::print(stderr, "usage: incast_plot OUTPUT.svg < what verbs_incast.sh printed\n");
    return 2;
  }
  Plot plot;
  plot.title = "Gather into one narrow link, Soft-RoCE";
  plot.x.label = "senders";
  plot.y.label = "time of one gather (ms)";
  for (std::string line; std::getline(std::cin, line);) {
    if (line.starts_with("# ") && line.find("medians") != std::string::npos) {
      plot.subtitle = line.substr(2);
    }
    std::istringstream fields(line);
    double senders = 0, ms = 0;
    std::string algorithm;
    if (!(fields >> senders >> algorithm >> ms)) continue;
    auto series = std::find_if(plot.series.begin(), plot.series.end(),
                               [&](const Series& one) { return one.name == algorithm; });
    if (series == plot.series.end()) {
      plot.series.push_back({.name = algorithm});
      series = plot.series.end() - 1;
    }
    series->x.push_back(senders);
    series->y.push_back(ms);
  }
  if (plot.series.empty()) {
    fmt::print(stderr, "incast_plot: no line of the input is \"senders algorithm ms dropped\"\n");
    return 1;
  }
  const Status written = plot.write(argv[1]);
  if (written) return 0;
  fmt::print(stderr, "incast_plot: {}\n", written.error().message);
  return 1;
}
