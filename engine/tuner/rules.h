#pragma once
/// Rules: choices that were measured for one job's shape, transport and machine, as a file has them
/// (docs/tuning.md).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/base/result.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

/// What rules were measured on, or what a job runs on. Empty and 0: not said, which fits all.
struct RulesJob {
  std::string layout;     ///< Shape::describe() of the job
  std::string transport;  ///< between servers; "shm" on a single one
  int machines = 0;
  std::string processor;
  int processors = 0;  ///< hardware threads of a machine
  std::string engine;  ///< version: "0.9"

  /// What is said here and differs there, in words; empty: these rules fit that job.
  std::string differences(const RulesJob& job) const;
};

/// What a call is to use.
struct Rule {
  Collective collective = Collective::kBarrier;
  std::string layout;                ///< of the group; empty: all ranks of the job
  int64_t from = 0, to = INT64_MAX;  ///< bytes of a block, both included
  const Algorithm* algorithm = nullptr;
  std::optional<Pacing> pacing;  ///< none: as the engine chooses
  uint32_t window = 1;           ///< AlgorithmOptions::window
  uint32_t pieces = 0;           ///< 0: as the engine chooses for the algorithm

  /// "two_level_ring/free, window 2, 16 pieces".
  std::string describe() const;
};

/// Rules for one job. A file has one or more such sections.
struct RuleSection {
  RulesJob job;
  std::vector<Rule> rules;
};

/// The shape that a layout means, "4x2" or "3,1,2 cyclic".
Result<Shape> shape_of_layout(std::string_view layout);

/// The sections of a file's text, at least one. Fails, naming the line, where it is damaged, names
/// what there is not, or two rules are for one call.
Result<std::vector<RuleSection>> parse_rules(std::string_view text);
/// The same of a file; the error begins with its path.
Result<std::vector<RuleSection>> read_rules(const std::string& path);
/// A section as parse_rules reads it. `notes`: for each rule, a JSON object of what else its line
/// is to tell people ("default_us": 3.1), or nothing.
std::string to_text(const RuleSection& section, const std::vector<std::string>& notes = {});

/// The rules of one job, for quick look-up.
class Rules {
 public:
  /// None.
  Rules() = default;
  /// `job`: the shape of the section's job.
  static Result<Rules> create(const RuleSection& section, const Shape& job);

  size_t size() const { return places_.size(); }
  /// The rule for a call of a group of that shape; null where there is none. `block_bytes`: -1
  /// where blocks may differ in size. Allocates nothing.
  const Rule* find(Collective collective, const Shape& shape, int64_t block_bytes) const;

 private:
  struct Place {
    uint64_t shape;  ///< its hash
    Collective collective;
    int64_t from;
    Rule rule;
  };
  std::vector<Place> places_;  ///< ascending
};

/// Whether rules of a collective are for sizes: not where blocks may differ and ranks don't know
/// all of them, or there are none. Of allgatherv and
/// reduce_scatter it is the mean that counts.
bool has_sizes(Collective collective);

}  // namespace ibcoll
