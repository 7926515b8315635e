// MPI_Alltoall, Allgather, Gather, Scatter, Bcast and Barrier.
//
// Whether a call goes to the engine never depends on what other ranks may see otherwise: their
// datatypes, and buffers. Only what can't be right on this rank goes to the MPI from here, which
// says so.

#include <algorithm>
#include <climits>
#include <cstring>
#include <new>

#include "integrations/mpi/sides.h"

namespace ibcoll::mpi {

namespace {

/// The block of `rank`, in bytes' distance; null: blocks do not lie side by side.
const void* block_at(const Side& side, const Datatype& type, int rank) {
  if (!type.contiguous || side.buffer == nullptr) return nullptr;
  return static_cast<const std::byte*>(side.buffer) + rank * side.count * type.size;
}

/// Whether the MPI says that this rank's block must not be received where it is sent from. Where
/// no MPI does, the engine gets the call: it is then no worse than in place.
template <class... Root>
bool refuses_place(const Attempt& attempt, const char* name, const Side& send, const void* from,
                   const Side& recv, const void* to, Root... root) {
  return from == to && from != nullptr && send.count <= INT_MAX && recv.count <= INT_MAX &&
         attempt.refuses(name, from, static_cast<int>(send.count), send.type, const_cast<void*>(to),
                         static_cast<int>(recv.count), recv.type, root...);
}

/// A root whose own block has two lengths makes the call all the same, with memory of this
/// library's, as others may long have ended it: it alone gets the error. Null: there is no memory.
std::byte* stand_aside(const Attempt& attempt, DescribedCall& call, Count sent, Count received,
                       Count bytes) {
  const auto all = static_cast<size_t>(bytes) * static_cast<size_t>(attempt.on.size);
  call.spare.reset(new (std::nothrow) std::byte[all]());
  if (call.spare == nullptr) return nullptr;
  call.code = library().constants.err_truncate;
  attempt.say_unequal(sent, received);
  return call.spare.get();
}

/// Alltoall and allgather; `sent`: blocks that each rank sends.
template <class Tell>
Outcome exchange(const Attempt& attempt, DescribedCall& call, const Side& send, const Side& recv,
                 int sent, Tell tell) {
  const Datatype* const to = find_datatype(attempt.job, recv.type);
  if (to == nullptr || recv.count < 0) return kToMpi;
  const Count bytes = recv.count * to->size;
  const bool in_place = is_in_place(send.buffer);
  const Datatype* const from = in_place ? to : find_datatype(attempt.job, send.type);
  if (from == nullptr || is_in_place(recv.buffer)) return kToMpi;
  if (!in_place && send.count < 0) return kToMpi;
  const Count own = in_place ? bytes : send.count * from->size;
  if (!attempt.takes(std::max(own, bytes))) return kSizeToMpi;
  if (own != bytes) return attempt.unequal(own, bytes);
  if (bytes == 0) return kNothingToDo;
  const bool gathers = attempt.function == Function::kAllgather;
  if (!in_place &&
      refuses_place(attempt, gathers ? "PMPI_Allgather" : "PMPI_Alltoall", send, send.buffer, recv,
                    block_at(recv, *to, gathers ? attempt.on.rank : 0)))
    return kToMpi;
  if (!call.recv.describe(recv.buffer, recv.count, *to, in_place, attempt.on.size))
    return attempt.give_up();
  if (!in_place && !(call.send.describe(send.buffer, send.count, *from, true, sent) &&
                     call.send.keep_apart(call.recv)))
    return attempt.give_up();
  if (attempt.reports_missing(call.recv) || (!in_place && attempt.reports_missing(call.send)))
    return kToMpi;
  return call.told(bytes * sent, [&] {
    return tell(in_place ? IBCOLL_IN_PLACE : call.send.data(), call.recv.data(),
                static_cast<size_t>(bytes), nullptr);
  });
}

Outcome alltoall(const Attempt& attempt, DescribedCall& call, const Side& send, const Side& recv) {
  return exchange(attempt, call, send, recv, attempt.on.size, ibcoll_call_alltoall);
}

Outcome allgather(const Attempt& attempt, DescribedCall& call, const Side& send, const Side& recv) {
  return exchange(attempt, call, send, recv, 1, ibcoll_call_allgather);
}

Outcome gather(const Attempt& attempt, DescribedCall& call, const Side& send, const Side& recv,
               int root) {
  if (!attempt.has_rank(root)) return kToMpi;
  const bool is_root = attempt.on.rank == root, in_place = is_in_place(send.buffer);
  if (in_place && !is_root) return kToMpi;
  const Datatype* const to = is_root ? find_datatype(attempt.job, recv.type) : nullptr;
  const Datatype* const from = in_place ? to : find_datatype(attempt.job, send.type);
  if (from == nullptr || (is_root && (to == nullptr || recv.count < 0))) return kToMpi;
  if (!in_place && send.count < 0) return kToMpi;
  const Count bytes = in_place ? recv.count * to->size : send.count * from->size;
  if (is_root && is_in_place(recv.buffer)) return kToMpi;
  const Count received = is_root ? recv.count * to->size : bytes;
  if (!attempt.takes(std::max(bytes, received))) return kSizeToMpi;
  if (received != bytes) {
    // The others send as much as the root does, as far as anybody can tell.
    std::byte* const all =
        bytes != 0 ? stand_aside(attempt, call, bytes, received, bytes) : nullptr;
    if (all == nullptr) return attempt.unequal(bytes, received);
    return call.told(bytes, [&] {
      return ibcoll_call_gather(IBCOLL_IN_PLACE, all, static_cast<size_t>(bytes), root, nullptr);
    });
  }
  if (bytes == 0) return kNothingToDo;
  if (is_root && !in_place &&
      refuses_place(attempt, "PMPI_Gather", send, send.buffer, recv, block_at(recv, *to, root), 0))
    return kToMpi;
  if (is_root && !call.recv.describe(recv.buffer, recv.count, *to, in_place, attempt.on.size))
    return attempt.give_up();
  if (!in_place && !(call.send.describe(send.buffer, send.count, *from, true) &&
                     (!is_root || call.send.keep_apart(call.recv))))
    return attempt.give_up();
  if ((is_root && attempt.reports_missing(call.recv)) ||
      (!in_place && attempt.reports_missing(call.send)))
    return kToMpi;
  return call.told(bytes, [&] {
    return ibcoll_call_gather(in_place ? IBCOLL_IN_PLACE : call.send.data(),
                              is_root ? call.recv.data() : nullptr, static_cast<size_t>(bytes),
                              root, nullptr);
  });
}

Outcome scatter(const Attempt& attempt, DescribedCall& call, const Side& send, const Side& recv,
                int root) {
  if (!attempt.has_rank(root)) return kToMpi;
  const bool is_root = attempt.on.rank == root, in_place = is_in_place(recv.buffer);
  if (in_place && !is_root) return kToMpi;
  const Datatype* const from = is_root ? find_datatype(attempt.job, send.type) : nullptr;
  const Datatype* const to = in_place ? from : find_datatype(attempt.job, recv.type);
  if (to == nullptr || (is_root && (from == nullptr || send.count < 0))) return kToMpi;
  if (!in_place && recv.count < 0) return kToMpi;
  const Count bytes = in_place ? send.count * from->size : recv.count * to->size;
  if (is_root && is_in_place(send.buffer)) return kToMpi;
  const Count sent = is_root ? send.count * from->size : bytes;
  if (!attempt.takes(std::max(bytes, sent))) return kSizeToMpi;
  if (sent != bytes) {
    std::byte* const all =
        bytes != 0 && from->contiguous ? stand_aside(attempt, call, sent, bytes, bytes) : nullptr;
    if (all == nullptr) return attempt.unequal(sent, bytes);
    // What the others receive is theirs, as far as it goes.
    const auto* const blocks = static_cast<const std::byte*>(send.buffer);
    for (int rank = 0; rank < attempt.on.size && blocks != nullptr; ++rank)
      std::memcpy(all + rank * bytes, blocks + rank * sent,
                  static_cast<size_t>(std::min(sent, bytes)));
    return call.told(bytes * attempt.on.size, [&] {
      return ibcoll_call_scatter(all, const_cast<void*>(IBCOLL_IN_PLACE),
                                 static_cast<size_t>(bytes), root, nullptr);
    });
  }
  if (bytes == 0) return kNothingToDo;
  if (is_root && !in_place &&
      refuses_place(attempt, "PMPI_Scatter", send, block_at(send, *from, root), recv, recv.buffer,
                    0))
    return kToMpi;
  if (!in_place && !call.recv.describe(recv.buffer, recv.count, *to, false))
    return attempt.give_up();
  if (is_root && !(call.send.describe(send.buffer, send.count, *from, true, attempt.on.size) &&
                   (in_place || call.send.keep_apart(call.recv))))
    return attempt.give_up();
  if ((is_root && attempt.reports_missing(call.send)) ||
      (!in_place && attempt.reports_missing(call.recv)))
    return kToMpi;
  return call.told(is_root ? bytes * attempt.on.size : 0, [&] {
    return ibcoll_call_scatter(is_root ? call.send.data() : nullptr,
                               in_place ? const_cast<void*>(IBCOLL_IN_PLACE) : call.recv.data(),
                               static_cast<size_t>(bytes), root, nullptr);
  });
}

Outcome bcast(const Attempt& attempt, DescribedCall& call, const Side& all, int root) {
  if (!attempt.has_rank(root) || all.count < 0 || is_in_place(all.buffer)) return kToMpi;
  const Datatype* const type = find_datatype(attempt.job, all.type);
  if (type == nullptr) return kToMpi;
  const Count bytes = all.count * type->size;
  if (!attempt.takes(bytes)) return kSizeToMpi;
  if (bytes == 0) return kNothingToDo;
  const bool is_root = attempt.on.rank == root;
  Blocks& buffer = is_root ? call.send : call.recv;
  if (!buffer.describe(all.buffer, all.count, *type, is_root)) return attempt.give_up();
  if (attempt.reports_missing(buffer)) return kToMpi;
  return call.told(is_root ? bytes : 0, [&] {
    return ibcoll_call_bcast(buffer.data(), static_cast<size_t>(bytes), root, nullptr);
  });
}

Outcome barrier(const Attempt& attempt, DescribedCall& call) {
  if (!attempt.takes(0)) return kSizeToMpi;
  return call.told(0, [&] { return ibcoll_call_barrier(nullptr); });
}

}  // namespace

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

#define OF_TWO_SIDES(describe) \
  describe(attempt, call, {send, send_count, send_type}, {recv, recv_count, recv_type})
#define DESCRIBE_ALLTOALL(Number, Place) OF_TWO_SIDES(ibcoll::mpi::alltoall)
#define DESCRIBE_ALLGATHER(Number, Place) OF_TWO_SIDES(ibcoll::mpi::allgather)
IBCOLL_MPI_FORMS(Alltoall, Ialltoall, kAlltoall, TWO_SIDES, TWO_SIDES_GIVEN, DESCRIBE_ALLTOALL)
IBCOLL_MPI_FORMS(Allgather, Iallgather, kAllgather, TWO_SIDES, TWO_SIDES_GIVEN, DESCRIBE_ALLGATHER)

#define ROOTED(Number, Place) TWO_SIDES(Number, Place) int root,
#define ROOTED_GIVEN() TWO_SIDES_GIVEN() root,
#define OF_ROOTED(describe) \
  describe(attempt, call, {send, send_count, send_type}, {recv, recv_count, recv_type}, root)
#define DESCRIBE_GATHER(Number, Place) OF_ROOTED(ibcoll::mpi::gather)
#define DESCRIBE_SCATTER(Number, Place) OF_ROOTED(ibcoll::mpi::scatter)
IBCOLL_MPI_FORMS(Gather, Igather, kGather, ROOTED, ROOTED_GIVEN, DESCRIBE_GATHER)
IBCOLL_MPI_FORMS(Scatter, Iscatter, kScatter, ROOTED, ROOTED_GIVEN, DESCRIBE_SCATTER)

#define BCAST(Number, Place) void *buffer, Number count, Handle type, int root,
#define BCAST_GIVEN() buffer, count, type, root,
#define DESCRIBE_BCAST(Number, Place) ibcoll::mpi::bcast(attempt, call, {buffer, count, type}, root)
IBCOLL_MPI_FORMS(Bcast, Ibcast, kBcast, BCAST, BCAST_GIVEN, DESCRIBE_BCAST)

#define BARRIER(Number, Place)
#define BARRIER_GIVEN()
#define DESCRIBE_BARRIER(Number, Place) ibcoll::mpi::barrier(attempt, call)
IBCOLL_MPI_FORMS_OF(, int, int, Barrier, Ibarrier, kBarrier, BARRIER, BARRIER_GIVEN,
                    DESCRIBE_BARRIER)
IBCOLL_MPI_OLD_FORM(Barrier, kBarrier, BARRIER, BARRIER_GIVEN, DESCRIBE_BARRIER)
