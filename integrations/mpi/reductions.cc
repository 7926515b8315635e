// MPI_Reduce, Allreduce, Reduce_scatter(_block), Scan and Exscan.
//
// Type, operator and counts are the same on all ranks by MPI's rule, so all of them leave a call to
// the MPI where one does.

#include <climits>

#include "integrations/mpi/forms.h"
#include "integrations/mpi/operators.h"

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
  const ibcoll_options* options;
};

/// The elements that a rank sends, and those that it receives: none where its receive buffer is not
/// significant.
struct Elements {
  Count sent, received;
};

/// Whether the MPI says that one buffer must not be for both sides. What it does with it on one
/// rank changes nothing.
bool refuses_alias(const Attempt& attempt, const void* send, void* recv, Count count, Handle type,
                   Handle op) {
  if (count > INT_MAX) return false;
  const int own = static_cast<int>(count);
  switch (attempt.function) {
    case Function::kReduce:
      return attempt.refuses("PMPI_Reduce", send, recv, own, type, op, 0);
    case Function::kReduceScatter:
      return attempt.refuses("PMPI_Reduce_scatter", send, recv, &own, type, op);
    case Function::kReduceScatterBlock:
      return attempt.refuses("PMPI_Reduce_scatter_block", send, recv, own, type, op);
    case Function::kScan:
      return attempt.refuses("PMPI_Scan", send, recv, own, type, op);
    case Function::kExscan:
      return attempt.refuses("PMPI_Exscan", send, recv, own, type, op);
    default:
      return attempt.refuses("PMPI_Allreduce", send, recv, own, type, op);
  }
}

bool is_integer(ibcoll_type type) { return type <= IBCOLL_UINT64; }
bool is_signed(ibcoll_type type) {
  return type == IBCOLL_INT8 || type == IBCOLL_INT16 || type == IBCOLL_INT32 ||
         type == IBCOLL_INT64;
}

/// Whether the same bits come of it whoever combines, in whatever order. It has to be the same on
/// all ranks, so no MPI is asked: some compute in another way on other processors. Not so are
/// - floating-point numbers: even the smallest of some may be one zero or the other, or any NaN;
/// - sums of short integers: Open MPI 4.1 saturates them, where it has vectors;
/// - the smallest and the largest of unsigned integers: MPICH 4.0 compares them as signed ones;
/// - what is combined by the program's functions.
bool is_exact(const FoundCombination& found) {
  if (!found.combination) return false;
  const ibcoll_type type = found.combination->type;
  switch (found.combination->op) {
    case IBCOLL_SUM:
    case IBCOLL_PRODUCT:
      return is_integer(type) && type >= IBCOLL_INT32;
    case IBCOLL_MIN:
    case IBCOLL_MAX:
      return is_signed(type);
    case IBCOLL_BAND:
    case IBCOLL_BOR:
    case IBCOLL_BXOR:
    case IBCOLL_LAND:
    case IBCOLL_LOR:
    case IBCOLL_LXOR:
      return is_integer(type) || type == IBCOLL_BOOL || type == IBCOLL_BYTE;
    case IBCOLL_MINLOC:
    case IBCOLL_MAXLOC:
      return type == IBCOLL_INT_INT;
    default:
      return false;
  }
}

/// `vector`: elements of what has the call's size, as Selection has it; `significant`: whether this
/// rank's receive buffer is.
template <class Tell>
Outcome combine(const Attempt& attempt, DescribedCall& call, const void* send, void* recv,
                Handle type, Handle op, const Elements& has, Count vector, bool significant,
                const Tell& tell) {
  const Datatype* const elements = find_datatype(attempt.job, type);
  if (elements == nullptr) return kToMpi;
  const FoundCombination found = find_combination(attempt.job, *elements, op);
  if (!attempt.takes(vector * elements->size, is_exact(found))) return kSizeToMpi;
  if (found.status != IBCOLL_OK) return attempt.failed(found.status);
  if (!found.combination) return kOfTheMpi;
  const bool sent_in_place = is_in_place(send);
  if ((sent_in_place && !significant) || (significant && is_in_place(recv))) return kToMpi;
  if (has.sent == 0) return kNothingToDo;
  // Not every MPI says that this is wrong: those that do not take it for in place.
  const bool alias = significant && send == recv && send != nullptr;
  if (alias && refuses_alias(attempt, send, recv, has.received, type, op)) return kToMpi;
  if ((send == nullptr || (significant && recv == nullptr && has.received != 0)) &&
      elements->contiguous && elements->size != 0 && attempt.reports_missing())
    return kToMpi;
  const bool in_place = sent_in_place || alias;
  Reduction of{in_place ? IBCOLL_IN_PLACE : send,
               recv,
               found.combination->type,
               found.combination->op,
               elements->size,
               &attempt.job.reductions};
  if (found.combination->type == IBCOLL_OWN) call.combined = elements;
  if (found.combination->packs) {
    if (!in_place && !call.send.describe(send, has.sent, *elements, true, 0))
      return attempt.give_up();
    // What the engine leaves as it is comes back as it was.
    const Count held = in_place ? std::max(has.sent, has.received) : has.received;
    if (significant && !call.recv.describe(recv, held, *elements, true, 0))
      return attempt.give_up();
    if (!in_place) of.send = call.send.data();
    if (significant) of.recv = call.recv.data();
  }
  return tell(of);
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
  const Elements has = {all, call.counts[static_cast<size_t>(attempt.on.rank)]};
  return combine(attempt, call, send, recv, type, op, has, all, true, [&](const Reduction& of) {
    return call.told(all * of.size, [&] {
      return ibcoll_call_reduce_scatter(of.send, of.recv, call.counts.data(), of.type, of.op,
                                        of.options);
    });
  });
}

Outcome reduce(const Attempt& attempt, DescribedCall& call, const void* send, void* recv,
               Count count, Handle type, Handle op, int root) {
  if (!attempt.has_rank(root) || count < 0) return kToMpi;
  const bool is_root = attempt.on.rank == root;
  const Elements has = {count, is_root ? count : 0};
  return combine(attempt, call, send, recv, type, op, has, count, is_root,
                 [&](const Reduction& of) {
                   return call.told(count * of.size, [&] {
                     return ibcoll_call_reduce(of.send, of.recv, static_cast<size_t>(count),
                                               of.type, of.op, root, of.options);
                   });
                 });
}

/// Allreduce, scan, exscan, reduce_scatter_block.
using TellReduction = ibcoll_call(const void*, void*, size_t, ibcoll_type, ibcoll_operator,
                                  const ibcoll_options*);
Outcome combine_on_all(const Attempt& attempt, DescribedCall& call, const void* send, void* recv,
                       Count count, Handle type, Handle op, TellReduction* tell) {
  if (count < 0) return kToMpi;
  const int vectors = tell == ibcoll_call_reduce_scatter_block ? attempt.on.size : 1;
  const Elements has = {count * vectors, count};
  return combine(attempt, call, send, recv, type, op, has, count, true, [&](const Reduction& of) {
    return call.told(count * of.size * vectors, [&] {
      return tell(of.send, of.recv, static_cast<size_t>(count), of.type, of.op, of.options);
    });
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
