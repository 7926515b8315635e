#pragma once
/// Which algorithm serves a call best. Whatever has a say in that is a source, in one list
/// (choose.cc), and nowhere else.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/base/result.h"
#include "engine/schedule/program.h"
#include "engine/tuner/rules.h"
#include "engine/tuner/table.h"

namespace ibcoll {

/// In the order in which they count.
enum class ChoiceSource : uint8_t {
  kNamed,  ///< the call names the algorithm
  kRule,   ///< of a file (rules.h)
  kTable,  ///< the engine's own (table.h)
};

struct Choice {
  std::string_view algorithm;
  AlgorithmOptions options;  ///< pacing and window; the rest is the caller's to set
  uint32_t pieces = 1;
  ChoiceSource source = ChoiceSource::kTable;
  /// What is taken instead on a network that is known, where its plan pays by that rule
  /// (plan_pays()); empty: nothing.
  std::string_view planned = {};
  PlanRule plan_rule = PlanRule::kBeatsWalk;
};

/// What a call names itself.
struct NamedChoice {
  std::string_view algorithm = {};  ///< empty: left open
  std::optional<Pacing> pacing = {};
  uint32_t pieces = 0;  ///< 0: left open
};

/// What the sources know of a call beside its facts.
struct ChoiceSources {
  NamedChoice named = {};
  const Rules* rules = nullptr;
  int64_t rule_bytes = -1;        ///< that count for rules: CallFacts::block_bytes, or the mean
  std::optional<Rank> root = {};  ///< where it is said, rules' algorithms must have programs for it
};

/// Plans for one call on a network that is known.
class CallTransfers {
 public:
  virtual ~CallTransfers() = default;
  /// The plan; null where the call needs none (PlanStore::find()).
  virtual Result<std::shared_ptr<const TransferPlan>> plan() = 0;
  /// What a walk over the servers takes with the call's blocks, if every step lasts as long as its
  /// busiest link needs (planner/server_order.h).
  virtual double walk_ns() = 0;
};

/// A pure function of what all ranks of a group know alike, where no network is known. Whether
/// there is an algorithm of the name that a call gives is for the caller to check. Allocates
/// nothing.
Choice choose(const CallFacts& facts, const ChoiceSources& sources);
/// The same where one may be (null: it is not). An algorithm that carries out a plan gets the one
/// that there is (AlgorithmOptions::plan), and Choice::planned takes the place of what was chosen
/// where that pays. Fails where no plan can be made.
Result<Choice> choose(const CallFacts& facts, const ChoiceSources& sources,
                      CallTransfers* transfers);
/// By the table alone.
Choice choose(const CallFacts& facts);

/// What CallFacts::block_bytes is for blocks of so many bytes, in the mean where they may differ.
inline int64_t size_to_choose_by(Collective collective, int64_t bytes) {
  return lies_side_by_side(collective) ? bytes : -1;
}

/// How many pieces suit an algorithm, whoever has chosen it. `plan`: the one it carries out.
uint32_t choose_pieces(const Algorithm& algorithm, const CallFacts& facts,
                       const TransferPlan* plan = nullptr);
/// How many pieces blocks of this size are passed on in; 1 where blocks may differ in size (-1).
/// `plan`: where pieces must be small enough for tokens to be sent ahead.
uint32_t relayed_pieces(int64_t block_bytes, const TransferPlan* plan = nullptr);

/// Whether what Choice::planned names is to be taken instead of what was chosen. `walk_ns`: see
/// CallTransfers; only where the rule asks for it.
bool plan_pays(const TransferPlan& plan, PlanRule rule, double walk_ns);

/// Whether waiting for tokens costs more than it saves at this block size: they are left out when a
/// step is shorter than about ten token latencies.
Pacing choose_pacing(const Shape& shape, int64_t block_bytes);

}  // namespace ibcoll
