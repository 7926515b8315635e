// MPI_Alltoallw.
//
// Nobody knows how others' blocks lie, so whether it goes to the engine depends on the communicator
// alone, but for what can't be right on this rank: see equal_calls.cc.

#include "integrations/mpi/each_block.h"
#include "integrations/mpi/forms.h"

namespace ibcoll::mpi {

namespace {

template <class Number, class Place>
bool describe(Blocks& blocks, const Attempt& attempt, const EachBlock<Number, Place>& side) {
  return side.is_complete() && blocks.describe_each(side.buffer, attempt.on.size, [&](int rank) {
    return side.block(attempt.job, rank);
  });
}

template <class Number, class Place>
Outcome alltoallw(const Attempt& attempt, DescribedCall& call, const EachBlock<Number, Place>& send,
                  const EachBlock<Number, Place>& recv) {
  Blocks &to = call.recv, &from = call.send;
  const bool in_place = is_in_place(send.buffer);
  if (!describe(to, attempt, recv)) return kToMpi;
  if (!in_place && !describe(from, attempt, send)) return kToMpi;
  const int64_t received = to.lengths()[attempt.on.rank];
  if (!in_place && from.lengths()[attempt.on.rank] != received)
    return attempt.unequal(from.lengths()[attempt.on.rank], received);
  if (!to.reserve(in_place)) return attempt.give_up();
  if (!in_place && !from.reserve(true)) return attempt.give_up();
  return call.told(ibcoll_call_alltoallw(in_place ? IBCOLL_IN_PLACE : from.data(), nullptr,
                                         to.data(), nullptr, nullptr),
                   static_cast<Count>(in_place ? to.bytes() : from.bytes()));
}

}  // namespace

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

#define ALLTOALLW(Number, Place)                                                                 \
  const void *send, const Number *send_counts, const Place *send_places, const void *send_types, \
      void *recv, const Number *recv_counts, const Place *recv_places, const void *recv_types,
#define ALLTOALLW_GIVEN() \
  send, send_counts, send_places, send_types, recv, recv_counts, recv_places, recv_types,
#define DESCRIBE_ALLTOALLW(Number, Place)                                               \
  alltoallw<Number, Place>(attempt, call, {send, send_counts, send_places, send_types}, \
                           {recv, recv_counts, recv_places, recv_types})
IBCOLL_MPI_FORMS(Alltoallw, Ialltoallw, kAlltoallw, ALLTOALLW, ALLTOALLW_GIVEN, DESCRIBE_ALLTOALLW)
