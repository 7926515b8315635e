#pragma once
/// How a rank combines what several ranks have of the same slots.

#include <functional>
#include <span>
#include <vector>

#include "engine/schedule/builder.h"

namespace ibcoll {

/// The order in which this rank takes the data of `sources` ranks, of which it is one, and the
/// places where they land. Places are numbered: 0 is where the result is made, the others are
/// scratch. Who sends makes the same plan, to know the place.
class FoldPlan {
 public:
  /// `ordered`: by the tree of rank_order.h over the sources, which are in the order of ranks; each
  /// lands in a place of its own. Else the data of the source before this one is taken first, and
  /// so on downwards, so that not all read one rank's data at a time; it is combined as it is read
  /// from its owner's memory, but for that of ranks of other servers (`apart`, by source).
  FoldPlan(const std::vector<bool>& apart, int own, bool ordered);

  /// How many places there are beside the result's.
  uint32_t scratch_places() const { return places_ - 1; }
  /// Where the data of a source lands: `result`, or slots of scratch, where places begin at slot
  /// `scratch` and are as long as the result.
  Slice landing(int source, Slice result, uint32_t scratch) const {
    return place(landing_[source], result, scratch);
  }
  /// Writes what takes and combines the data; `own`: this rank's. `give`, if there is any, writes
  /// the put to one of the sources: each takes what another gives it without waiting for a third.
  void write(ProgramBuilder& program, std::span<const Rank> sources, Slice own, Slice result,
             uint32_t scratch, const std::function<void(int source)>& give = {}) const;

 private:
  struct Step {
    enum class Kind : uint8_t { kCopyOwn, kAddOwn, kExpect, kExpectCombined, kAddPlace } kind;
    uint32_t into;
    uint32_t from = 0;  ///< a source, or a place
    bool before = false;
  };
  static Slice place(uint32_t number, Slice result, uint32_t scratch) {
    if (number == 0) return result;
    return {Buffer::kScratch, scratch + (number - 1) * result.count, result.count};
  }
  void combine(int first, int end, uint32_t into);
  void take(int source, uint32_t into);
  void add(int source, uint32_t into, bool before);
  void write(const Step& step, ProgramBuilder& program, std::span<const Rank> sources, Slice own,
             Slice result, uint32_t scratch) const;

  const std::vector<bool> apart_;
  const int own_;
  const bool ordered_;
  uint32_t places_ = 1;
  std::vector<Step> steps_;
  std::vector<uint32_t> landing_;  ///< by source: the number of a place
};

}  // namespace ibcoll
