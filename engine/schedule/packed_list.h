#pragma once
/// Lists of what a program consists of (operations, streams, blocks): as they are, or packed.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ibcoll {

/// A list, told in numbers and packed (packed_records.h).
class PackedRecords;

template <class T>
class PackedReader;

/// A list. A rank that has to do with a hundred thousand others has several operations for each of
/// them, most of which differ from those before by what those did from theirs: *packed*, they take
/// few bytes each. A packed list is in *pages*, each of which can be unpacked alone, so that
/// something anywhere costs no more than its page. Copies of a packed list share it.
template <class T>
class PackedList {
 public:
  class Iterator;
  struct End {};

  // In packed_list.cc, which is compiled for size.
  PackedList();
  PackedList(const PackedList& other);
  PackedList(PackedList&& other) noexcept;
  PackedList& operator=(const PackedList& other);
  PackedList& operator=(PackedList&& other) noexcept;
  ~PackedList();

  size_t size() const { return is_packed() ? packed_size() : plain_.size(); }
  bool empty() const { return plain_.empty() && !is_packed(); }
  /// What is at a place. Of a packed list that takes memory and the time of a page: whoever reads
  /// much takes a PackedReader, which keeps pages.
  T operator[](size_t place) const;
  T back() const { return (*this)[size() - 1]; }
  /// For loops over all of it. What an iterator points to is gone when it moves on.
  Iterator begin() const;
  End end() const { return {}; }

  /// The list, to be changed: one that is not packed.
  std::vector<T>& edit() {
    assert(!is_packed());
    return plain_;
  }
  void shrink_to_fit() { plain_.shrink_to_fit(); }

  bool is_packed() const { return packed_ != nullptr; }
  /// The same list, packed; this one is not.
  PackedList packed() const;
  /// Bytes of memory beside the object.
  size_t memory_bytes() const;

 private:
  friend class PackedReader<T>;
  size_t packed_size() const;

  std::vector<T> plain_;
  std::shared_ptr<const PackedRecords> packed_;
};

/// Reads a list here and there. Of a packed one it keeps the two pages that it came to last, one of
/// even and one of odd number. For one thread at a time, since reading changes what it keeps.
template <class T>
class PackedReader {
 public:
  PackedReader();
  /// The list must outlive the reader, and stay as it is.
  explicit PackedReader(const PackedList<T>& list);
  PackedReader(PackedReader&& other) noexcept;
  PackedReader& operator=(PackedReader&& other) noexcept;
  ~PackedReader();

  /// Reads that list from now on. Allocates what pages take, and keeps it for later lists.
  void open(const PackedList<T>& list) {
    plain_ = list.plain_.data();
    if (list.is_packed()) [[unlikely]]
      open_packed(*list.packed_);
  }
  /// Bytes of memory that reading the list takes.
  static size_t bytes_for(const PackedList<T>& list);

  /// Stays where it is until something is asked for that stands more than kNear places off.
  const T& operator[](size_t place) const {
    if (plain_ != nullptr) [[likely]]
      return plain_[place];
    return in_page(static_cast<uint32_t>(place));
  }
  static constexpr uint32_t kNear = 64;

 private:
  struct Pages;
  void open_packed(const PackedRecords& packed);
  const T& in_page(uint32_t place) const;

  const T* plain_ = nullptr;
  const PackedRecords* packed_ = nullptr;
  std::unique_ptr<Pages> pages_;
};

template <class T>
class PackedList<T>::Iterator {
 public:
  explicit Iterator(const PackedList& list);
  const T& operator*() const { return *at_; }
  Iterator& operator++() {
    if (++at_ == end_) next();
    return *this;
  }
  bool operator==(End) const { return at_ == end_; }

 private:
  void next();

  const T* at_ = nullptr;
  const T* end_ = nullptr;  ///< of what is in one piece
  const PackedList* list_;
  size_t read_ = 0;  ///< up to there
  PackedReader<T> reader_;
};

template <class T>
typename PackedList<T>::Iterator PackedList<T>::begin() const {
  return Iterator(*this);
}

}  // namespace ibcoll
