#include "integrations/mpi/blocks.h"

#include <cstring>
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
  if (type_->contiguous || bytes_ == 0) return true;
  reads_ = reads;
  copies_ = false;
  return take_memory();
}

bool Blocks::keep_apart(const Blocks& received) {
  if (packed_ != nullptr || !extent().meets(received.extent())) return true;
  reads_ = copies_ = true;
  return take_memory();
}

bool Blocks::keep_datatype() {
  if (packed_ == nullptr || copies_ || !type_->derived) return true;
  kept_ = kept_datatype(*type_);
  type_ = kept_.get();
  return kept_ != nullptr;
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
    } else if (!pack(job, from, elements_[i], *type_, to)) {
      return false;
    }
  }
  return true;
}

bool Blocks::unpack_all(const Job& job) const {
  if (equal_) return unpack(job, packed_.get(), buffer_, count_, *type_);
  for (size_t i = 0; i < lengths_.size(); ++i)
    if (!unpack(job, packed_.get() + places_[i], buffer_ + from_[i], elements_[i], *type_))
      return false;
  return true;
}

void Blocks::release() {
  packed_.reset();
  kept_.reset();
  copies_ = false;
}

}  // namespace ibcoll::mpi
