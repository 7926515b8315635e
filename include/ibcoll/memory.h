/** @file
 * ibcoll: memory that calls reach faster. Included by ibcoll.h.
 */
#ifndef IBCOLL_MEMORY_H
#define IBCOLL_MEMORY_H

#include "ibcoll/ibcoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup memory Memory
 * Any memory may be used for calls; what is given here, or registered, spares them work.
 * @{ */

/** At least `bytes` bytes (page aligned) that all ranks of the server and the network can reach
 * directly. Any other memory may be used for calls too; this one is faster. */
IBCOLL_API ibcoll_status ibcoll_alloc(ibcoll_context* context, size_t bytes, void** address);
/** Gives memory of ibcoll_alloc back. Refused while some of it is registered. NULL: nothing
 * happens. */
IBCOLL_API ibcoll_status ibcoll_free(ibcoll_context* context, void* address);

/** Makes any memory known to the network once, for all calls until it is deregistered: where a
 * buffer lies in it as a whole, or the blocks of one that has counts do, calls neither register nor
 * look for anything, and other ranks are told of it with the first call only. Registered memory may
 * overlap, must stay mapped, and counts against the limit of locked memory (ulimit -l) as a whole.
 * Local; where there is one server only it costs nothing. 0 bytes may be registered. Where the
 * network can't have this memory that is its error (IBCOLL_ERR_NO_MEMORY: a limit, which the line
 * names; IBCOLL_ERR_UNSUPPORTED, IBCOLL_ERR_SYSTEM), and the job goes on. */
IBCOLL_API ibcoll_status ibcoll_memory_register(ibcoll_context* context, void* address,
                                                size_t bytes, ibcoll_memory** memory);
/** Ends a registration; calls may go on to use the memory. Refused while a call that is under way
 * uses the registration. Local. NULL: nothing happens. */
IBCOLL_API ibcoll_status ibcoll_memory_deregister(ibcoll_memory* memory);
/** *shared: 1 where all ranks of the server read this memory in its place, without a system call or
 * a copy of it: that of ibcoll_alloc; 0 for any other. */
IBCOLL_API ibcoll_status ibcoll_memory_is_shared(const ibcoll_context* context, const void* address,
                                                 size_t bytes, int* shared);
/** @} */

#ifdef __cplusplus
}
#endif

#endif
