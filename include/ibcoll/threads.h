/** @file
 * ibcoll: threads that call at a time, and calls that move on while the program does something
 * else. Included by ibcoll.h.
 */
#ifndef IBCOLL_THREADS_H
#define IBCOLL_THREADS_H

#include "ibcoll/ibcoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup threads Threads and progress
 * Which threads may call, and who makes calls go on.
 * @{ */

/** Which threads may call. IBCOLL_THREAD_SERIALIZED unless IBCOLL_THREADS or the program says
 * otherwise. Local: ranks may differ. */
IBCOLL_API ibcoll_thread_level ibcoll_get_thread_level(const ibcoll_context* context);
/** Sets it; with the higher level a call costs some 30 ns more. IBCOLL_ERR_INVALID while another
 * thread is in a call, which nothing else may begin meanwhile. */
IBCOLL_API ibcoll_status ibcoll_set_thread_level(ibcoll_context* context,
                                                 ibcoll_thread_level level);
/** 1: a thread of the library's own, in which all signals are blocked, makes progress of the calls
 * under way whenever no call of the program waits, so that they advance while the program computes;
 * 0: none does (the default, unless IBCOLL_PROGRESS_THREAD says otherwise). It sleeps while nothing
 * arrives. The thread level stays what it is. Where connections between servers are limited
 * (IBCOLL_MAX_CONNECTIONS) there is one in any case, which helps peers while the program makes no
 * calls. Local. IBCOLL_ERR_INVALID while another thread of the
 * program is in a call, which nothing else may begin meanwhile; IBCOLL_ERR_SYSTEM where the system
 * gives no thread: all stays as it was. */
IBCOLL_API ibcoll_status ibcoll_set_progress_thread(ibcoll_context* context, int on);

/** One round of progress of all calls of the context; now and then it looks for peers that have
 * died and for deadlines, as ibcoll_test does. *moved (may be NULL): 1 if something moved. The
 * error that ended the job, if it is over. */
IBCOLL_API ibcoll_status ibcoll_progress(ibcoll_context* context, int* moved);
/** A descriptor for poll() or epoll, which ibcoll_arm arms. The context's: it is the same one each
 * time, nothing but poll and epoll may use it, and ibcoll_finalize closes it. */
IBCOLL_API ibcoll_status ibcoll_get_descriptor(ibcoll_context* context, int* fd);
/** To be called before each sleep on the descriptor. *armed = 1: the descriptor is not readable now
 * and becomes so (POLLIN) when something may have moved, at the latest after some 50 ms while calls
 * are under way, so that a program which then makes progress or tests notices peers that die or are
 * late. *armed = 0: something has moved since the last time; test what you wait for before you arm
 * again. It may become readable for nothing. Once readable it stays so until it is armed again. The
 * error that ended the job, if it is over. */
IBCOLL_API ibcoll_status ibcoll_arm(ibcoll_context* context, int* armed);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
