#pragma once
/// What a call sends and receives, as the engine takes it: bytes side by side. Where elements do
/// not lie so, they are packed here, on this rank alone: the others need not know.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "integrations/mpi/datatypes.h"
#include "integrations/mpi/stand_in.h"

namespace ibcoll::mpi {

/// The bytes that the engine takes a side of a call for: the holes between blocks, too.
struct Extent {
  const void* begin = nullptr;
  Count bytes = 0;

  bool meets(const Extent& other) const {
    const auto at = reinterpret_cast<uintptr_t>(begin),
               other_at = reinterpret_cast<uintptr_t>(other.begin);
    return bytes > 0 && other.bytes > 0 && at < other_at + static_cast<uintptr_t>(other.bytes) &&
           other_at < at + static_cast<uintptr_t>(bytes);
  }
};

/// Memory that elements are packed in; null where there is none.
using Packed = std::unique_ptr<std::byte[]>;
inline Packed packed_memory(Count bytes) {
  return Packed(new (std::nothrow) std::byte[static_cast<size_t>(std::max<Count>(bytes, 1))]);
}

/// Equal blocks one after the other, or one.
class Blocks {
 public:
  /// `reads`: what the buffer holds is sent, or may be left as it is.
  Blocks(const Job& job, const void* buffer, Count elements, const Datatype& type, bool reads)
      : job_(job), buffer_(const_cast<void*>(buffer)), elements_(elements), type_(type) {
    if (type.contiguous || elements == 0) return;
    packed_ = packed_memory(elements * type.size);
    if (packed_ != nullptr && reads) good_ = pack(job, buffer, elements, type, packed_.get());
    good_ = good_ && packed_ != nullptr;
  }
  bool good() const { return good_; }
  void* data() const { return packed_ ? packed_.get() : buffer_; }
  Extent extent() const { return {data(), elements_ * type_.size}; }
  /// What is sent is copied where it lies among what is received: the engine refuses such calls,
  /// on this rank alone. false: there is no memory.
  bool keep_apart(const Extent& received);
  /// What was received goes to its place.
  bool deliver() const {
    return packed_ == nullptr || unpack(job_, packed_.get(), buffer_, elements_, type_);
  }

 private:
  const Job& job_;
  void* buffer_;
  Count elements_;
  const Datatype& type_;
  Packed packed_;
  bool good_ = true;
};

/// Blocks with counts and places of their own, in elements as the program has them, in bytes as the
/// engine does. One a thread and side: it keeps its memory.
class UnequalBlocks {
 public:
  /// false: a count is negative, which is for the MPI to say.
  template <class Number, class Place>
  bool describe(void* buffer, const Number* counts, const Place* places, int blocks,
                const Datatype& type);
  /// Packs what is not contiguous; `reads` as in Blocks.
  bool prepare(const Job& job, bool reads);
  Extent extent() const { return {data(), packed_ ? bytes_ : end_}; }
  bool keep_apart(const Extent& received);  ///< as that of Blocks
  bool deliver(const Job& job);
  /// Until the next call: memory that was packed into is not kept.
  void end() { packed_.reset(); }

  void* data() const { return packed_ ? packed_.get() : buffer_; }
  const int64_t* lengths() const { return lengths_.data(); }
  const int64_t* places() const { return places_.data(); }
  uint64_t bytes() const { return static_cast<uint64_t>(bytes_); }

 private:
  std::byte* buffer_ = nullptr;
  const Datatype* type_ = nullptr;
  std::vector<int64_t> lengths_, places_;
  std::vector<int64_t> elements_, from_;  ///< of what is packed
  Count bytes_ = 0, end_ = 0;             ///< of all blocks together; of the last one
  Packed packed_;
};

template <class Number, class Place>
bool UnequalBlocks::describe(void* buffer, const Number* counts, const Place* places, int blocks,
                             const Datatype& type) {
  if (counts == nullptr || places == nullptr) return false;
  const auto size = static_cast<size_t>(blocks);
  lengths_.resize(size);
  places_.resize(size);
  type_ = &type;
  bytes_ = 0;
  // The engine's places are not negative, and its buffers not null, as MPI_BOTTOM is.
  std::optional<Count> lowest;
  for (size_t i = 0; i < size; ++i) {
    if (counts[i] < 0) return false;
    lengths_[i] = counts[i] * type.size;
    places_[i] = places[i] * type.extent;
    bytes_ += lengths_[i];
    if (counts[i] != 0) lowest = std::min(lowest.value_or(places_[i]), places_[i]);
  }
  const Count shift =
      buffer == nullptr ? lowest.value_or(0) : std::min<Count>(lowest.value_or(0), 0);
  buffer_ = static_cast<std::byte*>(buffer) + shift;
  end_ = 0;
  for (size_t i = 0; i < size; ++i) {
    places_[i] = counts[i] == 0 ? 0 : places_[i] - shift;
    end_ = std::max(end_, places_[i] + lengths_[i]);
  }
  if (!type.contiguous) {
    elements_.assign(counts, counts + size);
    from_ = places_;
  }
  return true;
}

/// Where this rank has no memory, or the MPI can't pack, and the others wait for it.
Outcome give_up(const Attempt& attempt);

}  // namespace ibcoll::mpi
