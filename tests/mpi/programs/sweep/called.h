/* A collective in the form that is swept: blocking, nonblocking or persistent. */
#ifndef CALLED_H
#define CALLED_H

#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

enum { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
extern int g_form;
/* How often a persistent call is started: its buffers hold the same again after the first time. */
extern int g_starts;

/* Waits for a request, each time by another function. */
void complete(MPI_Request* request);
/* Starts a persistent call g_starts times, waits for it, and frees it. */
void start_and_complete(MPI_Request* request);

#if MPI_VERSION >= 4
#define PREPARED(name) MPI_##name##_init
#else
#define PREPARED(name) MPIX_##name##_init
#endif

#define CALLED(name, nonblocking, ...)                      \
  do {                                                      \
    MPI_Request called_;                                    \
    if (g_form == BLOCKING) {                               \
      MPI_##name(__VA_ARGS__);                              \
    } else if (g_form == NONBLOCKING) {                     \
      MPI_##nonblocking(__VA_ARGS__, &called_);             \
      complete(&called_);                                   \
    } else {                                                \
      PREPARED(name)(__VA_ARGS__, MPI_INFO_NULL, &called_); \
      start_and_complete(&called_);                         \
    }                                                       \
  } while (0)

#endif
