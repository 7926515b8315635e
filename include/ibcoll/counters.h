/** @file
 * ibcoll: what went over the network. Included by ibcoll.h.
 */
#ifndef IBCOLL_COUNTERS_H
#define IBCOLL_COUNTERS_H

#include "ibcoll/ibcoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup counters What happened
 * What went between servers so far.
 * @{ */

/** Since the context was made, on this rank. Between servers: data that stays inside a server is
 * not counted. */
typedef struct ibcoll_counters {
  size_t struct_size;     /**< sizeof(ibcoll_counters), set by the program */
  uint64_t data_messages; /**< puts of at least one byte */
  uint64_t tokens;        /**< exposures, tokens and other messages without data */
  uint64_t data_bytes;    /**< of the data messages */
} ibcoll_counters;
/** As ibcoll_get_counters takes it. */
#define IBCOLL_COUNTERS_INIT \
  { sizeof(ibcoll_counters), 0, 0, 0 }
/** Fills in as much as the program's struct has room for. */
IBCOLL_API ibcoll_status ibcoll_get_counters(const ibcoll_context* context,
                                             ibcoll_counters* counters);
/** Counter number `index` (from 0) of all that the transport between servers keeps on this rank:
 * the above, gathers, queue_pairs, registrations, with verbs doorbells, completions and others.
 * Names that begin with port_ count all traffic of the port. IBCOLL_ERR_INVALID past the last one.
 * Not for the data path. */
IBCOLL_API ibcoll_status ibcoll_get_named_counter(const ibcoll_context* context, int index,
                                                  const char** name, uint64_t* value);
/** The transport between servers: "loopback", "verbs"; "none" on a single server. */
IBCOLL_API const char* ibcoll_transport(const ibcoll_context* context);
/** @} */

#ifdef __cplusplus
}
#endif

#endif
