#pragma once
/// @file
/// Of the C++ interface: sets of ranks, and calls on them. Included by ibcoll.hpp.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "ibcoll/group.hpp"
#include "ibcoll/ibcoll.h"

namespace ibcoll {

/// Some ranks of a job, as a bitmap. Grows as ranks are added.
/// @ingroup cpp
class rank_set {
 public:
  rank_set() = default;
  /// These ranks.
  rank_set(std::initializer_list<int> ranks) {
    for (const int rank : ranks) add(rank);
  }

  /// Makes it a member.
  void add(int rank) {
    if (rank < 0) throw std::invalid_argument("ibcoll: there is no rank " + std::to_string(rank));
    const size_t words = ibcoll_set_words(rank + 1);
    if (words > words_.size()) words_.resize(words);
    ibcoll_set_add(words_.data(), rank);
  }
  /// Makes it no member.
  void remove(int rank) {
    if (has(rank)) ibcoll_set_remove(words_.data(), rank);
  }
  /// Makes the set empty.
  void clear() { words_.clear(); }
  /// Whether it is a member.
  bool has(int rank) const { return ibcoll_set_has(words_.data(), words_.size(), rank) != 0; }
  /// How many members there are.
  int size() const { return ibcoll_set_size(words_.data(), words_.size()); }
  /// The position of a rank among the members, from 0; -1 where it is none.
  int id_of(int rank) const { return ibcoll_set_id(words_.data(), words_.size(), rank); }
  /// The member at a position, from 0; -1 where there is none.
  int rank_of(int id) const { return ibcoll_set_rank(words_.data(), words_.size(), id); }
  /// What the C interface takes.
  std::span<const uint64_t> words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
};

namespace detail {
/// Where a bitmap lies. An empty span may lie nowhere, which is not what is wrong with it.
inline const uint64_t* at(std::span<const uint64_t> bitmap) {
  static constexpr uint64_t kNone = 0;
  return bitmap.empty() ? &kNone : bitmap.data();
}
}  // namespace detail

/// The calls of a group on a set of ranks, with no group made: each call is the next one on this
/// set with this tag (ibcoll_set_group()). Local; freed with the object.
/// @ingroup cpp
class set_group : public group {
 public:
  /// Rank r of the job is a member if bit r % 64 of word r / 64 is set.
  set_group(ibcoll_context* context, std::span<const uint64_t> members, uint64_t tag)
      : group(create(context, members, tag)) {}
  set_group(const set_group&) = delete;
  set_group& operator=(const set_group&) = delete;
  ~set_group() { ibcoll_group_free(handle()); }

 private:
  static ibcoll_group* create(ibcoll_context* context, std::span<const uint64_t> members,
                              uint64_t tag) {
    ibcoll_group* made = nullptr;
    detail::check(ibcoll_set_group(context, detail::at(members), members.size(), tag, &made));
    return made;
  }
};

}  // namespace ibcoll
