// MPI_Alltoall, Allgather, Gather, Scatter, Bcast and Barrier.
//
// Whether a call goes to the engine never depends on what other ranks may see otherwise: their
// datatypes, and buffers. Only what can't be right on this rank goes to the MPI from here, which
// says so.

#include "integrations/mpi/blocks.h"

namespace ibcoll::mpi {

namespace {

/// One side of a call.
struct Side {
  const void* buffer;
  Count count;
  Handle type;
};

const Outcome kNothingToDo = {true, 0, 0, {}};

/// Alltoall and allgather; `sent`: blocks that each rank sends.
template <class Call>
Outcome exchange(const Attempt& attempt, const Side& send, const Side& recv, int sent, Call call) {
  const Datatype* const to = find_datatype(attempt.job, recv.type);
  if (to == nullptr || recv.count < 0) return kToMpi;
  const Count bytes = recv.count * to->size;
  const bool in_place = is_in_place(send.buffer);
  const Datatype* const from = in_place ? to : find_datatype(attempt.job, send.type);
  if (from == nullptr || is_in_place(recv.buffer)) return kToMpi;
  if (!in_place && send.count < 0) return kToMpi;
  if (const Count own = send.count * from->size; !in_place && own != bytes)
    return attempt.unequal(own, bytes);
  if (bytes == 0) return kNothingToDo;
  Blocks source(attempt.job, in_place ? nullptr : send.buffer, in_place ? 0 : sent * send.count,
                *from, true);
  const Blocks target(attempt.job, recv.buffer, attempt.on.size * recv.count, *to, in_place);
  if (!source.good() || !target.good() || !source.keep_apart(target.extent()))
    return give_up(attempt);
  const Outcome outcome = attempt.outcome(
      call(in_place ? IBCOLL_IN_PLACE : source.data(), target.data(), static_cast<size_t>(bytes)),
      static_cast<uint64_t>(bytes) * static_cast<uint64_t>(sent));
  if (!outcome.taken || outcome.code != 0) return outcome;
  return target.deliver() ? outcome : give_up(attempt);
}

Outcome alltoall(const Attempt& attempt, const Side& send, const Side& recv) {
  return exchange(attempt, send, recv, attempt.on.size,
                  [&](const void* from, void* to, size_t bytes) {
                    return ibcoll_alltoall(attempt.on.group, from, to, bytes, nullptr);
                  });
}

Outcome allgather(const Attempt& attempt, const Side& send, const Side& recv) {
  return exchange(attempt, send, recv, 1, [&](const void* from, void* to, size_t bytes) {
    return ibcoll_allgather(attempt.on.group, from, to, bytes, nullptr);
  });
}

Outcome gather(const Attempt& attempt, const Side& send, const Side& recv, int root) {
  if (!attempt.has_rank(root)) return kToMpi;
  const bool is_root = attempt.on.rank == root, in_place = is_in_place(send.buffer);
  if (in_place && !is_root) return kToMpi;
  const Datatype* const to = is_root ? find_datatype(attempt.job, recv.type) : nullptr;
  const Datatype* const from = in_place ? to : find_datatype(attempt.job, send.type);
  if (from == nullptr || (is_root && (to == nullptr || recv.count < 0))) return kToMpi;
  if (!in_place && send.count < 0) return kToMpi;
  const Count bytes = in_place ? recv.count * to->size : send.count * from->size;
  if (is_root && is_in_place(recv.buffer)) return kToMpi;
  if (is_root && recv.count * to->size != bytes)
    return attempt.unequal(bytes, recv.count * to->size);
  if (bytes == 0) return kNothingToDo;
  Blocks source(attempt.job, in_place ? nullptr : send.buffer, in_place ? 0 : send.count, *from,
                true);
  const Blocks target(attempt.job, is_root ? recv.buffer : nullptr,
                      is_root ? attempt.on.size * recv.count : 0, is_root ? *to : *from, in_place);
  if (!source.good() || !target.good() || !source.keep_apart(target.extent()))
    return give_up(attempt);
  const Outcome outcome =
      attempt.outcome(ibcoll_gather(attempt.on.group, in_place ? IBCOLL_IN_PLACE : source.data(),
                                    target.data(), static_cast<size_t>(bytes), root, nullptr),
                      static_cast<uint64_t>(bytes));
  if (!outcome.taken || outcome.code != 0) return outcome;
  return target.deliver() ? outcome : give_up(attempt);
}

Outcome scatter(const Attempt& attempt, const Side& send, const Side& recv, int root) {
  if (!attempt.has_rank(root)) return kToMpi;
  const bool is_root = attempt.on.rank == root, in_place = is_in_place(recv.buffer);
  if (in_place && !is_root) return kToMpi;
  const Datatype* const from = is_root ? find_datatype(attempt.job, send.type) : nullptr;
  const Datatype* const to = in_place ? from : find_datatype(attempt.job, recv.type);
  if (to == nullptr || (is_root && (from == nullptr || send.count < 0))) return kToMpi;
  if (!in_place && recv.count < 0) return kToMpi;
  const Count bytes = in_place ? send.count * from->size : recv.count * to->size;
  if (is_root && is_in_place(send.buffer)) return kToMpi;
  if (is_root && send.count * from->size != bytes)
    return attempt.unequal(send.count * from->size, bytes);
  if (bytes == 0) return kNothingToDo;
  Blocks source(attempt.job, is_root ? send.buffer : nullptr,
                is_root ? attempt.on.size * send.count : 0, is_root ? *from : *to, true);
  const Blocks target(attempt.job, in_place ? nullptr : recv.buffer, in_place ? 0 : recv.count, *to,
                      false);
  if (!source.good() || !target.good() || !source.keep_apart(target.extent()))
    return give_up(attempt);
  void* const place = in_place ? const_cast<void*>(IBCOLL_IN_PLACE) : target.data();
  const uint64_t sent = is_root ? static_cast<uint64_t>(bytes * attempt.on.size) : 0;
  const Outcome outcome = attempt.outcome(ibcoll_scatter(attempt.on.group, source.data(), place,
                                                         static_cast<size_t>(bytes), root, nullptr),
                                          sent);
  if (!outcome.taken || outcome.code != 0) return outcome;
  return target.deliver() ? outcome : give_up(attempt);
}

Outcome bcast(const Attempt& attempt, const Side& all, int root) {
  if (!attempt.has_rank(root) || all.count < 0 || is_in_place(all.buffer)) return kToMpi;
  const Datatype* const type = find_datatype(attempt.job, all.type);
  if (type == nullptr) return kToMpi;
  const Count bytes = all.count * type->size;
  if (bytes == 0) return kNothingToDo;
  const bool is_root = attempt.on.rank == root;
  const Blocks buffer(attempt.job, all.buffer, all.count, *type, is_root);
  if (!buffer.good()) return give_up(attempt);
  const Outcome outcome = attempt.outcome(
      ibcoll_bcast(attempt.on.group, buffer.data(), static_cast<size_t>(bytes), root, nullptr),
      is_root ? static_cast<uint64_t>(bytes) : 0);
  if (!outcome.taken || outcome.code != 0 || is_root) return outcome;
  return buffer.deliver() ? outcome : give_up(attempt);
}

}  // namespace

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

/// A function and its form with large counts.
#define IBCOLL_MPI_BOTH(each, name, function) \
  each(name, function, int) each(name##_c, function, Count)

#define EXCHANGE(name, function, Number)                                                       \
  IBCOLL_MPI_STANDS_IN(                                                                        \
      name,                                                                                    \
      (const void* send, Number send_count, Handle send_type, void* recv, Number recv_count,   \
       Handle recv_type, Handle comm),                                                         \
      {                                                                                        \
        static auto* const original =                                                          \
            original_of<int(const void*, Number, Handle, void*, Number, Handle, Handle)>(      \
                "PMPI_" #name);                                                                \
        return carry_out(                                                                      \
            Function::function, comm,                                                          \
            [&] {                                                                              \
              return original(send, send_count, send_type, recv, recv_count, recv_type, comm); \
            },                                                                                 \
            [&](const Attempt& attempt) {                                                      \
              return ENGINE_##function(attempt, {send, send_count, send_type},                 \
                                       {recv, recv_count, recv_type});                         \
            });                                                                                \
      })
#define ENGINE_kAlltoall ibcoll::mpi::alltoall
#define ENGINE_kAllgather ibcoll::mpi::allgather
IBCOLL_MPI_BOTH(EXCHANGE, Alltoall, kAlltoall)
IBCOLL_MPI_BOTH(EXCHANGE, Allgather, kAllgather)

#define ROOTED(name, function, Number)                                                         \
  IBCOLL_MPI_STANDS_IN(                                                                        \
      name,                                                                                    \
      (const void* send, Number send_count, Handle send_type, void* recv, Number recv_count,   \
       Handle recv_type, int root, Handle comm),                                               \
      {                                                                                        \
        static auto* const original =                                                          \
            original_of<int(const void*, Number, Handle, void*, Number, Handle, int, Handle)>( \
                "PMPI_" #name);                                                                \
        return carry_out(                                                                      \
            Function::function, comm,                                                          \
            [&] {                                                                              \
              return original(send, send_count, send_type, recv, recv_count, recv_type, root,  \
                              comm);                                                           \
            },                                                                                 \
            [&](const Attempt& attempt) {                                                      \
              return ENGINE_##function(attempt, {send, send_count, send_type},                 \
                                       {recv, recv_count, recv_type}, root);                   \
            });                                                                                \
      })
#define ENGINE_kGather ibcoll::mpi::gather
#define ENGINE_kScatter ibcoll::mpi::scatter
IBCOLL_MPI_BOTH(ROOTED, Gather, kGather)
IBCOLL_MPI_BOTH(ROOTED, Scatter, kScatter)

#define BCAST(name, function, Number)                                                            \
  IBCOLL_MPI_STANDS_IN(name, (void* buffer, Number count, Handle type, int root, Handle comm), { \
    static auto* const original =                                                                \
        original_of<int(void*, Number, Handle, int, Handle)>("PMPI_" #name);                     \
    return carry_out(                                                                            \
        Function::function, comm, [&] { return original(buffer, count, type, root, comm); },     \
        [&](const Attempt& attempt) {                                                            \
          return bcast(attempt, {buffer, count, type}, root);                                    \
        });                                                                                      \
  })
IBCOLL_MPI_BOTH(BCAST, Bcast, kBcast)

IBCOLL_MPI_STANDS_IN(Barrier, (Handle comm), {
  static auto* const original = original_of<int(Handle)>("PMPI_Barrier");
  return carry_out(
      Function::kBarrier, comm, [&] { return original(comm); },
      [&](const Attempt& attempt) {
        return attempt.outcome(ibcoll_barrier(attempt.on.group, nullptr), 0);
      });
})
