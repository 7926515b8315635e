#pragma once
/// Calls of any collective that know what must be in their buffers when they have ended.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/job.h"

namespace ibcoll::testing {

/// A call as all its ranks know it.
struct Item {
  size_t group = 0;
  Collective collective = Collective::kBarrier;
  Rank root = 0;
  size_t bytes = 0;  ///< of a block; where blocks differ, about so many
  uint32_t number = 0;
  bool in_place = false;
  bool persistent = false;
  std::string_view algorithm = {};  ///< empty: the engine's choice
  int64_t time_limit_ns = 0;        ///< this rank's; 0: none
};

/// One side's blocks, with gaps between those that differ in length.
struct Blocks {
  std::vector<int64_t> counts, places;
  std::vector<ibcoll_block> layouts;  ///< the same, where has_blocks()
  size_t bytes = 0;

  void add(size_t count, bool gap);
};

/// A call of this rank, and what must be in its buffers when it has ended.
class Posted {
 public:
  Posted(Group& group, const Item& item);

  Status prepare();
  /// `number` goes into the data: another each time a persistent call is started.
  void fill(uint32_t number);
  bool right() const { return recv_ == expected_; }
  Call& call() { return call_; }
  /// The call has ended: its memory, which is the program's again.
  std::pair<std::vector<std::byte>&, std::vector<std::byte>&> memory() { return {send_, recv_}; }
  const Item& item() const { return item_; }
  std::string describe() const;

 private:
  bool xors() const { return item_.number % 2 == 0; }
  size_t block_bytes() const;
  /// Of the block that one rank has for another.
  size_t length(Rank origin, Rank target) const;
  void lay_out();
  void combine(std::byte* to, size_t bytes, uint32_t number) const;

  Item item_;
  Rank me_;
  int ranks_;
  Call call_;
  std::shared_ptr<const Graph> graph_;  ///< where the collective has one
  Blocks out_, in_;
  std::vector<int64_t> elements_;  ///< of a reduce_scatter: that each rank receives
  std::vector<std::byte> send_, recv_, expected_;
};

}  // namespace ibcoll::testing
