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
 * the above, gathers, queue_pairs, connections (open now, in either direction), registrations,
 * connections_closed where connections are limited (IBCOLL_MAX_CONNECTIONS), with
 * verbs doorbells, completions and others.
 * Names that begin with port_ count all traffic of the port. IBCOLL_ERR_INVALID past the last one.
 * Not for the data path. */
IBCOLL_API ibcoll_status ibcoll_get_named_counter(const ibcoll_context* context, int index,
                                                  const char** name, uint64_t* value);
/** How a message gets from one rank of a server to another. */
typedef enum ibcoll_way {
  IBCOLL_WAY_USUAL = -1, /**< as the costs of the machine say, by length */
  IBCOLL_WAY_RING = 0,   /**< copied through a ring in shared memory */
  IBCOLL_WAY_STREAMED,   /**< the same, written past the caches */
  IBCOLL_WAY_READ        /**< read by the receiver where it lies */
} ibcoll_way;
/** How many there are, but for the usual one. */
#define IBCOLL_WAYS 3

/** What a rank has learned of its messages to ranks of its server (IBCOLL_LEARN). */
typedef struct ibcoll_learned_way {
  size_t struct_size;     /**< sizeof(ibcoll_learned_way), set by the program */
  size_t from;            /**< the shortest of such messages, in bytes */
  size_t to;              /**< the longest */
  int private_memory;     /**< 1: they lie in memory that is not the library's own */
  int one_way;            /**< 1: this rank only sends in their call */
  int way;                /**< how they go (ibcoll_way) */
  int peers;              /**< to how many ranks they go so */
  double us[IBCOLL_WAYS]; /**< by ibcoll_way: what one of `to` bytes takes, to the rank where it
                               takes longest; 0: not known */
} ibcoll_learned_way;
/** As ibcoll_get_learned_way takes it. */
#define IBCOLL_LEARNED_WAY_INIT                               \
  {                                                           \
    sizeof(ibcoll_learned_way), 0, 0, 0, 0, 0, 0, { 0, 0, 0 } \
  }
/** Number `index` (from 0) of what this rank has learned so far of its messages. IBCOLL_ERR_INVALID
 * past the last one. Not for the data path. */
IBCOLL_API ibcoll_status ibcoll_get_learned_way(const ibcoll_context* context, int index,
                                                ibcoll_learned_way* way);
/** The transport between servers: "loopback", "verbs"; "none" on a single server. */
IBCOLL_API const char* ibcoll_transport(const ibcoll_context* context);
/** @} */

#ifdef __cplusplus
}
#endif

#endif
