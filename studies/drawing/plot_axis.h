#pragma once
/// Where ticks of a chart's axis stand and how they are labelled.

#include <string>
#include <vector>

#include "studies/drawing/plot.h"

namespace ibcoll {

struct Tick {
  double value;
  std::string label;  ///< empty for a minor tick: a line of the grid only
};

/// An axis with its ends fixed: maps values to the fraction 0 to 1 of its length.
class ScaledAxis {
 public:
  /// Fits the axis to values from `low` to `high` (widened to whole ticks where the axis leaves an
  /// end open) with at most about `max_ticks` labels. On a logarithmic axis both must be positive.
  ScaledAxis(const Axis& axis, double low, double high, int max_ticks);

  double low() const { return low_; }
  double high() const { return high_; }
  double fraction(double value) const;
  /// Whether the value has a place on the axis's scale at all.
  bool drawable(double value) const;
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void fit_linear(const Axis& axis, int max_ticks);
  void fit_log(const Axis& axis, int max_ticks, double base);

  Scale scale_;
  double low_, high_;
  std::vector<Tick> ticks_;
};

/// A number as a tick shows it: "0.5", "250", "20 000", "1e7"; as a size "64K".
std::string tick_label(double value, TickLabels labels);

}  // namespace ibcoll
