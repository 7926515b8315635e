#pragma once
/// One side of a call, what is sent or what is received, as the engine takes it: bytes side by
/// side, or in strides. Where elements do not lie so, they are packed here, on this rank alone: the
/// others need not know.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "integrations/mpi/datatypes.h"

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

/// A block of a call whose blocks differ in all; its place is in bytes.
struct BlockGiven {
  Count elements = 0;
  Count place = 0;
  const Datatype* type = nullptr;  ///< null: it can't be right
};

/// Equal blocks one after the other, or blocks with counts and places of their own, in elements as
/// the program has them, in bytes as the engine does. Described, then loaded and delivered as often
/// as the call is made. Keeps its memory from one description to the next, but for what elements
/// are packed in.
class Blocks {
 public:
  /// Equal blocks one after the other, of which there are `blocks`, with so many elements each; 0:
  /// elements that are to lie side by side. `reads`: what the buffer holds is sent, or may be left
  /// as it is. false: there is no memory.
  bool describe(const void* buffer, Count elements, const Datatype& type, bool reads,
                int blocks = 1) {
    buffer_ = static_cast<std::byte*>(const_cast<void*>(buffer));
    type_ = &type;
    types_.clear();
    equal_ = true;
    count_ = blocks == 0 ? elements : elements * blocks;
    bytes_ = end_ = count_ * type.size;
    if (!type.contiguous && blocks != 0 && lay_out_equal(elements, blocks)) return true;
    return reserve(reads);
  }
  /// Unequal blocks. false: a count is negative, which is for the MPI to say.
  template <class Number, class Place>
  bool describe(const void* buffer, const Number* counts, const Place* places, int blocks,
                const Datatype& type);
  /// Blocks that differ in all, for calls that are told how each lies. `given`(i) gives a
  /// BlockGiven. false: it can't be right.
  template <class Given>
  bool describe_each(const void* buffer, int blocks, const Given& given);
  /// Takes the memory that elements are packed in. Equal blocks have it. false: there is none.
  bool reserve(bool reads);
  /// The same of what is received. Blocks that share bytes are packed, too: the engine takes none
  /// such, while MPIs let them pass, although their standard does not. `in_place`: they are sent
  /// first.
  bool reserve_to_receive(bool in_place);
  /// What is sent is copied where it lies among what is received: the engine refuses such calls,
  /// on this rank alone. false: there is no memory.
  bool keep_apart(const Blocks& received);
  /// The datatype may go before the call has ended. false: the MPI can't keep it.
  bool keep_datatype();

  /// What is sent goes to where the engine takes it. false: the MPI can't pack it.
  bool load(const Job& job) const { return packed_ == nullptr || pack_all(job); }
  /// What was received goes to its place.
  bool deliver(const Job& job) const { return packed_ == nullptr || unpack_all(job); }
  /// What was taken for this description alone goes.
  void end() {
    if (packed_ != nullptr || strided_) [[unlikely]]
      release();
  }

  void* data() const { return packed_ ? packed_.get() : buffer_; }
  const int64_t* lengths() const { return lengths_.data(); }
  const int64_t* places() const { return places_.data(); }
  uint64_t bytes() const { return static_cast<uint64_t>(bytes_); }
  /// Whether there are bytes, but no memory that has them.
  bool is_null() const { return data() == nullptr && bytes_ != 0; }
  /// How each block lies, where they are not contiguous; else null.
  const ibcoll_block* blocks() const { return strided_ ? blocks_.data() : nullptr; }

 private:
  /// As the engine's blocks. false: they can't be that.
  bool lay_out_equal(Count elements, int blocks);
  bool lay_out_unequal();
  /// Takes memory to pack in. false: there is none.
  bool pack_aside(bool reads);
  bool are_contiguous() const;
  /// Whether two blocks, which are contiguous, share a byte.
  bool overlap();
  /// What is left of that when blocks_ are known. The engine takes no null buffer, as MPI_BOTTOM
  /// is.
  bool lay_out();
  const Datatype& type_of(size_t block) const { return types_.empty() ? *type_ : *types_[block]; }
  Extent extent() const { return {data(), packed_ ? bytes_ : end_}; }
  /// In which the blocks lie side by side.
  bool take_memory();
  bool pack_all(const Job& job) const;
  bool unpack_all(const Job& job) const;
  void release();

  std::byte* buffer_ = nullptr;
  const Datatype* type_ = nullptr;
  bool equal_ = true;
  bool reads_ = false;
  bool copies_ = false;        ///< `packed_` holds the same bytes, elsewhere
  Count count_ = 0;            ///< elements of equal blocks
  Count bytes_ = 0, end_ = 0;  ///< of all blocks together; of the last one
  std::vector<int64_t> lengths_, places_;
  std::vector<int64_t> elements_, from_;          ///< of what is packed
  std::vector<std::pair<Count, Count>> reaches_;  ///< overlap()'s
  std::vector<const Datatype*> types_;            ///< where they differ
  bool strided_ = false;                          ///< the engine is told of blocks_
  std::vector<ibcoll_block> blocks_;
  std::unique_ptr<std::byte[]> packed_;
  std::vector<std::shared_ptr<const Datatype>> kept_;
};

template <class Number, class Place>
bool Blocks::describe(const void* buffer, const Number* counts, const Place* places, int blocks,
                      const Datatype& type) {
  if (counts == nullptr || places == nullptr) return false;
  const auto size = static_cast<size_t>(blocks);
  lengths_.resize(size);
  places_.resize(size);
  type_ = &type;
  types_.clear();
  equal_ = false;
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
  buffer_ = static_cast<std::byte*>(const_cast<void*>(buffer)) + shift;
  end_ = 0;
  for (size_t i = 0; i < size; ++i) {
    places_[i] = counts[i] == 0 ? 0 : places_[i] - shift;
    end_ = std::max(end_, places_[i] + lengths_[i]);
  }
  if (!type.contiguous) elements_.assign(counts, counts + size);
  return true;
}

template <class Given>
bool Blocks::describe_each(const void* buffer, int blocks, const Given& given) {
  const auto size = static_cast<size_t>(blocks);
  equal_ = false;
  buffer_ = static_cast<std::byte*>(const_cast<void*>(buffer));
  lengths_.resize(size);
  places_.resize(size);
  elements_.resize(size);
  types_.resize(size);
  bytes_ = 0;
  for (size_t i = 0; i < size; ++i) {
    const BlockGiven block = given(static_cast<int>(i));
    if (block.type == nullptr || block.elements < 0) return false;
    types_[i] = block.type;
    elements_[i] = block.elements;
    places_[i] = block.place;
    lengths_[i] = block.elements * block.type->size;
    bytes_ += lengths_[i];
  }
  return true;
}

}  // namespace ibcoll::mpi
