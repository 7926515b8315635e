/** @file
 * ibcoll: messages to sets of ranks that nobody has arranged beforehand. Included by ibcoll.h.
 */
#ifndef IBCOLL_MULTICAST_H
#define IBCOLL_MULTICAST_H

#include "ibcoll/ibcoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup multicast Multicast
 * A rank, the master, sends the same data to any set of ranks, another one each time. The members
 * learn of it from the message itself; nothing is made beforehand, and other ranks do nothing.
 *
 * Sets are bitmaps: rank r is in the set if bit r % 64 of word r / 64 is set. The members pass the
 * message on to each other, in calls of theirs or by their progress threads
 * (ibcoll_set_progress_thread()), so every rank that may be a member must be in a call often
 * enough, or have such a thread. A member gets what one master sends to it in the order in which
 * that one has sent it.
 * @{ */

/** How a multicast is to be made. */
typedef struct ibcoll_multicast_options {
  size_t struct_size; /**< sizeof(ibcoll_multicast_options) */
  uint64_t tag;       /**< handed to the members, who may use it for what they like */
  const char*
      algorithm;       /**< of bcast, by which long messages are passed on; NULL, "auto": chosen */
  unsigned pieces;     /**< that long messages are cut into; 0: chosen */
  int acknowledged;    /**< 1: the request has finished when all members have the message, or is an
                            error which says who may lack it; 0: when the data may be overwritten */
  int64_t deadline_us; /**< the request ends with IBCOLL_ERR_DEADLINE if it takes longer; 0: never.
                            Members that were late may still get the message */
} ibcoll_multicast_options;
/** The defaults. */
#define IBCOLL_MULTICAST_OPTIONS_INIT \
  { sizeof(ibcoll_multicast_options), 0, NULL, 0, 0, 0 }

/** Sends `bytes` bytes at `data` to the set; returns at once. The data must stay as they are until
 * the request has finished (ibcoll_test(), ibcoll_wait()); it is freed by ibcoll_call_free(). What
 * is sent goes to one member, so the time this takes does not grow with the set. The calling rank
 * may be in the set: then it is handed the message, too. `options` NULL: the defaults. `request`
 * NULL: the call waits until the request would have finished.
 *
 * IBCOLL_ERR_BUSY, of this call alone, where as much of this rank's is under way as is allowed
 * (IBCOLL_MULTICAST_WINDOW messages, but for those that only late members lack), or a member of the
 * set is late with as much: the line names the rank that is waited for. Messages to sets without it
 * go on, but others of the same set that get the message through it are late, too. Nothing is
 * sent then: try again after some progress. */
IBCOLL_API ibcoll_status ibcoll_multicast(ibcoll_context* context, const uint64_t* members,
                                          size_t words, const void* data, size_t bytes,
                                          const ibcoll_multicast_options* options,
                                          ibcoll_request** request);
/** The ranks that may lack the message of a multicast whose request has finished with an error:
 * writes the first `capacity` of them to `ranks`, and how many they are to *count. */
IBCOLL_API ibcoll_status ibcoll_multicast_missing(const ibcoll_request* request, int* ranks,
                                                  int capacity, int* count);

/** A message that has come. */
typedef struct ibcoll_message {
  const void* data; /**< until the message is freed; aligned to 64 bytes */
  size_t bytes;     /**< of the data */
  uint64_t tag;     /**< ibcoll_multicast_options.tag */
  int master;       /**< who sent it */
  int members;      /**< of the set */
  int id;           /**< which of the members this rank is, from 0: its *logical id*. Members are
                         counted by server, servers by their lowest member, ranks ascending: where
                         servers hold consecutive ranks, in ascending order. The master is left out
                         of that: if it is a member itself it has the last id, members - 1 */
  int reserved;     /**< 0 */
} ibcoll_message;

/** Takes the message that has come first of those not taken, or waits for it `timeout_us`; 0: does
 * not wait, -1: as long as it takes. *message: NULL if none came. All calls of the context move on
 * meanwhile. Each message takes memory of the limit IBCOLL_MULTICAST_MEMORY until it is freed; when
 * that is used up this rank is late for those who send to it. Refused while there is a handler.
 *
 * Where a job survives a death (on one machine), a receive that finds no message fails once for
 * each rank that has died, or has left the job since, with an IBCOLL_ERR_PEER_FAILED of this call
 * alone that names it: nothing comes of that rank any more. The next receive waits for the others;
 * where none is left it fails again. */
IBCOLL_API ibcoll_status ibcoll_multicast_receive(ibcoll_context* context, int64_t timeout_us,
                                                  const ibcoll_message** message);
/** Gives a message of ibcoll_multicast_receive() back, with the context that has received it; any
 * other one refuses it (IBCOLL_ERR_INVALID). NULL: nothing happens. */
IBCOLL_API ibcoll_status ibcoll_message_free(ibcoll_context* context,
                                             const ibcoll_message* message);
/** Is handed a message, which is freed when it returns. Runs inside the calls of this context, or
 * in the progress thread; must not call ibcoll. */
typedef void (*ibcoll_multicast_handler)(void* argument, const ibcoll_message* message);
/** From now on messages are handed to `handler`, those that came before first; NULL: they wait for
 * ibcoll_multicast_receive(). */
IBCOLL_API ibcoll_status ibcoll_multicast_set_handler(ibcoll_context* context,
                                                      ibcoll_multicast_handler handler,
                                                      void* argument);

/** An upper bound, in microseconds, of the time from a multicast to the last acknowledgement, if
 * all members make progress at once: from the set, the size, and what messages cost on this
 * network (IBCOLL_LOGP, a file that ib_logp has written; IBCOLL_ERR_UNSUPPORTED without one). */
IBCOLL_API ibcoll_status ibcoll_multicast_bound(ibcoll_context* context, const uint64_t* members,
                                                size_t words, size_t bytes,
                                                const ibcoll_multicast_options* options,
                                                double* bound_us);

/** What multicasts have done on this rank. */
typedef struct ibcoll_multicast_counters {
  size_t struct_size;         /**< sizeof(ibcoll_multicast_counters), set by the program */
  uint64_t sent;              /**< multicasts of this rank */
  uint64_t received;          /**< handed over, or waiting to be taken */
  uint64_t announced;         /**< multicasts that a message of somebody's has told this rank of */
  uint64_t mails_sent;        /**< announcements, with short data in them, acknowledgements */
  uint64_t mails_received;    /**< of other ranks */
  uint64_t memory_bytes;      /**< that messages take now */
  uint64_t most_memory_bytes; /**< and at most so far */
} ibcoll_multicast_counters;
/** As ibcoll_multicast_get_counters() takes it. */
#define IBCOLL_MULTICAST_COUNTERS_INIT \
  { sizeof(ibcoll_multicast_counters), 0, 0, 0, 0, 0, 0, 0 }
/** Fills in as much as the program's struct has room for. */
IBCOLL_API ibcoll_status ibcoll_multicast_get_counters(const ibcoll_context* context,
                                                       ibcoll_multicast_counters* counters);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
