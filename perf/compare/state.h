#pragma once
/// How busy a machine is with something else: load, and processor time that others get.

#include <sched.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace ibcoll::compare {

/// Processor time in seconds: since the start of the machine on some of its processors, and what
/// this process and all that it has started, by itself or through others, have had of it.
struct ProcessorTimes {
  double all = 0, busy = 0, stolen = 0;
  double own = 0;
};
/// What a text like /proc/stat says of these processors.
Result<ProcessorTimes> parse_processor_times(std::string_view text, const cpu_set_t& processors,
                                             double ticks_a_second);
/// Of the processors that this process may use.
Result<ProcessorTimes> processor_times();

/// The same of one part of the time that a state is about.
struct Part {
  std::string of;  ///< what was measured then
  double others = 0, steal = 0;
};

/// The state of a machine over some time, in hundredths of the processor time that there was.
struct State {
  std::string when;                 ///< "before", "during" or "after" the comparison
  std::array<double, 3> load = {};  ///< load average of 1, 5 and 15 minutes at the end
  std::optional<double> others;     ///< had by processes that are not the comparison's
  std::optional<double> steal;      ///< that the host gave to others; both: nothing if unknown
  std::optional<Part> worst = {};   ///< the part where either was most, if there are parts
};
State state_between(const std::string& when, const Result<ProcessorTimes>& begin,
                    const Result<ProcessorTimes>& end);
/// Finds the worst part of a comparison: over all of it, what disturbed a few cells is next to
/// nothing.
class Parts {
 public:
  explicit Parts(const Result<ProcessorTimes>& begin) : begin_(begin) {}
  /// What was measured since the part before it has ended. It goes on where there was so little
  /// processor time that shares of it say nothing.
  void end(const std::string& of, const Result<ProcessorTimes>& now);
  const std::optional<Part>& worst() const { return worst_; }

 private:
  Result<ProcessorTimes> begin_;
  std::optional<Part> worst_;
};

/// That of the next second, which it waits for.
State state_now(const std::string& when);

/// One JSON object of kind "machine_state", and what such an object says.
nlohmann::ordered_json state_line(const State& state);
Result<State> parse_state(const nlohmann::ordered_json& line);
/// A member that is a number from 0 to 100.
Result<double> take_percent(const nlohmann::ordered_json& line, const char* name);
/// For people, on one line.
std::string part_text(const Part& part);
std::string state_text(const State& state);

/// Why figures that were measured in this state say nothing about who is faster, if so: others, or
/// the host, had more than `most` hundredths, or did in a part of it, or that is not known.
std::optional<std::string> why_not_to_judge(const State& state, double most);

}  // namespace ibcoll::compare
