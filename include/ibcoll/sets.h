/** @file
 * ibcoll: sets of ranks, and calls on them with no group made beforehand. Included by ibcoll.h.
 *
 *   uint64_t set[16] = {0};                    // ibcoll_set_words(1024) words
 *   ibcoll_set_add(set, 3);
 *   ibcoll_set_add(set, 700);
 *   ibcoll_call call = ibcoll_call_bcast(buffer, bytes, 0, NULL);    // from rank 3, member 0
 *   status = ibcoll_set_call(context, set, 16, tag, &call);
 */
#ifndef IBCOLL_SETS_H
#define IBCOLL_SETS_H

#include "ibcoll/ibcoll.h"
#include "ibcoll/requests.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup sets Sets of ranks
 * Any members of the job make a call together, without a group of theirs.
 *
 * A set is a bitmap: bit r % 64 of word r / 64 says that rank r of the job is a member. Words
 * behind the last member may be left out. In a call on a set, ranks (roots, blocks) are positions
 * among the members in ascending order: ibcoll_set_id() and ibcoll_set_rank() convert.
 *
 * All members make the call with the same set and the same tag, and nobody else does. Nothing is
 * arranged before: the first call on a set takes what a later one does, but for its program, which
 * is built once for all sets that have as many members on each server. Calls with the same set and
 * tag are matched in the order in which each member makes them: that of ibcoll_set_call_init, not
 * of ibcoll_start. Calls with another set or another tag have nothing to do with them: any number
 * may be under way, made, started, waited for and freed in another order on each member. Each call
 * stands for itself. Where one ends early (ibcoll_cancel, its deadline, in a job of one machine the
 * death of a member) it is over on all its members, and the others go on; the scope of its error is
 * IBCOLL_SCOPE_GROUP all the same, since other members have it, too.
 *
 * Each member counts its calls by set and tag, and remembers the count for at least the 131072
 * pairs of set and tag that it has used last, in at most 6 MiB. A pair that some members have
 * forgotten and others have not is not matched any more: ranks wait for each other. So a program
 * whose sets change all the time numbers its calls, and takes the number for the tag: no pair is
 * then used twice.
 *
 * With automatic choice (ibcoll_options) no call on a set takes the contention_free algorithm,
 * whose plans are made set by set; by its name it is to be had.
 * @{ */

/** Words of a bitmap that has a bit for each of so many ranks. */
static inline size_t ibcoll_set_words(int ranks) {
  return ranks <= 0 ? 0 : ((size_t)ranks + 63) / 64;
}

/** Makes the set empty. */
static inline void ibcoll_set_clear(uint64_t* set, size_t words) {
  for (size_t i = 0; i < words; ++i) set[i] = 0;
}

/** Makes `rank`, at least 0, a member. The bitmap must have a word for it. */
static inline void ibcoll_set_add(uint64_t* set, int rank) {
  set[rank / 64] |= (uint64_t)1 << rank % 64;
}

/** Makes `rank`, at least 0, no member. The bitmap must have a word for it. */
static inline void ibcoll_set_remove(uint64_t* set, int rank) {
  set[rank / 64] &= ~((uint64_t)1 << rank % 64);
}

/** 1 for a member, 0 for any other number. */
static inline int ibcoll_set_has(const uint64_t* set, size_t words, int rank) {
  return rank >= 0 && (size_t)rank / 64 < words && (set[rank / 64] >> rank % 64 & 1) != 0;
}

/** How many of a word's bits are set. */
static inline int ibcoll_set_bits(uint64_t word) {
#ifdef __GNUC__
  return __builtin_popcountll(word);
#else
  int bits = 0;
  for (; word != 0; word &= word - 1) ++bits;
  return bits;
#endif
}

/** How many members there are. */
static inline int ibcoll_set_size(const uint64_t* set, size_t words) {
  int size = 0;
  for (size_t i = 0; i < words; ++i) size += ibcoll_set_bits(set[i]);
  return size;
}

/** The position of `rank` among the members, from 0; -1 where it is none. */
static inline int ibcoll_set_id(const uint64_t* set, size_t words, int rank) {
  if (!ibcoll_set_has(set, words, rank)) return -1;
  return ibcoll_set_size(set, (size_t)rank / 64) +
         ibcoll_set_bits(set[rank / 64] & (((uint64_t)1 << rank % 64) - 1));
}

/** The member at position `id`, from 0; -1 where there is none. */
static inline int ibcoll_set_rank(const uint64_t* set, size_t words, int id) {
  if (id < 0) return -1;
  for (size_t i = 0; i < words; ++i) {
    uint64_t word = set[i];
    const int here = ibcoll_set_bits(word);
    if (id >= here) {
      id -= here;
      continue;
    }
    for (; id > 0; --id) word &= word - 1;
    int bit = 0;
    while ((word >> bit & 1) == 0) ++bit;
    return (int)(64 * i) + bit;
  }
  return -1;
}

/** Prepares a call of the members, of which this rank is one; ibcoll_start starts it. Local. As
 * ibcoll_call_init in all else, and the request is used like its requests. What is refused
 * (IBCOLL_ERR_INVALID) is not counted: the next call is matched in its place. */
IBCOLL_API ibcoll_status ibcoll_set_call_init(ibcoll_context* context, const uint64_t* members,
                                              size_t words, uint64_t tag, const ibcoll_call* call,
                                              ibcoll_request** request);
/** Makes a call of the members, and waits until this rank's part is done. Calls of several threads
 * may wait at a time. */
IBCOLL_API ibcoll_status ibcoll_set_call(ibcoll_context* context, const uint64_t* members,
                                         size_t words, uint64_t tag, const ibcoll_call* call);
/** A handle for the functions of groups: each call made on it, with ibcoll_alltoall() and its like
 * or with ibcoll_call_init(), is the next call on this set with this tag, as if ibcoll_set_call or
 * ibcoll_set_call_init had made it (ibcoll_exchange_counts and ibcoll_exchange_root_counts: one
 * call each). Members may make such handles, more than one of the same, or none. Local; to be freed
 * with ibcoll_group_free. ibcoll_group_cancel is refused: calls end one by one. */
IBCOLL_API ibcoll_status ibcoll_set_group(ibcoll_context* context, const uint64_t* members,
                                          size_t words, uint64_t tag, ibcoll_group** group);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
