#pragma once
/// How many calls a rank has made on each set of ranks with each tag.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ibcoll {

/// Counts by list: the hash of a set's ranks and a tag. At least the kRemembered lists counted last
/// are remembered, in memory that stops growing at kMostBytes.
///
/// There are two tables. A list is counted in the young one; when that is full it becomes the old
/// one, and what was in the old one is forgotten. So a list is forgotten only after kRemembered
/// others have been counted since.
class SetCallCounts {
 public:
  /// Counts a call; how many there were before.
  uint32_t take(uint64_t list) { return place_of(list)++; }
  /// The call counted last, which was of this list, was not made after all.
  void put_back(uint64_t list) { --place_of(list); }
  /// 0 also for a list that is forgotten.
  uint32_t made(uint64_t list) const;
  size_t memory_bytes() const { return young_.memory_bytes() + old_.memory_bytes(); }

  static constexpr size_t kRemembered = size_t{1} << 17;
  static constexpr size_t kMostBytes = 4 * kRemembered * (sizeof(uint64_t) + sizeof(uint32_t));

 private:
  /// Open addressing, at most half full; places are next to each other, so a look takes two lines.
  class Table {
   public:
    /// Null: it is not there. Valid until the next add().
    uint32_t* find(uint64_t list);
    /// One that is not there.
    uint32_t& add(uint64_t list, uint32_t made);
    void clear();
    size_t size() const { return size_; }
    size_t memory_bytes() const {
      return lists_.capacity() * sizeof(uint64_t) + made_.capacity() * sizeof(uint32_t);
    }

   private:
    size_t slot_of(uint64_t list) const;
    void grow();

    std::vector<uint64_t> lists_;  ///< 0: free
    std::vector<uint32_t> made_;
    size_t size_ = 0;
  };
  uint32_t& place_of(uint64_t list);

  mutable Table young_, old_;
};

}  // namespace ibcoll
