#pragma once
/// Charts as SVG: lines, scattered points and grouped bars over linear or logarithmic axes.

#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll {

enum class Scale { kLinear, kLog2, kLog10 };

/// How ticks are labelled: as numbers, or as sizes in bytes (1K, 64K, 1M).
enum class TickLabels { kNumber, kSize };

struct Axis {
  std::string label = {};  ///< with its unit: "median time (us)"
  Scale scale = Scale::kLinear;
  TickLabels ticks = TickLabels::kNumber;
  /// Ends of the axis; by default they fit the data (a linear y axis begins at 0).
  std::optional<double> low = {}, high = {};
};

enum class Mark { kLine, kScatter, kBar };

/// One set of points under one name and colour. Points that are not finite, or not positive on a
/// logarithmic axis, are left out; a line is broken there. Lines that lie on each other share their
/// course in dashes of their colours, and their points are rings.
struct Series {
  std::string name = {};  ///< in the legend, unless empty
  std::vector<double> x = {}, y = {};
  std::vector<double> y_low = {}, y_high = {};  ///< error bars: both empty, or as long as y
  Mark mark = Mark::kLine;
  bool dashed = false;  ///< for bounds and models, next to what was measured
};

/// A chart. With `categories` the x axis names them in order, and the x of a point is the index of
/// its category; bars need categories (series of bars stand side by side, from the axis up).
struct Plot {
  std::string title = {};
  std::string subtitle = {};  ///< conditions of the measurement, one line
  Axis x = {}, y = {};
  std::vector<std::string> categories = {};
  std::vector<Series> series = {};
  double width = 760, height = 440;

  /// The picture. A plot without a point that can be drawn says so in its middle.
  std::string svg() const;
  /// Writes the picture to a file; fails with the path and the reason.
  Status write(const std::string& path) const;
};

}  // namespace ibcoll
