/* For LD_PRELOAD: lets other processes run after each progress of UCC. TL/UCP does not where there
 * are more processes than cores, and one that waits takes the core of the one that it waits for. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

__attribute__((visibility("default"))) int ucc_context_progress(void* context);

int ucc_context_progress(void* context) {
  static int (*progress)(void*);
  if (progress == NULL) *(void**)&progress = dlsym(RTLD_NEXT, "ucc_context_progress");
  const int status = progress(context);
  sched_yield();
  return status;
}
