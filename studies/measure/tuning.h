#pragma once
/// Measures which choice serves each call of a job best, and writes rules of it: what ib_tune does,
/// without its command line.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/context.h"
#include "engine/tuner/rules.h"
#include "studies/measure/race.h"
#include "studies/measure/traffic.h"

namespace ibcoll::measure {

struct TuneSettings {
  std::vector<Collective> collectives;
  std::vector<int64_t> sizes;  ///< bytes a pair, ascending
  int rounds = 50;             ///< of those that are not dropped before, at most
  int64_t batch_ns = 500'000;  ///< what a contender runs for in a round, about; at least one call
  int64_t budget_ns = 0;       ///< for all of it; every point gets a few rounds all the same
  /// Rules whose choices are judged: they are contenders to the end.
  std::optional<Rules> judged;
};

/// What was found for one collective and size.
struct TunePoint {
  Collective collective = Collective::kBarrier;
  int64_t bytes = 0;
  int64_t rule_bytes = 0;        ///< that rules go by: Traffic::mean_bytes()
  std::vector<Rule> contenders;  ///< the engine's own choice first
  std::vector<double> score;     ///< of each: its time in parts of that of the first one
  size_t choice = 0;             ///< of contenders: the first one, unless another is surely better
  size_t fastest = 0;            ///< of those that ran to the end
  size_t judged = 0;             ///< what the rules choose
  double own_us = 0, choice_us = 0, fastest_us = 0, judged_us = 0;
  size_t rounds = 0;
  /// What the judged rules' choice takes in parts of what the fastest takes, in the median, and
  /// what it takes at least in three of four rounds.
  double regret = 1, sure_regret = 1;
};

/// What the engine chooses for such calls where it knows no network.
Rule own_choice_of(const Traffic& traffic, const Shape& shape);
/// The contenders of such a call, of which `own` is what the engine runs by itself. `judged`: null,
/// or rules whose choice is one of them; `which`: that one.
std::vector<Rule> contenders_of(const Traffic& traffic, const Shape& shape, const Rule& own,
                                const Rules* judged, size_t* which);
/// What a race that is over says of its contenders; times are in ns.
TunePoint conclude(const Traffic& traffic, std::vector<Rule> contenders, size_t judged,
                   const Race& race);

/// The sizes that are measured for a collective: none but 0 where it has no data, and whole
/// elements of a reduction.
std::vector<int64_t> sizes_of(Collective collective, const std::vector<int64_t>& sizes);

/// Collective over all ranks of the context, whose rules are gone afterwards. The races take turns,
/// a few rounds at a time. Rank 0 gives each point to `on_point` as its race is over, and one line
/// of what it is doing to `on_progress`. All ranks get all points.
Result<std::vector<TunePoint>> measure_choices(
    Bootstrap& bootstrap, Context& context, const TuneSettings& settings,
    const std::function<void(const TunePoint&)>& on_point,
    const std::function<void(const std::string&)>& on_progress);

/// Rules of what was found, and a note for people on each (to_text). Sizes that follow each other
/// and have the same choice are one rule, which reaches half way, on a scale of powers, to its
/// neighbours; the first one begins at 0, the last one ends at the last size. Where the engine's
/// own choice does as well there is no rule. Where blocks may differ in size one rule is for all
/// sizes: what is best in the geometric mean over them.
RuleSection rules_of(const std::vector<TunePoint>& points, const RulesJob& job,
                     std::vector<std::string>& notes);

/// How good judged rules are.
struct Judgement {
  size_t points = 0;
  size_t within = 0;  ///< within kNear of the fastest, or of what rounds differ
  double worst = 1;   ///< the greatest regret
  std::string worst_at;
  static constexpr double kNear = 1.05;
};
Judgement judge(const std::vector<TunePoint>& points);
/// Whether a point counts as within.
bool is_near(const TunePoint& point);

}  // namespace ibcoll::measure
