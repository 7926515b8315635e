#include "integrations/mpi/blocks.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace ibcoll::mpi {

bool Blocks::take_memory() {
  packed_.reset(new (std::nothrow) std::byte[static_cast<size_t>(std::max<Count>(bytes_, 1))]);
  if (packed_ == nullptr) return false;
  if (equal_) return true;
  from_ = places_;
  Count at = 0;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    places_[i] = at;
    at += lengths_[i];
  }
  return true;
}

bool Blocks::reserve(bool reads) {
  const bool each = !types_.empty();
  if (!each && (type_->contiguous || bytes_ == 0)) return true;
  if (!equal_ && lay_out_unequal()) return true;
  return pack_aside(reads);
}

bool Blocks::reserve_to_receive(bool in_place) {
  if (equal_ || !are_contiguous() || !overlap()) [[likely]]
    return reserve(in_place);
  if (types_.empty()) {
    elements_.resize(lengths_.size());
    for (size_t i = 0; i < lengths_.size(); ++i)
      elements_[i] = type_->size == 0 ? 0 : lengths_[i] / type_->size;
  }
  return pack_aside(in_place);
}

bool Blocks::are_contiguous() const {
  if (types_.empty()) return type_->contiguous;
  return std::all_of(types_.begin(), types_.end(),
                     [](const Datatype* type) { return type->contiguous; });
}

bool Blocks::overlap() {
  // Mostly each begins behind the one before.
  Count end = std::numeric_limits<Count>::min();
  bool in_order = true;
  for (size_t i = 0; i < lengths_.size() && in_order; ++i) {
    if (lengths_[i] == 0) continue;
    in_order = places_[i] >= end;
    end = places_[i] + lengths_[i];
  }
  if (in_order) return false;
  reaches_.clear();
  for (size_t i = 0; i < lengths_.size(); ++i)
    if (lengths_[i] != 0) reaches_.emplace_back(places_[i], places_[i] + lengths_[i]);
  std::sort(reaches_.begin(), reaches_.end());
  return std::adjacent_find(reaches_.begin(), reaches_.end(), [](const auto& a, const auto& b) {
           return b.first < a.second;
         }) != reaches_.end();
}

bool Blocks::pack_aside(bool reads) {
  const bool each = !types_.empty();
  reads_ = reads;
  copies_ = false;
  if (!take_memory()) return false;
  // Such a call is told of blocks in any case.
  strided_ = each;
  if (each) blocks_.resize(lengths_.size());
  for (size_t i = 0; each && i < lengths_.size(); ++i)
    blocks_[i] = ibcoll_block_contiguous(places_[i], lengths_[i]);
  return true;
}

bool Blocks::lay_out() {
  if (buffer_ == nullptr) {
    const auto first = std::find_if(blocks_.begin(), blocks_.end(), [](const ibcoll_block& block) {
      return ibcoll_block_bytes(block) != 0;
    });
    const int64_t at = first == blocks_.end() ? 0 : first->offset;
    buffer_ += at;
    for (ibcoll_block& block : blocks_) block.offset -= at;
  }
  strided_ = true;
  return true;
}

bool Blocks::lay_out_equal(Count elements, int blocks) {
  const std::optional<ibcoll_block> one = block_of(*type_, 0, elements);
  if (!one) return false;
  blocks_.assign(static_cast<size_t>(blocks), *one);
  for (int i = 1; i < blocks; ++i) blocks_[i].offset += i * elements * type_->extent;
  return lay_out();
}

bool Blocks::lay_out_unequal() {
  blocks_.resize(lengths_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const std::optional<ibcoll_block> one = block_of(type_of(i), places_[i], elements_[i]);
    if (!one) return false;
    blocks_[i] = *one;
  }
  return lay_out();
}

bool Blocks::keep_apart(const Blocks& received) {
  // What is in strides may lie between each other.
  if (packed_ != nullptr || strided_ || received.strided_) return true;
  if (!extent().meets(received.extent())) return true;
  reads_ = copies_ = true;
  return take_memory();
}

bool Blocks::keep_datatype() {
  if (packed_ == nullptr || copies_) return true;
  const auto keep = [this](const Datatype*& type) {
    if (!type->derived) return true;
    kept_.push_back(kept_datatype(*type));
    type = kept_.back().get();
    return type != nullptr;
  };
  if (types_.empty()) return keep(type_);
  return std::all_of(types_.begin(), types_.end(), keep);
}

bool Blocks::pack_all(const Job& job) const {
  if (!reads_) return true;
  if (equal_ && copies_) {
    std::memcpy(packed_.get(), buffer_, static_cast<size_t>(bytes_));
    return true;
  }
  if (equal_) return pack(job, buffer_, count_, *type_, packed_.get());
  for (size_t i = 0; i < lengths_.size(); ++i) {
    std::byte *const to = packed_.get() + places_[i], *const from = buffer_ + from_[i];
    if (copies_) {
      std::memcpy(to, from, static_cast<size_t>(lengths_[i]));
    } else if (!pack(job, from, elements_[i], type_of(i), to)) {
      return false;
    }
  }
  return true;
}

bool Blocks::unpack_all(const Job& job) const {
  if (equal_) return unpack(job, packed_.get(), buffer_, count_, *type_);
  for (size_t i = 0; i < lengths_.size(); ++i)
    if (!unpack(job, packed_.get() + places_[i], buffer_ + from_[i], elements_[i], type_of(i)))
      return false;
  return true;
}

void Blocks::release() {
  packed_.reset();
  kept_.clear();
  types_.clear();
  copies_ = strided_ = false;
}

}  // namespace ibcoll::mpi
