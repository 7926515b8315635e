// MPI_Neighbor_allgather(v) and alltoall(v, w).
//
// Whether a call goes to the engine depends on the communicator alone, but for what can't be right
// on this rank: see equal_calls.cc. No rank leaves a call out because it has nothing to move:
// others may think otherwise of it.

#include <fmt/format.h>

#include "integrations/mpi/neighbours.h"
#include "integrations/mpi/sides.h"

namespace ibcoll::mpi {

namespace {

/// Who the neighbours are, and the call on them. Null: `outcome`.
struct Served {
  const Neighbours* neighbours = nullptr;
  Outcome outcome;
};
Served served(const Attempt& attempt) {
  const Neighbours* known = find_neighbours(attempt.on);
  if (known == nullptr && attempt.form == Form::kNonblocking)
    return {nullptr, Outcome::to_mpi(Reason::kTooEarly)};
  if (known == nullptr) known = make_neighbours(attempt.on, attempt.handle);
  if (known == nullptr) return {nullptr, kToMpi};
  if (known->is_over) return {nullptr, attempt.failed(ibcoll_group_status(attempt.on.group))};
  if (known->graph == nullptr) return {nullptr, Outcome::to_mpi(known->reason)};
  return {known, kReady};
}

/// Of a rank that has such neighbours.
bool reports_missing(const Attempt& attempt, bool sends, const Blocks& send, bool receives,
                     const Blocks& recv) {
  return (sends && attempt.reports_missing(send)) || (receives && attempt.reports_missing(recv));
}

/// Memory that nothing is read from or written to.
std::byte g_nothing;
void* or_nothing(void* buffer) { return buffer == nullptr ? &g_nothing : buffer; }

/// One a neighbour. false: there is no memory.
bool describe(Blocks& blocks, const NeighbourSlots& side, const Side& given, const Datatype& type,
              bool reads) {
  if (side.slots.empty()) return true;
  if (side.plain) return blocks.describe(given.buffer, given.count, type, reads, side.count);
  const Count apart = given.count * type.extent;
  return blocks.describe_each(given.buffer, static_cast<int>(side.slots.size()), [&](int edge) {
    return BlockGiven{given.count, side.slots[edge] * apart, &type};
  }) && blocks.reserve(reads);
}

/// One a neighbour; what is packed is to be reserved yet. false: it can't be right.
template <class Number, class Place>
bool describe(Blocks& blocks, const Attempt& attempt, const NeighbourSlots& side,
              const Sides<Number, Place>& given) {
  if (side.slots.empty()) return true;
  if (is_in_place(given.buffer) || given.counts == nullptr || given.places == nullptr) return false;
  const Datatype* const type = find_datatype(attempt.job, given.type);
  if (type == nullptr) return false;
  if (side.plain)
    return blocks.describe(given.buffer, given.counts, given.places, side.count, *type);
  return blocks.describe_each(given.buffer, static_cast<int>(side.slots.size()), [&](int edge) {
    const int slot = side.slots[edge];
    return BlockGiven{given.counts[slot], given.places[slot] * type->extent, type};
  });
}
template <class Number, class Place>
bool describe(Blocks& blocks, const Attempt& attempt, const NeighbourSlots& side,
              const EachBlock<Number, Place>& given) {
  if (side.slots.empty()) return true;
  return given.is_complete() &&
         blocks.describe_each(given.buffer, static_cast<int>(side.slots.size()),
                              [&](int edge) { return given.block(attempt.job, side.slots[edge]); });
}

Outcome unequal(const Attempt& attempt, Count sent, Count received) {
  return attempt.break_off(
      fmt::format("{}: rank {} of the communicator sends blocks of {} bytes, but receives some of "
                  "{}",
                  to_string(attempt.function), attempt.on.rank, sent, received)
          .c_str(),
      library().constants.err_truncate);
}

/// neighbor_alltoall and allgather, which sends one block.
Outcome exchange(const Attempt& attempt, DescribedCall& call, const Side& send, const Side& recv) {
  const auto [neighbours, outcome] = served(attempt);
  if (neighbours == nullptr) return outcome;
  const NeighbourSlots &sources = neighbours->sources, &destinations = neighbours->destinations;
  const bool gathers = attempt.function == Function::kNeighborAllgather;
  const Datatype* const from = find_datatype(attempt.job, send.type);
  const Datatype* const to = find_datatype(attempt.job, recv.type);
  if (from == nullptr || to == nullptr || send.count < 0 || recv.count < 0) return kToMpi;
  if (is_in_place(send.buffer) || is_in_place(recv.buffer)) return kToMpi;
  const Count sent = destinations.slots.empty() ? 0 : send.count * from->size,
              received = sources.slots.empty() ? 0 : recv.count * to->size;
  if (!destinations.slots.empty() && !sources.slots.empty() && sent != received)
    return unequal(attempt, sent, received);
  const Count bytes = std::max(sent, received);
  if (!describe(call.recv, sources, recv, *to, false)) return attempt.give_up();
  const bool sends = gathers ? sent == 0 || call.send.describe(send.buffer, send.count, *from, true)
                             : describe(call.send, destinations, send, *from, true);
  if (!sends) return attempt.give_up();
  if (sent != 0 && received != 0 && !call.send.keep_apart(call.recv)) return attempt.give_up();
  if (reports_missing(attempt, sent != 0, call.send, received != 0, call.recv)) return kToMpi;
  auto* const tell = gathers ? ibcoll_call_neighbor_allgather : ibcoll_call_neighbor_alltoall;
  const auto copies = gathers ? Count{1} : static_cast<Count>(destinations.slots.size());
  return call.told(sent * copies, [&, neighbours = neighbours] {
    return tell(neighbours->graph, sent == 0 ? &g_nothing : call.send.data(),
                received == 0 ? &g_nothing : call.recv.data(), static_cast<size_t>(bytes), nullptr);
  });
}

template <class Number, class Place>
Outcome allgatherv(const Attempt& attempt, DescribedCall& call, const Side& send,
                   const Sides<Number, Place>& recv) {
  const auto [neighbours, outcome] = served(attempt);
  if (neighbours == nullptr) return outcome;
  const NeighbourSlots& sources = neighbours->sources;
  const bool sends = !neighbours->destinations.slots.empty(), receives = !sources.slots.empty();
  const Datatype* const from = find_datatype(attempt.job, send.type);
  if (from == nullptr || send.count < 0 || is_in_place(send.buffer)) return kToMpi;
  if (!describe(call.recv, attempt, sources, recv)) return kToMpi;
  if (receives && !call.recv.reserve_to_receive(false)) return attempt.give_up();
  if (sends && !call.send.describe(send.buffer, send.count, *from, true)) return attempt.give_up();
  if (sends && receives && !call.send.keep_apart(call.recv)) return attempt.give_up();
  if (reports_missing(attempt, sends, call.send, receives, call.recv)) return kToMpi;
  const Count sent = sends ? send.count * from->size : 0;
  return call.told(sent, [&, neighbours = neighbours] {
    return ibcoll_call_neighbor_allgatherv(neighbours->graph,
                                           sends ? or_nothing(call.send.data()) : &g_nothing, sent,
                                           receives ? or_nothing(call.recv.data()) : &g_nothing,
                                           call.recv.lengths(), call.recv.places(), nullptr);
  });
}

/// neighbor_alltoallv and w.
template <class AllBlocks>
Outcome exchange_each(const Attempt& attempt, DescribedCall& call, const AllBlocks& send,
                      const AllBlocks& recv) {
  const auto [neighbours, outcome] = served(attempt);
  if (neighbours == nullptr) return outcome;
  const bool sends = !neighbours->destinations.slots.empty(),
             receives = !neighbours->sources.slots.empty();
  if (!describe(call.recv, attempt, neighbours->sources, recv)) return kToMpi;
  if (!describe(call.send, attempt, neighbours->destinations, send)) return kToMpi;
  if (receives && !call.recv.reserve_to_receive(false)) return attempt.give_up();
  if (sends && !call.send.reserve(true)) return attempt.give_up();
  if (sends && receives && !call.send.keep_apart(call.recv)) return attempt.give_up();
  if (reports_missing(attempt, sends, call.send, receives, call.recv)) return kToMpi;
  void* const from = sends ? or_nothing(call.send.data()) : &g_nothing;
  void* const to = receives ? or_nothing(call.recv.data()) : &g_nothing;
  const ibcoll_call told =
      attempt.function == Function::kNeighborAlltoallw
          ? ibcoll_call_neighbor_alltoallw(neighbours->graph, from, nullptr, to, nullptr, nullptr)
          : ibcoll_call_neighbor_alltoallv(neighbours->graph, from, call.send.lengths(),
                                           call.send.places(), to, call.recv.lengths(),
                                           call.recv.places(), nullptr);
  return call.told(sends ? static_cast<Count>(call.send.bytes()) : 0, [&] { return told; });
}

}  // namespace

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

#define DESCRIBE_EQUAL(Number, Place) \
  exchange(attempt, call, {send, send_count, send_type}, {recv, recv_count, recv_type})
IBCOLL_MPI_FORMS(Neighbor_allgather, Ineighbor_allgather, kNeighborAllgather, TWO_SIDES,
                 TWO_SIDES_GIVEN, DESCRIBE_EQUAL)
IBCOLL_MPI_FORMS(Neighbor_alltoall, Ineighbor_alltoall, kNeighborAlltoall, TWO_SIDES,
                 TWO_SIDES_GIVEN, DESCRIBE_EQUAL)

#define DESCRIBE_ALLGATHERV(Number, Place)                           \
  allgatherv<Number, Place>(attempt, call, {send, count, send_type}, \
                            {recv, counts, places, recv_type})
IBCOLL_MPI_FORMS(Neighbor_allgatherv, Ineighbor_allgatherv, kNeighborAllgatherv, ALLGATHERV,
                 ALLGATHERV_GIVEN, DESCRIBE_ALLGATHERV)

#define DESCRIBE_ALLTOALLV(Number, Place)                                                         \
  exchange_each<Sides<Number, Place>>(attempt, call, {send, send_counts, send_places, send_type}, \
                                      {recv, recv_counts, recv_places, recv_type})
IBCOLL_MPI_FORMS(Neighbor_alltoallv, Ineighbor_alltoallv, kNeighborAlltoallv, ALLTOALLV,
                 ALLTOALLV_GIVEN, DESCRIBE_ALLTOALLV)

// Its places are addresses in all forms.
#define DESCRIBE_ALLTOALLW(Number, Place)                                               \
  exchange_each<EachBlock<Number, Place>>(attempt, call,                                \
                                          {send, send_counts, send_places, send_types}, \
                                          {recv, recv_counts, recv_places, recv_types})
IBCOLL_MPI_FORMS_OF(, int, Count, Neighbor_alltoallw, Ineighbor_alltoallw, kNeighborAlltoallw,
                    ALLTOALLW, ALLTOALLW_GIVEN, DESCRIBE_ALLTOALLW)
IBCOLL_MPI_FORMS_OF(_c, Count, Count, Neighbor_alltoallw, Ineighbor_alltoallw, kNeighborAlltoallw,
                    ALLTOALLW, ALLTOALLW_GIVEN, DESCRIBE_ALLTOALLW)
IBCOLL_MPI_PERSISTENT(MPIX_Neighbor_alltoallw_init, int, Count, kNeighborAlltoallw, ALLTOALLW,
                      ALLTOALLW_GIVEN, DESCRIBE_ALLTOALLW)
