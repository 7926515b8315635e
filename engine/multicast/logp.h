#pragma once
/// What messages cost on a machine and network, as ib_logp has measured it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll {

/// What messages cost inside servers, or between them. All are costs that 99 of 100 messages keep,
/// but for the usual ones.
class LayerCosts {
 public:
  struct Row {
    int64_t bytes = 0;
    double hop_us =
        0;  ///< from the call that sends to the end of the one that receives: o + L + nG
    double gap_us = 0;                          ///< between messages behind each other: g + nG
    double usual_hop_us = 0, usual_gap_us = 0;  ///< medians
  };

  /// Nothing is known.
  LayerCosts() = default;
  /// `rows`: of sizes that differ, at least one. `wake_us`: what is added where the receiver
  /// sleeps. `delay_us`: by how much the slowest message that was measured was slower than 99 of
  /// 100 are.
  LayerCosts(std::vector<Row> rows, double wake_us, double delay_us);

  bool known() const { return !rows_.empty(); }
  /// Between sizes that were measured: in proportion; of longer messages: at the rate of the
  /// longest. Never less than what a shorter message costs.
  double hop_us(double bytes) const { return at(bytes, &Row::hop_us); }
  double gap_us(double bytes) const { return at(bytes, &Row::gap_us); }
  /// What half of the messages keep.
  double usual_hop_us(double bytes) const { return at(bytes, &Row::usual_hop_us); }
  double usual_gap_us(double bytes) const { return at(bytes, &Row::usual_gap_us); }
  double wake_us() const { return wake_us_; }
  double delay_us() const { return delay_us_; }

 private:
  double at(double bytes, double Row::*what) const;

  std::vector<Row> rows_;  ///< ascending in all they hold
  double wake_us_ = 0, delay_us_ = 0;
};

/// What messages cost on a machine and network, as `ib_logp --calls` measures it.
struct LogP {
  LayerCosts local, network;
  double operation_us = 0;    ///< to write one operation of a program
  double ranks_per_core = 0;  ///< that shared the cores, and were all busy, when it was measured
};

/// Reads what `ib_logp --calls --json` has written. Fails (kInput), with the path and the line,
/// where it is something else.
Result<LogP> read_logp(const std::string& path);
/// The same, of a file's text.
Result<LogP> parse_logp(std::string_view text);

}  // namespace ibcoll
