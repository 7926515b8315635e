/* Preloaded into MPICH (device ch4:ucx) when ranks outnumber cores: it polls without ever giving
 * the processor up, so that each message to a rank that isn't running costs a scheduler's time
 * slice. An empty poll yields here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

__attribute__((visibility("default"))) unsigned ucp_worker_progress(void* worker);

unsigned ucp_worker_progress(void* worker) {
  static unsigned (*progress)(void*);
  if (progress == 0) *(void**)&progress = dlsym(RTLD_NEXT, "ucp_worker_progress");
  const unsigned events = progress(worker);
  if (events == 0) sched_yield();
  return events;
}
