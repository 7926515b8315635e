// MPI_Alltoallv, Alltoallw, Allgatherv, Gatherv and Scatterv.
//
// Nobody knows all lengths of such a call, so whether it goes to the engine depends on the
// communicator and the calls before it, but for what can't be right on this rank: see
// equal_calls.cc. Of an allgatherv all ranks do.

#include <type_traits>

#include "integrations/mpi/sides.h"

namespace ibcoll::mpi {

namespace {

template <class Number, class Place>
bool describe(Blocks& blocks, const Attempt& attempt, const Sides<Number, Place>& side) {
  const Datatype* const type = find_datatype(attempt.job, side.type);
  return type != nullptr && !is_in_place(side.buffer) &&
         blocks.describe(side.buffer, side.counts, side.places, attempt.on.size, *type);
}

template <class Number, class Place>
bool describe(Blocks& blocks, const Attempt& attempt, const EachBlock<Number, Place>& side) {
  return side.is_complete() && blocks.describe_each(side.buffer, attempt.on.size, [&](int rank) {
    return side.block(attempt.job, rank);
  });
}

/// Whether the MPI says that what this rank sends to itself must not be received in the same place:
/// see equal_calls.cc. The arguments are those of the call, but for arrays, of which only this
/// rank's own entries are looked at.
template <class Number, class Place, class... Root>
bool refuses_place(const Attempt& attempt, const char* name, const Side& send,
                   const Sides<Number, Place>& recv, Root... root) {
  if constexpr (std::is_same_v<Number, int>) {
    const int rank = attempt.on.rank;
    const Datatype* const type = find_datatype(attempt.job, recv.type);
    if (type == nullptr || !type->contiguous || send.buffer == nullptr ||
        send.buffer != static_cast<const std::byte*>(recv.buffer) + recv.places[rank] * type->size)
      return false;
    return attempt.refuses(name, send.buffer, static_cast<int>(send.count), send.type,
                           const_cast<void*>(recv.buffer), recv.counts + rank, recv.places + rank,
                           recv.type, root...);
  }
  return false;
}
template <class Number, class Place>
bool refuses_place(const Attempt& attempt, const Sides<Number, Place>& send, const Side& recv) {
  if constexpr (std::is_same_v<Number, int>) {
    const int rank = attempt.on.rank;
    const Datatype* const type = find_datatype(attempt.job, send.type);
    if (type == nullptr || !type->contiguous || recv.buffer == nullptr ||
        recv.buffer != static_cast<const std::byte*>(send.buffer) + send.places[rank] * type->size)
      return false;
    return attempt.refuses("PMPI_Scatterv", send.buffer, send.counts + rank, send.places + rank,
                           send.type, const_cast<void*>(recv.buffer), static_cast<int>(recv.count),
                           recv.type, 0);
  }
  return false;
}
template <class Number, class Place>
bool refuses_place(const Attempt& attempt, const Sides<Number, Place>& send,
                   const Sides<Number, Place>& recv) {
  if constexpr (std::is_same_v<Number, int>) {
    const int rank = attempt.on.rank;
    return send.buffer == recv.buffer && send.buffer != nullptr &&
           send.places[rank] == recv.places[rank] &&
           attempt.refuses("PMPI_Alltoallv", send.buffer, send.counts + rank, send.places + rank,
                           send.type, const_cast<void*>(recv.buffer), recv.counts + rank,
                           recv.places + rank, recv.type);
  }
  return false;
}
template <class Number, class Place>
bool refuses_place(const Attempt& attempt, const EachBlock<Number, Place>& send,
                   const EachBlock<Number, Place>& recv) {
  if constexpr (std::is_same_v<Number, int>) {
    const int rank = attempt.on.rank;
    const auto type_at = [rank](const void* types) {
      return static_cast<const void*>(library().place_of_handle(const_cast<void*>(types), rank));
    };
    return send.buffer == recv.buffer && send.buffer != nullptr &&
           send.places[rank] == recv.places[rank] &&
           attempt.refuses("PMPI_Alltoallw", send.buffer, send.counts + rank, send.places + rank,
                           type_at(send.types), const_cast<void*>(recv.buffer), recv.counts + rank,
                           recv.places + rank, type_at(recv.types));
  }
  return false;
}

/// The block of this rank's own on the other side, in bytes; nothing: it can't be right.
std::optional<Count> length_of(const Attempt& attempt, const Side& block, const Datatype*& type) {
  type = find_datatype(attempt.job, block.type);
  if (type == nullptr || block.count < 0) return std::nullopt;
  return block.count * type->size;
}

/// Of all blocks together, as far as they can be right; `blocks` has no use for it yet.
template <class AllBlocks>
uint64_t bytes_of(Blocks& blocks, const Attempt& attempt, const AllBlocks& side) {
  const uint64_t bytes = describe(blocks, attempt, side) ? blocks.bytes() : 0;
  blocks.end();
  return bytes;
}
uint64_t bytes_of(const Attempt& attempt, const Side& block) {
  const Datatype* type = nullptr;
  return static_cast<uint64_t>(length_of(attempt, block, type).value_or(0));
}

/// Alltoallv and alltoallw.
template <class AllBlocks>
Outcome alltoall(const Attempt& attempt, DescribedCall& call, const AllBlocks& send,
                 const AllBlocks& recv) {
  Blocks &to = call.recv, &from = call.send;
  const bool in_place = is_in_place(send.buffer);
  if (!attempt.takes_any_size([&] { return bytes_of(to, attempt, recv); })) return kSizeToMpi;
  if (!describe(to, attempt, recv)) return kToMpi;
  if (!in_place && !describe(from, attempt, send)) return kToMpi;
  const int64_t received = to.lengths()[attempt.on.rank];
  if (!in_place && received != 0 && refuses_place(attempt, send, recv)) return kToMpi;
  if (!in_place && from.lengths()[attempt.on.rank] != received)
    return attempt.unequal(from.lengths()[attempt.on.rank], received);
  if (!to.reserve_to_receive(in_place)) return attempt.give_up();
  if (!in_place && !(from.reserve(true) && from.keep_apart(to))) return attempt.give_up();
  if (attempt.reports_missing(to) || (!in_place && attempt.reports_missing(from))) return kToMpi;
  ibcoll_call told = in_place
                         ? ibcoll_call_alltoallv(IBCOLL_IN_PLACE, nullptr, nullptr, to.data(),
                                                 to.lengths(), to.places(), nullptr)
                         : ibcoll_call_alltoallv(from.data(), from.lengths(), from.places(),
                                                 to.data(), to.lengths(), to.places(), nullptr);
  if (attempt.function == Function::kAlltoallw) told.collective = IBCOLL_ALLTOALLW;
  return call.told(static_cast<Count>(in_place ? to.bytes() : from.bytes()), [&] { return told; });
}

template <class Number, class Place>
Outcome allgatherv(const Attempt& attempt, DescribedCall& call, const Side& send,
                   const Sides<Number, Place>& recv) {
  Blocks &to = call.recv, &from = call.send;
  const bool in_place = is_in_place(send.buffer);
  if (!describe(to, attempt, recv)) return kToMpi;
  const int64_t own = to.lengths()[attempt.on.rank];
  const Datatype* type = nullptr;
  const std::optional<Count> sent = in_place ? own : length_of(attempt, send, type);
  if (!sent) return kToMpi;
  if (!attempt.takes(static_cast<Count>(to.bytes()))) return kSizeToMpi;
  if (*sent != own) return attempt.unequal(*sent, own);
  if (!in_place && own != 0 && refuses_place(attempt, "PMPI_Allgatherv", send, recv)) return kToMpi;
  if (!to.reserve_to_receive(in_place)) return attempt.give_up();
  if (!in_place && !(from.describe(send.buffer, send.count, *type, true) && from.keep_apart(to)))
    return attempt.give_up();
  if (attempt.reports_missing(to) || (!in_place && attempt.reports_missing(from))) return kToMpi;
  return call.told(own, [&] {
    return ibcoll_call_allgatherv(in_place ? IBCOLL_IN_PLACE : from.data(), own, to.data(),
                                  to.lengths(), to.places(), nullptr);
  });
}

template <class Number, class Place>
Outcome gatherv(const Attempt& attempt, DescribedCall& call, const Side& send,
                const Sides<Number, Place>& recv, int root) {
  if (!attempt.has_rank(root)) return kToMpi;
  Blocks &to = call.recv, &from = call.send;
  const bool is_root = attempt.on.rank == root, in_place = is_in_place(send.buffer);
  if (!attempt.takes_any_size(
          [&] { return is_root ? bytes_of(to, attempt, recv) : bytes_of(attempt, send); }))
    return kSizeToMpi;
  if ((in_place && !is_root) || (is_root && !describe(to, attempt, recv))) return kToMpi;
  const Datatype* type = nullptr;
  const std::optional<Count> own = in_place ? to.lengths()[root] : length_of(attempt, send, type);
  if (!own) return kToMpi;
  if (is_root && *own != to.lengths()[root]) return attempt.unequal(*own, to.lengths()[root]);
  if (is_root && !in_place && *own != 0 && refuses_place(attempt, "PMPI_Gatherv", send, recv, 0))
    return kToMpi;
  if (is_root && !to.reserve_to_receive(in_place)) return attempt.give_up();
  if (!in_place &&
      !(from.describe(send.buffer, send.count, *type, true) && (!is_root || from.keep_apart(to))))
    return attempt.give_up();
  if ((is_root && attempt.reports_missing(to)) || (!in_place && attempt.reports_missing(from)))
    return kToMpi;
  return call.told(*own, [&] {
    return ibcoll_call_gatherv(in_place ? IBCOLL_IN_PLACE : from.data(), *own,
                               is_root ? to.data() : nullptr, is_root ? to.lengths() : nullptr,
                               is_root ? to.places() : nullptr, root, nullptr);
  });
}

template <class Number, class Place>
Outcome scatterv(const Attempt& attempt, DescribedCall& call, const Sides<Number, Place>& send,
                 const Side& recv, int root) {
  if (!attempt.has_rank(root)) return kToMpi;
  Blocks &to = call.recv, &from = call.send;
  const bool is_root = attempt.on.rank == root, in_place = is_in_place(recv.buffer);
  if (!attempt.takes_any_size(
          [&] { return is_root ? bytes_of(from, attempt, send) : bytes_of(attempt, recv); }))
    return kSizeToMpi;
  if ((in_place && !is_root) || (is_root && !describe(from, attempt, send))) return kToMpi;
  const Datatype* type = nullptr;
  const std::optional<Count> own = in_place ? from.lengths()[root] : length_of(attempt, recv, type);
  if (!own) return kToMpi;
  if (is_root && *own != from.lengths()[root]) return attempt.unequal(from.lengths()[root], *own);
  if (is_root && !in_place && *own != 0 && refuses_place(attempt, send, recv)) return kToMpi;
  if (!in_place && !to.describe(recv.buffer, recv.count, *type, false)) return attempt.give_up();
  if (is_root && !(from.reserve(true) && (in_place || from.keep_apart(to))))
    return attempt.give_up();
  if ((is_root && attempt.reports_missing(from)) || (!in_place && attempt.reports_missing(to)))
    return kToMpi;
  return call.told(is_root ? from.bytes() : 0, [&] {
    return ibcoll_call_scatterv(is_root ? from.data() : nullptr, is_root ? from.lengths() : nullptr,
                                is_root ? from.places() : nullptr,
                                in_place ? const_cast<void*>(IBCOLL_IN_PLACE) : to.data(), *own,
                                root, nullptr);
  });
}

}  // namespace

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

#define DESCRIBE_ALLTOALLV(Number, Place)                                                    \
  alltoall<Sides<Number, Place>>(attempt, call, {send, send_counts, send_places, send_type}, \
                                 {recv, recv_counts, recv_places, recv_type})
IBCOLL_MPI_FORMS(Alltoallv, Ialltoallv, kAlltoallv, ALLTOALLV, ALLTOALLV_GIVEN, DESCRIBE_ALLTOALLV)

#define DESCRIBE_ALLTOALLW(Number, Place)                                                         \
  alltoall<EachBlock<Number, Place>>(attempt, call, {send, send_counts, send_places, send_types}, \
                                     {recv, recv_counts, recv_places, recv_types})
IBCOLL_MPI_FORMS(Alltoallw, Ialltoallw, kAlltoallw, ALLTOALLW, ALLTOALLW_GIVEN, DESCRIBE_ALLTOALLW)

#define DESCRIBE_ALLGATHERV(Number, Place)                           \
  allgatherv<Number, Place>(attempt, call, {send, count, send_type}, \
                            {recv, counts, places, recv_type})
IBCOLL_MPI_FORMS(Allgatherv, Iallgatherv, kAllgatherv, ALLGATHERV, ALLGATHERV_GIVEN,
                 DESCRIBE_ALLGATHERV)

#define GATHERV(Number, Place) ALLGATHERV(Number, Place) int root,
#define GATHERV_GIVEN() ALLGATHERV_GIVEN() root,
#define DESCRIBE_GATHERV(Number, Place)                           \
  gatherv<Number, Place>(attempt, call, {send, count, send_type}, \
                         {recv, counts, places, recv_type}, root)
IBCOLL_MPI_FORMS(Gatherv, Igatherv, kGatherv, GATHERV, GATHERV_GIVEN, DESCRIBE_GATHERV)

#define SCATTERV(Number, Place)                                                              \
  const void *send, const Number *counts, const Place *places, Handle send_type, void *recv, \
      Number count, Handle recv_type, int root,
#define SCATTERV_GIVEN() send, counts, places, send_type, recv, count, recv_type, root,
#define DESCRIBE_SCATTERV(Number, Place)                                    \
  scatterv<Number, Place>(attempt, call, {send, counts, places, send_type}, \
                          {recv, count, recv_type}, root)
IBCOLL_MPI_FORMS(Scatterv, Iscatterv, kScatterv, SCATTERV, SCATTERV_GIVEN, DESCRIBE_SCATTERV)
