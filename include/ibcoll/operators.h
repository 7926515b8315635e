/** @file
 * ibcoll: operators of the program's own. Included by ibcoll.h.
 */
#ifndef IBCOLL_OPERATORS_H
#define IBCOLL_OPERATORS_H

#include "ibcoll/ibcoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup operators Operators of the program's own
 * Reductions by functions of the program, on elements of any size.
 *
 *   static const char* multiply(void* target, const void* source, size_t elements, void* context) {
 *     matrix* a = target;
 *     const matrix* b = source;
 *     for (size_t i = 0; i < elements; ++i) a[i] = product(a[i], b[i]);
 *     return NULL;
 *   }
 *   ibcoll_operator_description matrices = IBCOLL_OPERATOR_DESCRIPTION_INIT;
 *   matrices.element_bytes = sizeof(matrix);
 *   matrices.combine = multiply;
 *   ibcoll_operator op;
 *   status = ibcoll_operator_create(context, &matrices, &op);
 *   status = ibcoll_reduce(group, mine, all, 1, IBCOLL_OWN, op, 0, NULL);
 * @{ */

/** Combines elements of two arrays, one by one, into the first one. The arrays do not overlap, and
 * are a part of what is combined: at least one element. They lie in the program's buffers, aligned
 * as these are, or in memory of the library's, aligned as elements of that size can be (to the
 * largest power of two that divides it, 64 at most). In a group that is just being ended early the
 * source may hold anything.
 *
 * NULL: done. Else a line that says why it can't be done, which stays until the operator is freed;
 * the group is then over (IBCOLL_ERR_CANCELLED on all its ranks, with that line).
 *
 * It runs inside of calls, or in the progress thread, by one thread at a time. It must not call
 * ibcoll on its context, nor leave by longjmp or pthread_exit; a throw counts as that line. */
typedef const char* (*ibcoll_combine)(void* target, const void* source, size_t elements,
                                      void* context);

/** What an operator is. It must be associative. */
typedef struct ibcoll_operator_description {
  size_t struct_size;   /**< sizeof(ibcoll_operator_description) */
  size_t element_bytes; /**< of an element: 1 to 4194304 */
  /** target[i] = target[i] op source[i]: the target's element stands on the left. */
  ibcoll_combine combine;
  /** target[i] = source[i] op target[i], as MPI's functions have it, whose `inoutvec` is the
   * target. One of the two may be NULL. Where the operator commutes the other one is then taken for
   * both; where it does not, elements that have to be combined in the way that is missing pass
   * through a small copy. */
  ibcoll_combine combine_reversed;
  void* context; /**< passed to the functions */
  /** Called with `context` once nobody uses the operator any more; NULL: nothing. May be called by
   * any function of the library that ends or frees something, and must not call any. */
  void (*release)(void* context);
  /** What the program calls it, the same on all ranks: ranks that combine by operators of different
   * identifiers get an error. 0: nothing. */
  uint32_t identifier;
  /** 1: a op b is b op a. 0: elements are combined in the order of ranks, as if
   * ibcoll_options::ordered were set. The same on all ranks. */
  int commutes;
} ibcoll_operator_description;
/** Size and function are to be set. */
#define IBCOLL_OPERATOR_DESCRIPTION_INIT \
  { sizeof(ibcoll_operator_description), 0, NULL, NULL, NULL, NULL, 0, 0 }

/** Makes an operator that calls on this context may pass, with elements of IBCOLL_OWN or any type
 * that is as long. Local. `description` is copied. */
IBCOLL_API ibcoll_status ibcoll_operator_create(ibcoll_context* context,
                                                const ibcoll_operator_description* description,
                                                ibcoll_operator* op);
/** From now on no call may pass it. Those that were prepared with it keep it: functions and context
 * must stay until persistent requests have been freed, and others have finished; `release` is
 * called then. Local. */
IBCOLL_API ibcoll_status ibcoll_operator_free(ibcoll_context* context, ibcoll_operator op);

/** Whether elements of this type can be combined by this operator, one of the engine's: 0 or 1.
 * What a call would refuse is 0, and so are numbers that name none. Needs no context. */
IBCOLL_API int ibcoll_has_operator(ibcoll_type type, ibcoll_operator op);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
