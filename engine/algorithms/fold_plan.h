#pragma once
/// How a rank combines what several ranks have of the same slots.

#include <functional>
#include <vector>

#include "engine/schedule/builder.h"

namespace ibcoll {

/// Where the data of `sources` ranks lands at one of them, `own`, which combines it by its
/// FoldPlan. Places are numbered: 0 is where the result is made, the others are scratch. Who sends
/// computes the place, in the time of a binary search.
class FoldPlaces {
 public:
  /// Sources that are all of one server.
  static FoldPlaces inside(int sources, int own, bool ordered) {
    return {sources, own, ordered, {}, true};
  }
  /// Sources of which no two are of one server.
  static FoldPlaces between(int sources, int own, bool ordered) {
    return {sources, own, ordered, {}, false};
  }
  /// All ranks, which must outlive it.
  static FoldPlaces of_all(const Shape& shape, Rank own, bool ordered) {
    return {shape.ranks(), own, ordered, shape.members(shape.server_of(own)), false};
  }

  /// How many places there are beside the result's.
  uint32_t scratch_places() const;
  /// Where the data of a source lands: `result`, or slots of scratch, where places begin at slot
  /// `scratch` and are as long as the result.
  Slice landing(int source, Slice result, uint32_t scratch) const {
    return slice(number(source), result, scratch);
  }
  /// The slots of a place.
  static Slice slice(uint32_t number, Slice result, uint32_t scratch) {
    if (number == 0) return result;
    return {Buffer::kScratch, scratch + (number - 1) * result.count, result.count};
  }

 private:
  FoldPlaces(int sources, int own, bool ordered, RankSpan near, bool all_near)
      : sources_(sources), own_(own), ordered_(ordered), near_(near), all_near_(all_near) {}
  uint32_t number(int source) const;
  /// How many of `count` sources from `first` on are of the server, the first following the last.
  int near(int first, int count) const;

  int sources_, own_;
  bool ordered_;
  RankSpan near_;  ///< of the same server, in rising order
  bool all_near_;
};

/// The order in which this rank takes the data of `sources` ranks, of which it is one. It lands in
/// FoldPlaces.
class FoldPlan {
 public:
  /// `ordered`: by the tree of rank_order.h over the sources, which are in the order of ranks; each
  /// lands in a place of its own. Else the data of the source before this one is taken first, and
  /// so on downwards, so that not all read one rank's data at a time; it is combined as it is read
  /// from its owner's memory, but for that of ranks of other servers (`apart`, by source).
  FoldPlan(const std::vector<bool>& apart, int own, bool ordered);

  /// How many places there are beside the result's.
  uint32_t scratch_places() const { return places_ - 1; }
  /// Writes what takes and combines the data; `own`: this rank's. `give`, if there is any, writes
  /// the put to one of the sources: each takes what another gives it without waiting for a third.
  void write(ProgramBuilder& program, RankSpan sources, Slice own, Slice result, uint32_t scratch,
             const std::function<void(int source)>& give = {}) const;

 private:
  struct Step {
    enum class Kind : uint8_t { kCopyOwn, kAddOwn, kExpect, kExpectCombined, kAddPlace } kind;
    uint32_t into;
    uint32_t from = 0;  ///< a source, or a place
    bool before = false;
  };
  void combine(int first, int end, uint32_t into);
  void take(int source, uint32_t into);
  void add(int source, uint32_t into, bool before);
  void write(const Step& step, ProgramBuilder& program, RankSpan sources, Slice own, Slice result,
             uint32_t scratch) const;

  const std::vector<bool> apart_;
  const int own_;
  const bool ordered_;
  uint32_t places_ = 1;
  std::vector<Step> steps_;
};

}  // namespace ibcoll
