#pragma once
/// Lists of ranks, in which consecutive numbers take no memory.

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace ibcoll {

using Rank = int32_t;

/// A list of ranks that belongs to somebody else: consecutive numbers, or an array.
class RankSpan {
 public:
  class Iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = Rank;
    using difference_type = std::ptrdiff_t;
    using pointer = const Rank*;
    using reference = Rank;

    Iterator() = default;
    Rank operator*() const { return ranks_ != nullptr ? ranks_[at_] : static_cast<Rank>(at_); }
    Rank operator[](difference_type n) const { return *(*this + n); }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this -= 1; }
    Iterator operator++(int) { return std::exchange(*this, *this + 1); }
    Iterator operator--(int) { return std::exchange(*this, *this - 1); }
    Iterator& operator+=(difference_type n) {
      at_ += n;
      return *this;
    }
    Iterator& operator-=(difference_type n) { return *this += -n; }
    friend Iterator operator+(Iterator it, difference_type n) { return it += n; }
    friend Iterator operator+(difference_type n, Iterator it) { return it += n; }
    friend Iterator operator-(Iterator it, difference_type n) { return it -= n; }
    friend difference_type operator-(Iterator a, Iterator b) { return a.at_ - b.at_; }
    friend bool operator==(Iterator a, Iterator b) { return a.at_ == b.at_; }
    friend auto operator<=>(Iterator a, Iterator b) { return a.at_ <=> b.at_; }

   private:
    friend class RankSpan;
    Iterator(const Rank* ranks, difference_type at) : ranks_(ranks), at_(at) {}
    const Rank* ranks_ = nullptr;
    difference_type at_ = 0;  ///< in the array; the rank itself where there is none
  };

  using value_type = Rank;
  using iterator = Iterator;
  using const_iterator = Iterator;

  RankSpan() = default;
  RankSpan(const std::vector<Rank>& ranks) : RankSpan(ranks.data(), ranks.size()) {}
  RankSpan(std::span<const Rank> ranks) : RankSpan(ranks.data(), ranks.size()) {}
  RankSpan(const Rank* ranks, size_t count) : ranks_(ranks), count_(static_cast<uint32_t>(count)) {}
  static RankSpan consecutive(Rank first, size_t count) {
    RankSpan span(nullptr, count);
    span.first_ = first;
    return span;
  }

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Rank operator[](size_t i) const {
    return ranks_ != nullptr ? ranks_[i] : first_ + static_cast<Rank>(i);
  }
  Rank front() const { return (*this)[0]; }
  Rank back() const { return (*this)[size() - 1]; }
  Iterator begin() const { return {ranks_, ranks_ != nullptr ? 0 : first_}; }
  Iterator end() const { return begin() + static_cast<std::ptrdiff_t>(count_); }
  /// At which place a rank is, or the list's length.
  size_t find(Rank rank) const {
    if (ranks_ == nullptr)
      return rank >= first_ ? std::min(size(), static_cast<size_t>(rank - first_)) : size();
    return static_cast<size_t>(std::find(ranks_, ranks_ + count_, rank) - ranks_);
  }

 private:
  const Rank* ranks_ = nullptr;
  Rank first_ = 0;  ///< where there is no array
  uint32_t count_ = 0;
};

/// A list that keeps its ranks.
class RankList {
 public:
  RankList() = default;
  RankList(std::initializer_list<Rank> ranks) : RankList(std::vector<Rank>(ranks)) {}
  RankList(std::vector<Rank>&& ranks) : ranks_(std::move(ranks)), span_(ranks_) {
    for (size_t i = 1; i < ranks_.size(); ++i) {
      if (ranks_[i] != ranks_[i - 1] + 1) return;
    }
    span_ = RankSpan::consecutive(ranks_.empty() ? 0 : ranks_[0], ranks_.size());
    ranks_ = std::vector<Rank>();  // unlike {}, this gives the memory back
  }
  static RankList consecutive(Rank first, size_t count) {
    RankList list;
    list.span_ = RankSpan::consecutive(first, count);
    return list;
  }
  // Its span is of its own array.
  RankList(const RankList&) = delete;
  RankList& operator=(const RankList&) = delete;
  RankList(RankList&& other) noexcept
      : ranks_(std::move(other.ranks_)), span_(std::exchange(other.span_, {})) {}
  RankList& operator=(RankList&& other) noexcept {
    std::swap(ranks_, other.ranks_);
    std::swap(span_, other.span_);
    return *this;
  }

  operator RankSpan() const& { return span_; }
  operator RankSpan() && = delete;
  size_t size() const { return span_.size(); }
  Rank operator[](size_t i) const { return span_[i]; }
  RankSpan::Iterator begin() const { return span_.begin(); }
  RankSpan::Iterator end() const { return span_.end(); }
  size_t find(Rank rank) const { return span_.find(rank); }
  /// Bytes of memory of the list beside itself.
  size_t memory_bytes() const { return ranks_.capacity() * sizeof(Rank); }

 private:
  std::vector<Rank> ranks_;  ///< empty where they are consecutive
  RankSpan span_;
};

}  // namespace ibcoll
