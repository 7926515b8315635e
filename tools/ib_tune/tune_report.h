#pragma once
/// What ib_tune shows: a table that grows, JSON lines, a summary.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/json_lines.h"
#include "studies/measure/tuning.h"
#include "tools/frame/progress.h"

namespace ibcoll::tools {

/// What holds for a whole run.
struct TuneSetting {
  RulesJob job;
  int ranks = 0, servers = 0;
  bool judges = false;  ///< rules there are
  bool simulated = false;
  std::string note;  ///< for people, before the table
};

/// On the rank that shows.
class TuneReport {
 public:
  TuneReport(TuneSetting setting, JsonLines& json) : setting_(std::move(setting)), json_(json) {}

  void begin();
  void progress(const std::string& what) { line_.show(what + " ..."); }
  void point(const measure::TunePoint& point);
  /// How good the rules are, or how many were written and where to.
  void judged(const measure::Judgement& judgement);
  void written(size_t points, size_t rules, const std::string& path, int64_t took_ns);

 private:
  TuneSetting setting_;
  JsonLines& json_;
  ProgressLine line_;
};

}  // namespace ibcoll::tools
