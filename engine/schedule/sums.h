#pragma once
/// Where the partial results of a planned reduction come together.

#include <cstddef>
#include <cstdint>

#include "engine/schedule/collective_traits.h"

namespace ibcoll {

/// The sums of a plan's transfers, numbered: of each message one at each server it passes. A
/// transfer is anything with servers `from` and `to` and a message from `origin` to `target`, of
/// which -1 says all servers; it carries a partial result where that is its origin. All transfers
/// that feed a sum come before what awaits it, each piece before that piece.
class Sums {
 public:
  enum class Targets : uint8_t {
    kNone,        ///< nothing is combined
    kOne,         ///< there is one message
    kEach,        ///< each server has a message of its own
    kEachForAll,  ///< the same, and the results go to all: messages of that origin for all
  };
  static constexpr size_t kNone = ~size_t{0};

  /// Of the plans of a collective.
  static constexpr Targets targets_of(Collective collective) {
    const CollectiveTraits& row = traits(collective);
    if (row.combines != Combines::kOfAll) return Targets::kNone;
    return row.send.target == End::kRoot   ? Targets::kOne
           : row.send.target == End::kSlot ? Targets::kEach
                                           : Targets::kEachForAll;
  }

  Sums(Collective collective, int servers)
      : targets_(targets_of(collective)), servers_(static_cast<size_t>(servers)) {}

  size_t count() const {
    if (targets_ == Targets::kNone) return 0;
    return targets_ == Targets::kOne ? servers_ : servers_ * servers_;
  }
  size_t at(int target, int server) const {
    const auto place = static_cast<size_t>(server);
    return targets_ == Targets::kOne ? place : static_cast<size_t>(target) * servers_ + place;
  }
  /// The sum that must be complete before a transfer, kNone if there is none.
  template <class Transfer>
  size_t awaited_by(const Transfer& t) const {
    if (targets_ == Targets::kNone) return kNone;
    if (t.origin == kAll) return at(t.target, t.from);
    return targets_ == Targets::kEachForAll && t.from == t.origin ? at(t.from, t.from) : kNone;
  }
  /// The sum that a transfer is a part of, kNone if there is none.
  template <class Transfer>
  size_t fed_by(const Transfer& t) const {
    return targets_ != Targets::kNone && t.origin == kAll ? at(t.target, t.to) : kNone;
  }

 private:
  static constexpr int kAll = -1;
  Targets targets_;
  size_t servers_;
};

}  // namespace ibcoll
