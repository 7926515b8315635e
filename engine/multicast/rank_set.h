#pragma once
/// A set of ranks: whom a multicast is for. A bitmap in memory, a few bytes a member or one bit a
/// rank in a message, whichever is less.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

/// An immutable set of ranks. The *logical id* of a member is its position among the members in
/// ascending order. Memory: one bit and a sixteenth for each rank between the first and the last
/// member.
///
/// Encoded, a set is a byte that names the form, the number of members and the first one, and then,
/// whichever is shortest:
/// - gaps: how far each member lies behind the one before;
/// - runs: in turn the length of a run of consecutive ranks and the gap behind it;
/// - bits: a bitmap from the first member to the last.
/// Numbers have seven bits a byte, the low ones first (LEB128). There is one encoding of a set
/// only, so equal sets have equal bytes.
class RankSet {
 public:
  /// The empty set.
  RankSet() = default;
  /// Of members in any order. `ranks`: how many ranks there are. Fails where a member is none of
  /// them, or stands there twice.
  static Result<RankSet> create(std::span<const Rank> members, int ranks);
  /// Of a bitmap: rank r is a member if bit r % 64 of word r / 64 is set. Fails where a member is
  /// none of the `ranks` ranks there are.
  static Result<RankSet> from_bitmap(std::span<const uint64_t> words, int ranks);
  /// The ranks `first` .. `end` - 1.
  static RankSet interval(Rank first, Rank end);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool contains(Rank rank) const;
  /// The logical id of a rank; empty where it is no member. Constant time.
  std::optional<int> id_of(Rank rank) const;
  /// The rank with that logical id (0 .. size() - 1). Time grows with the logarithm of the ranks.
  Rank rank_of(int id) const;
  /// Calls visit(rank) for every member, in ascending order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      for (uint64_t word = words_[i]; word != 0; word &= word - 1) {
        visit(base_ + static_cast<Rank>(64 * i) + __builtin_ctzll(word));
      }
    }
  }
  /// The bitmap from the word of the first member to that of the last: bit i of word w is rank
  /// first_of_words() + 64 w + i.
  std::span<const uint64_t> words() const { return words_; }
  Rank first_of_words() const { return base_; }
  /// All members, in ascending order.
  std::vector<Rank> members() const;
  /// The members with logical ids `first` .. `end` - 1.
  RankSet part(int first, int end) const;

  /// All members but that one, which must be one.
  RankSet without(Rank rank) const;

  /// Appends the encoding.
  void encode(std::vector<std::byte>& out) const;
  std::vector<std::byte> encode() const;
  /// Reads a set from the beginning of `in`, which then begins behind it. `ranks`: how many there
  /// are. Fails where the encoding is cut off, not the one that encode() gives, or names a rank
  /// that is not there; takes memory in proportion to `ranks` at most.
  static Result<RankSet> decode(std::span<const std::byte>& in, int ranks);
  /// The same, of an encoding behind which nothing may stand.
  static Result<RankSet> decode_all(std::span<const std::byte> in, int ranks);

  friend bool operator==(const RankSet& a, const RankSet& b) {
    return a.base_ == b.base_ && a.words_ == b.words_;
  }

 private:
  /// `members` ascending, without duplicates.
  explicit RankSet(std::span<const Rank> members);
  static Result<RankSet> decode_members(uint8_t form, std::span<const std::byte>& in, int ranks);
  /// Of the encoding's forms, behind the first member.
  std::array<size_t, 3> lengths() const;
  void append_bits(std::vector<std::byte>& out) const;
  static RankSet of_words(Rank base, std::span<const uint64_t> words);
  void count_words();

  Rank base_ = 0;  ///< of bit 0: the first member, rounded down to 64
  int size_ = 0;
  std::vector<uint64_t> words_;  ///< from the word of the first member to that of the last
  std::vector<int> before_;      ///< by word: members in the words before it
};

}  // namespace ibcoll
