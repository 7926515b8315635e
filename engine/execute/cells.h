#pragma once
/// The cells in which one rank counts what peers of other servers signal.

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/execute/mail.h"

namespace ibcoll {

struct PostedCall;

/// Hands out cells: a call that leaves the server takes one and gives it back when it
/// ends. What a rank needs so grows with its calls under way, not with the ranks of
/// their groups. Cells are lent out again and again, each time with another epoch, so that a signal
/// of an earlier use is told apart.
class Cells {
 public:
  /// The part of a server's cells that one of its ranks hands out: none is another rank's, so that
  /// any rank of the server can tell from a signal which of them it is for.
  struct Share {
    uint32_t first = 0, count = 1u << Cell::kIndexBits;
  };
  /// Of local rank `local` of `ranks`.
  static Share share_of(int local, int ranks);

  explicit Cells(Share share) : share_(share) {}

  /// The immediate of a cell for a call; none where all are lent out.
  std::optional<uint32_t> take(PostedCall* call);
  void give_back(uint32_t immediate);
  /// The call that a signal is for; null: no call waits for it.
  PostedCall* find(uint32_t immediate) const {
    const uint32_t index = Cell::index(immediate) - share_.first;
    if (index >= lent_.size()) return nullptr;
    const Lent& lent = lent_[index];
    return Cell::pack(lent.epoch, Cell::index(immediate)) == (immediate & ~Cell::kToken) ? lent.call
                                                                                         : nullptr;
  }

 private:
  struct Lent {
    PostedCall* call = nullptr;
    uint8_t epoch = 0;
  };

  Share share_;
  std::vector<Lent> lent_;  ///< all that were ever lent
  std::vector<uint32_t> free_;
};

}  // namespace ibcoll
