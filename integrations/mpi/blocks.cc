#include "integrations/mpi/blocks.h"

#include <cstring>

namespace ibcoll::mpi {

Outcome Attempt::failed(ibcoll_status status) const {
  if (status == IBCOLL_ERR_INVALID && ibcoll_last_error_scope() == IBCOLL_SCOPE_CALL)
    return Outcome::to_mpi(Reason::kArguments);
  say(ibcoll_last_error());
  const Library& mpi = library();
  const int code =
      status == IBCOLL_ERR_MISMATCH ? mpi.constants.err_truncate : mpi.constants.err_other;
  mpi.Comm_call_errhandler(handle, code);
  return {true, code, 0, {}};
}

Outcome Attempt::unequal(Count sent, Count received) const {
  say(fmt::format("{}: rank {} of the communicator sends {} bytes to itself, but receives {}",
                  to_string(function), on.rank, sent, received)
          .c_str());
  const Library& mpi = library();
  mpi.Comm_call_errhandler(handle, mpi.constants.err_truncate);
  return {true, mpi.constants.err_truncate, 0, {}};
}

Outcome give_up(const Attempt& attempt) {
  say("elements that are not contiguous can't be packed");
  const Library& mpi = library();
  mpi.Comm_call_errhandler(attempt.handle, mpi.constants.err_other);
  return {true, mpi.constants.err_other, 0, {}};
}

bool Blocks::keep_apart(const Extent& received) {
  if (packed_ != nullptr || !extent().meets(received)) return true;
  packed_ = packed_memory(elements_ * type_.size);
  if (packed_ == nullptr) return false;
  std::memcpy(packed_.get(), buffer_, static_cast<size_t>(elements_ * type_.size));
  return true;
}

bool UnequalBlocks::keep_apart(const Extent& received) {
  if (packed_ != nullptr || !extent().meets(received)) return true;
  packed_ = packed_memory(bytes_);
  if (packed_ == nullptr) return false;
  Count at = 0;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    std::memcpy(packed_.get() + at, buffer_ + places_[i], static_cast<size_t>(lengths_[i]));
    places_[i] = at;
    at += lengths_[i];
  }
  return true;
}

bool UnequalBlocks::prepare(const Job& job, bool reads) {
  if (type_->contiguous || bytes_ == 0) return true;
  packed_ = packed_memory(bytes_);
  if (packed_ == nullptr) return false;
  Count at = 0;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    places_[i] = at;
    if (reads && !pack(job, buffer_ + from_[i], elements_[i], *type_, packed_.get() + at))
      return false;
    at += lengths_[i];
  }
  return true;
}

bool UnequalBlocks::deliver(const Job& job) {
  if (packed_ == nullptr) return true;
  for (size_t i = 0; i < lengths_.size(); ++i)
    if (!unpack(job, packed_.get() + places_[i], buffer_ + from_[i], elements_[i], *type_))
      return false;
  return true;
}

}  // namespace ibcoll::mpi
