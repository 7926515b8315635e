#pragma once
/// A value for each ordered pair of ranks that have to do with each other.

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/schedule/shape.h"

namespace ibcoll::sim {

/// In pages of the peers of a rank with consecutive numbers: algorithms that talk to a few peers
/// take memory for these only, others little more than for the values.
template <class T>
class PairTable {
 public:
  explicit PairTable(int ranks)
      : row_((static_cast<size_t>(ranks) + kPage - 1) / kPage), page_of_(row_ * ranks, kNoPage) {}

  T& operator()(Rank at, Rank other) {
    uint32_t& page = page_of_[row_ * at + static_cast<uint32_t>(other) / kPage];
    if (page == kNoPage) {
      page = static_cast<uint32_t>(pages_.size());
      pages_.emplace_back();
    }
    return pages_[page][static_cast<uint32_t>(other) % kPage];
  }

  /// The value, or that of a pair never asked for.
  T get(Rank at, Rank other) const {
    const uint32_t page = page_of_[row_ * at + static_cast<uint32_t>(other) / kPage];
    return page == kNoPage ? T{} : pages_[page][static_cast<uint32_t>(other) % kPage];
  }

 private:
  static constexpr uint32_t kPage = 64, kNoPage = ~uint32_t{0};

  size_t row_;  // pages of a rank
  std::vector<uint32_t> page_of_;
  std::deque<std::array<T, kPage>> pages_;
};

}  // namespace ibcoll::sim
