// MPI_Alltoallv, Allgatherv, Gatherv and Scatterv.
//
// Nobody knows all lengths of such a call, so whether it goes to the engine depends on the
// communicator alone, but for what can't be right on this rank: see equal_calls.cc.

#include "integrations/mpi/blocks.h"

namespace ibcoll::mpi {

namespace {

/// One side of a call: blocks with counts and places, or one block (`places` null).
template <class Number, class Place>
struct Sides {
  const void* buffer;
  const Number* counts;
  const Place* places;
  Handle type;
};
template <class Number>
struct OneBlock {
  const void* buffer;
  Number count;
  Handle type;
};

/// Of the thread, so that calls need no memory.
struct BothSides {
  UnequalBlocks send, recv;
};
UnequalBlocks& send_blocks() { return OfThread<BothSides>::get().send; }
UnequalBlocks& recv_blocks() { return OfThread<BothSides>::get().recv; }
/// Packed elements go when the call does.
struct Ending {
  ~Ending() {
    send_blocks().end();
    recv_blocks().end();
  }
};

Outcome delivered(const Attempt& attempt, const Outcome& outcome, bool receives) {
  if (!receives || !outcome.taken || outcome.code != 0) return outcome;
  return recv_blocks().deliver(attempt.job) ? outcome : give_up(attempt);
}

template <class Number, class Place>
bool describe(UnequalBlocks& blocks, const Attempt& attempt, const Sides<Number, Place>& side) {
  const Datatype* const type = find_datatype(attempt.job, side.type);
  return type != nullptr && !is_in_place(side.buffer) &&
         blocks.describe(const_cast<void*>(side.buffer), side.counts, side.places, attempt.on.size,
                         *type);
}

template <class Number, class Place>
Outcome alltoallv(const Attempt& attempt, const Sides<Number, Place>& send,
                  const Sides<Number, Place>& recv) {
  const Ending ending;
  UnequalBlocks &to = recv_blocks(), &from = send_blocks();
  const bool in_place = is_in_place(send.buffer);
  if (!describe(to, attempt, recv)) return kToMpi;
  if (!in_place && !describe(from, attempt, send)) return kToMpi;
  const int64_t received = to.lengths()[attempt.on.rank];
  if (!in_place && from.lengths()[attempt.on.rank] != received)
    return attempt.unequal(from.lengths()[attempt.on.rank], received);
  if (!to.prepare(attempt.job, in_place)) return give_up(attempt);
  if (!in_place && !(from.prepare(attempt.job, true) && from.keep_apart(to.extent())))
    return give_up(attempt);
  const ibcoll_status status =
      in_place ? ibcoll_alltoallv(attempt.on.group, IBCOLL_IN_PLACE, nullptr, nullptr, to.data(),
                                  to.lengths(), to.places(), nullptr)
               : ibcoll_alltoallv(attempt.on.group, from.data(), from.lengths(), from.places(),
                                  to.data(), to.lengths(), to.places(), nullptr);
  return delivered(attempt, attempt.outcome(status, in_place ? to.bytes() : from.bytes()), true);
}

/// The block of this rank's own on the other side, in bytes; nothing: it can't be right.
template <class Number>
std::optional<Count> length_of(const Attempt& attempt, const OneBlock<Number>& block,
                               const Datatype*& type) {
  type = find_datatype(attempt.job, block.type);
  if (type == nullptr || block.count < 0) return std::nullopt;
  return block.count * type->size;
}

template <class Number, class Place>
Outcome allgatherv(const Attempt& attempt, const OneBlock<Number>& send,
                   const Sides<Number, Place>& recv) {
  const Ending ending;
  UnequalBlocks& to = recv_blocks();
  const bool in_place = is_in_place(send.buffer);
  if (!describe(to, attempt, recv)) return kToMpi;
  const int64_t own = to.lengths()[attempt.on.rank];
  const Datatype* type = nullptr;
  const std::optional<Count> sent = in_place ? own : length_of(attempt, send, type);
  if (!sent) return kToMpi;
  if (*sent != own) return attempt.unequal(*sent, own);
  if (!to.prepare(attempt.job, in_place)) return give_up(attempt);
  std::optional<Blocks> from;
  if (!in_place) from.emplace(attempt.job, send.buffer, send.count, *type, true);
  if (from && !(from->good() && from->keep_apart(to.extent()))) return give_up(attempt);
  const ibcoll_status status =
      ibcoll_allgatherv(attempt.on.group, in_place ? IBCOLL_IN_PLACE : from->data(), own, to.data(),
                        to.lengths(), to.places(), nullptr);
  return delivered(attempt, attempt.outcome(status, static_cast<uint64_t>(own)), true);
}

template <class Number, class Place>
Outcome gatherv(const Attempt& attempt, const OneBlock<Number>& send,
                const Sides<Number, Place>& recv, int root) {
  const Ending ending;
  if (!attempt.has_rank(root)) return kToMpi;
  UnequalBlocks& to = recv_blocks();
  const bool is_root = attempt.on.rank == root, in_place = is_in_place(send.buffer);
  if ((in_place && !is_root) || (is_root && !describe(to, attempt, recv))) return kToMpi;
  const Datatype* type = nullptr;
  const std::optional<Count> own = in_place ? to.lengths()[root] : length_of(attempt, send, type);
  if (!own) return kToMpi;
  if (is_root && *own != to.lengths()[root]) return attempt.unequal(*own, to.lengths()[root]);
  if (is_root && !to.prepare(attempt.job, in_place)) return give_up(attempt);
  std::optional<Blocks> from;
  if (!in_place) from.emplace(attempt.job, send.buffer, send.count, *type, true);
  if (from && !(from->good() && (!is_root || from->keep_apart(to.extent()))))
    return give_up(attempt);
  const ibcoll_status status =
      ibcoll_gatherv(attempt.on.group, in_place ? IBCOLL_IN_PLACE : from->data(), *own,
                     is_root ? to.data() : nullptr, is_root ? to.lengths() : nullptr,
                     is_root ? to.places() : nullptr, root, nullptr);
  return delivered(attempt, attempt.outcome(status, static_cast<uint64_t>(*own)), is_root);
}

template <class Number, class Place>
Outcome scatterv(const Attempt& attempt, const Sides<Number, Place>& send,
                 const OneBlock<Number>& recv, int root) {
  const Ending ending;
  if (!attempt.has_rank(root)) return kToMpi;
  UnequalBlocks& from = send_blocks();
  const bool is_root = attempt.on.rank == root, in_place = is_in_place(recv.buffer);
  if ((in_place && !is_root) || (is_root && !describe(from, attempt, send))) return kToMpi;
  const Datatype* type = nullptr;
  const std::optional<Count> own = in_place ? from.lengths()[root] : length_of(attempt, recv, type);
  if (!own) return kToMpi;
  if (is_root && *own != from.lengths()[root]) return attempt.unequal(from.lengths()[root], *own);
  if (is_root && !from.prepare(attempt.job, true)) return give_up(attempt);
  std::optional<Blocks> to;
  if (!in_place) to.emplace(attempt.job, recv.buffer, recv.count, *type, false);
  if (to && !(to->good() && (!is_root || from.keep_apart(to->extent())))) return give_up(attempt);
  void* const place = in_place ? const_cast<void*>(IBCOLL_IN_PLACE) : to->data();
  const ibcoll_status status = ibcoll_scatterv(
      attempt.on.group, is_root ? from.data() : nullptr, is_root ? from.lengths() : nullptr,
      is_root ? from.places() : nullptr, place, *own, root, nullptr);
  const Outcome outcome = attempt.outcome(status, is_root ? from.bytes() : 0);
  if (!to || !outcome.taken || outcome.code != 0) return outcome;
  return to->deliver() ? outcome : give_up(attempt);
}

}  // namespace

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

/// A function and its form with large counts.
#define IBCOLL_MPI_BOTH(each, name) each(name, int, int) each(name##_c, Count, Count)

#define ALLTOALLV(name, Number, Place)                                                          \
  IBCOLL_MPI_STANDS_IN(                                                                         \
      name,                                                                                     \
      (const void* send, const Number* send_counts, const Place* send_places, Handle send_type, \
       void* recv, const Number* recv_counts, const Place* recv_places, Handle recv_type,       \
       Handle comm),                                                                            \
      {                                                                                         \
        static auto* const original =                                                           \
            original_of<int(const void*, const Number*, const Place*, Handle, void*,            \
                            const Number*, const Place*, Handle, Handle)>("PMPI_" #name);       \
        return carry_out(                                                                       \
            Function::kAlltoallv, comm,                                                         \
            [&] {                                                                               \
              return original(send, send_counts, send_places, send_type, recv, recv_counts,     \
                              recv_places, recv_type, comm);                                    \
            },                                                                                  \
            [&](const Attempt& attempt) {                                                       \
              return alltoallv<Number, Place>(attempt,                                          \
                                              {send, send_counts, send_places, send_type},      \
                                              {recv, recv_counts, recv_places, recv_type});     \
            });                                                                                 \
      })
IBCOLL_MPI_BOTH(ALLTOALLV, Alltoallv)

#define ALLGATHERV(name, Number, Place)                                                       \
  IBCOLL_MPI_STANDS_IN(                                                                       \
      name,                                                                                   \
      (const void* send, Number count, Handle send_type, void* recv, const Number* counts,    \
       const Place* places, Handle recv_type, Handle comm),                                   \
      {                                                                                       \
        static auto* const original =                                                         \
            original_of<int(const void*, Number, Handle, void*, const Number*, const Place*,  \
                            Handle, Handle)>("PMPI_" #name);                                  \
        return carry_out(                                                                     \
            Function::kAllgatherv, comm,                                                      \
            [&] {                                                                             \
              return original(send, count, send_type, recv, counts, places, recv_type, comm); \
            },                                                                                \
            [&](const Attempt& attempt) {                                                     \
              return allgatherv<Number, Place>(attempt, {send, count, send_type},             \
                                               {recv, counts, places, recv_type});            \
            });                                                                               \
      })
IBCOLL_MPI_BOTH(ALLGATHERV, Allgatherv)

#define GATHERV(name, Number, Place)                                                         \
  IBCOLL_MPI_STANDS_IN(                                                                      \
      name,                                                                                  \
      (const void* send, Number count, Handle send_type, void* recv, const Number* counts,   \
       const Place* places, Handle recv_type, int root, Handle comm),                        \
      {                                                                                      \
        static auto* const original =                                                        \
            original_of<int(const void*, Number, Handle, void*, const Number*, const Place*, \
                            Handle, int, Handle)>("PMPI_" #name);                            \
        return carry_out(                                                                    \
            Function::kGatherv, comm,                                                        \
            [&] {                                                                            \
              return original(send, count, send_type, recv, counts, places, recv_type, root, \
                              comm);                                                         \
            },                                                                               \
            [&](const Attempt& attempt) {                                                    \
              return gatherv<Number, Place>(attempt, {send, count, send_type},               \
                                            {recv, counts, places, recv_type}, root);        \
            });                                                                              \
      })
IBCOLL_MPI_BOTH(GATHERV, Gatherv)

#define SCATTERV(name, Number, Place)                                                             \
  IBCOLL_MPI_STANDS_IN(                                                                           \
      name,                                                                                       \
      (const void* send, const Number* counts, const Place* places, Handle send_type, void* recv, \
       Number count, Handle recv_type, int root, Handle comm),                                    \
      {                                                                                           \
        static auto* const original =                                                             \
            original_of<int(const void*, const Number*, const Place*, Handle, void*, Number,      \
                            Handle, int, Handle)>("PMPI_" #name);                                 \
        return carry_out(                                                                         \
            Function::kScatterv, comm,                                                            \
            [&] {                                                                                 \
              return original(send, counts, places, send_type, recv, count, recv_type, root,      \
                              comm);                                                              \
            },                                                                                    \
            [&](const Attempt& attempt) {                                                         \
              return scatterv<Number, Place>(attempt, {send, counts, places, send_type},          \
                                             {recv, count, recv_type}, root);                     \
            });                                                                                   \
      })
IBCOLL_MPI_BOTH(SCATTERV, Scatterv)
