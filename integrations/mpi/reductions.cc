// MPI_Reduce, Allreduce, Reduce_scatter(_block), Scan and Exscan.
//
// Type, operator and counts are the same on all ranks by MPI's rule, so all of them leave a call to
// the MPI where one does.

#include "integrations/mpi/blocks.h"

namespace ibcoll::mpi {

namespace {

const Outcome kOfTheMpi = Outcome::to_mpi(Reason::kOperator);

/// What a reduction of the engine is told.
struct Reduction {
  const void* send;
  void* recv;
  ibcoll_type type;
  ibcoll_operator op;
  Count size;  ///< bytes of an element
};

/// `significant`: whether this rank's receive buffer is.
template <class Call>
Outcome combine(const Attempt& attempt, const void* send, void* recv, Handle type, Handle op,
                bool significant, const Call& call) {
  const Datatype* const elements = find_datatype(attempt.job, type);
  if (elements == nullptr) return kToMpi;
  const std::optional<ibcoll_operator> combines = find_operator(*elements, op);
  if (!combines) return kOfTheMpi;
  const bool in_place = is_in_place(send);
  if ((in_place && !significant) || (significant && is_in_place(recv))) return kToMpi;
  // Not every MPI says that this is wrong: those that do not take it for in place.
  const bool alias = significant && send == recv && send != nullptr;
  return call(Reduction{in_place || alias ? IBCOLL_IN_PLACE : send, recv, *elements->reduces,
                        *combines, elements->size});
}

/// Those whose vectors are `count` elements long, or one that many for each rank.
template <class Call>
Outcome combine_all(const Attempt& attempt, const void* send, void* recv, Count count, Handle type,
                    Handle op, bool significant, int vectors, const Call& call) {
  if (count < 0) return kToMpi;
  return combine(attempt, send, recv, type, op, significant, [&](const Reduction& of) {
    if (count == 0) return Outcome{true, 0, 0, {}};
    return attempt.outcome(call(of, static_cast<size_t>(count)),
                           static_cast<uint64_t>(count * of.size * vectors));
  });
}

template <class Number>
Outcome reduce_scatter(const Attempt& attempt, const void* send, void* recv, const Number* counts,
                       Handle type, Handle op) {
  std::vector<int64_t>& elements = OfThread<std::vector<int64_t>>::get();
  if (counts == nullptr) return kToMpi;
  elements.assign(counts, counts + attempt.on.size);
  Count all = 0;
  for (const Count count : elements) {
    if (count < 0) return kToMpi;
    all += count;
  }
  return combine(attempt, send, recv, type, op, true, [&](const Reduction& of) {
    if (all == 0) return Outcome{true, 0, 0, {}};
    return attempt.outcome(ibcoll_reduce_scatter(attempt.on.group, of.send, of.recv,
                                                 elements.data(), of.type, of.op, nullptr),
                           static_cast<uint64_t>(all * of.size));
  });
}

Outcome reduce(const Attempt& attempt, const void* send, void* recv, Count count, Handle type,
               Handle op, int root) {
  if (!attempt.has_rank(root)) return kToMpi;
  return combine_all(attempt, send, recv, count, type, op, attempt.on.rank == root, 1,
                     [&](const Reduction& of, size_t elements) {
                       return ibcoll_reduce(attempt.on.group, of.send, of.recv, elements, of.type,
                                            of.op, root, nullptr);
                     });
}

/// Allreduce, scan, exscan, reduce_scatter_block.
using EngineCall = ibcoll_status(ibcoll_group*, const void*, void*, size_t, ibcoll_type,
                                 ibcoll_operator, const ibcoll_options*);
Outcome combine_on_all(const Attempt& attempt, const void* send, void* recv, Count count,
                       Handle type, Handle op, EngineCall* call) {
  const int vectors = call == ibcoll_reduce_scatter_block ? attempt.on.size : 1;
  return combine_all(attempt, send, recv, count, type, op, true, vectors,
                     [&](const Reduction& of, size_t elements) {
                       return call(attempt.on.group, of.send, of.recv, elements, of.type, of.op,
                                   nullptr);
                     });
}

}  // namespace

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

#define ON_ALL(name, function, engine, Number)                                                     \
  IBCOLL_MPI_STANDS_IN(                                                                            \
      name, (const void* send, void* recv, Number count, Handle type, Handle op, Handle comm), {   \
        static auto* const original =                                                              \
            original_of<int(const void*, void*, Number, Handle, Handle, Handle)>("PMPI_" #name);   \
        return carry_out(                                                                          \
            Function::function, comm, [&] { return original(send, recv, count, type, op, comm); }, \
            [&](const Attempt& attempt) {                                                          \
              return combine_on_all(attempt, send, recv, count, type, op, engine);                 \
            });                                                                                    \
      })
/// A function and its form with large counts.
#define ON_ALL_BOTH(name, function, engine) \
  ON_ALL(name, function, engine, int)       \
  ON_ALL(name##_c, function, engine, Count)
ON_ALL_BOTH(Allreduce, kAllreduce, ibcoll_allreduce)
ON_ALL_BOTH(Scan, kScan, ibcoll_scan)
ON_ALL_BOTH(Exscan, kExscan, ibcoll_exscan)
ON_ALL_BOTH(Reduce_scatter_block, kReduceScatterBlock, ibcoll_reduce_scatter_block)

#define REDUCE(name, Number)                                                                       \
  IBCOLL_MPI_STANDS_IN(                                                                            \
      name,                                                                                        \
      (const void* send, void* recv, Number count, Handle type, Handle op, int root, Handle comm), \
      {                                                                                            \
        static auto* const original =                                                              \
            original_of<int(const void*, void*, Number, Handle, Handle, int, Handle)>(             \
                "PMPI_" #name);                                                                    \
        return carry_out(                                                                          \
            Function::kReduce, comm,                                                               \
            [&] { return original(send, recv, count, type, op, root, comm); },                     \
            [&](const Attempt& attempt) {                                                          \
              return reduce(attempt, send, recv, count, type, op, root);                           \
            });                                                                                    \
      })
REDUCE(Reduce, int)
REDUCE(Reduce_c, Count)

#define REDUCE_SCATTER(name, Number)                                                               \
  IBCOLL_MPI_STANDS_IN(                                                                            \
      name,                                                                                        \
      (const void* send, void* recv, const Number* counts, Handle type, Handle op, Handle comm), { \
        static auto* const original =                                                              \
            original_of<int(const void*, void*, const Number*, Handle, Handle, Handle)>(           \
                "PMPI_" #name);                                                                    \
        return carry_out(                                                                          \
            Function::kReduceScatter, comm,                                                        \
            [&] { return original(send, recv, counts, type, op, comm); },                          \
            [&](const Attempt& attempt) {                                                          \
              return reduce_scatter(attempt, send, recv, counts, type, op);                        \
            });                                                                                    \
      })
REDUCE_SCATTER(Reduce_scatter, int)
REDUCE_SCATTER(Reduce_scatter_c, Count)
