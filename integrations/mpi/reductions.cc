// MPI_Reduce, Allreduce, Reduce_scatter(_block), Scan and Exscan.
//
// Type, operator and counts are the same on all ranks by MPI's rule, so all of them leave a call to
// the MPI where one does.

#include "integrations/mpi/forms.h"

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
template <class Tell>
Outcome combine(const Attempt& attempt, const void* send, void* recv, Handle type, Handle op,
                bool significant, const Tell& tell) {
  const Datatype* const elements = find_datatype(attempt.job, type);
  if (elements == nullptr) return kToMpi;
  const std::optional<ibcoll_operator> combines = find_operator(*elements, op);
  if (!combines) return kOfTheMpi;
  const bool in_place = is_in_place(send);
  if ((in_place && !significant) || (significant && is_in_place(recv))) return kToMpi;
  // Not every MPI says that this is wrong: those that do not take it for in place.
  const bool alias = significant && send == recv && send != nullptr;
  return tell(Reduction{in_place || alias ? IBCOLL_IN_PLACE : send, recv, *elements->reduces,
                        *combines, elements->size});
}

template <class Number>
Outcome reduce_scatter(const Attempt& attempt, DescribedCall& call, const void* send, void* recv,
                       const Number* counts, Handle type, Handle op) {
  if (counts == nullptr) return kToMpi;
  call.counts.assign(counts, counts + attempt.on.size);
  Count all = 0;
  for (const Count count : call.counts) {
    if (count < 0) return kToMpi;
    all += count;
  }
  return combine(attempt, send, recv, type, op, true, [&](const Reduction& of) {
    if (all == 0) return kNothingToDo;
    return call.told(
        ibcoll_call_reduce_scatter(of.send, of.recv, call.counts.data(), of.type, of.op, nullptr),
        all * of.size);
  });
}

Outcome reduce(const Attempt& attempt, DescribedCall& call, const void* send, void* recv,
               Count count, Handle type, Handle op, int root) {
  if (!attempt.has_rank(root) || count < 0) return kToMpi;
  return combine(attempt, send, recv, type, op, attempt.on.rank == root, [&](const Reduction& of) {
    if (count == 0) return kNothingToDo;
    return call.told(ibcoll_call_reduce(of.send, of.recv, static_cast<size_t>(count), of.type,
                                        of.op, root, nullptr),
                     count * of.size);
  });
}

/// Allreduce, scan, exscan, reduce_scatter_block.
using TellReduction = ibcoll_call(const void*, void*, size_t, ibcoll_type, ibcoll_operator,
                                  const ibcoll_options*);
Outcome combine_on_all(const Attempt& attempt, DescribedCall& call, const void* send, void* recv,
                       Count count, Handle type, Handle op, TellReduction* tell) {
  if (count < 0) return kToMpi;
  const int vectors = tell == ibcoll_call_reduce_scatter_block ? attempt.on.size : 1;
  return combine(attempt, send, recv, type, op, true, [&](const Reduction& of) {
    if (count == 0) return kNothingToDo;
    return call.told(tell(of.send, of.recv, static_cast<size_t>(count), of.type, of.op, nullptr),
                     count * of.size * vectors);
  });
}

}  // namespace

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

#define ON_ALL(Number, Place) const void *send, void *recv, Number count, Handle type, Handle op,
#define ON_ALL_GIVEN() send, recv, count, type, op,
#define OF_ON_ALL(tell) combine_on_all(attempt, call, send, recv, count, type, op, tell)
#define DESCRIBE_ALLREDUCE(Number, Place) OF_ON_ALL(ibcoll_call_allreduce)
#define DESCRIBE_SCAN(Number, Place) OF_ON_ALL(ibcoll_call_scan)
#define DESCRIBE_EXSCAN(Number, Place) OF_ON_ALL(ibcoll_call_exscan)
#define DESCRIBE_SCATTER_BLOCK(Number, Place) OF_ON_ALL(ibcoll_call_reduce_scatter_block)
IBCOLL_MPI_FORMS(Allreduce, Iallreduce, kAllreduce, ON_ALL, ON_ALL_GIVEN, DESCRIBE_ALLREDUCE)
IBCOLL_MPI_FORMS(Scan, Iscan, kScan, ON_ALL, ON_ALL_GIVEN, DESCRIBE_SCAN)
IBCOLL_MPI_FORMS(Exscan, Iexscan, kExscan, ON_ALL, ON_ALL_GIVEN, DESCRIBE_EXSCAN)
IBCOLL_MPI_FORMS(Reduce_scatter_block, Ireduce_scatter_block, kReduceScatterBlock, ON_ALL,
                 ON_ALL_GIVEN, DESCRIBE_SCATTER_BLOCK)

#define REDUCE(Number, Place) ON_ALL(Number, Place) int root,
#define REDUCE_GIVEN() ON_ALL_GIVEN() root,
#define DESCRIBE_REDUCE(Number, Place) \
  ibcoll::mpi::reduce(attempt, call, send, recv, count, type, op, root)
IBCOLL_MPI_FORMS(Reduce, Ireduce, kReduce, REDUCE, REDUCE_GIVEN, DESCRIBE_REDUCE)

#define REDUCE_SCATTER(Number, Place) \
  const void *send, void *recv, const Number *counts, Handle type, Handle op,
#define REDUCE_SCATTER_GIVEN() send, recv, counts, type, op,
#define DESCRIBE_REDUCE_SCATTER(Number, Place) \
  reduce_scatter(attempt, call, send, recv, counts, type, op)
IBCOLL_MPI_FORMS(Reduce_scatter, Ireduce_scatter, kReduceScatter, REDUCE_SCATTER,
                 REDUCE_SCATTER_GIVEN, DESCRIBE_REDUCE_SCATTER)
