/* Private buffers that come again: they are moved to huge pages, and hold what they held. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "sweep.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { HUGE_PAGE = 2 << 20, LONG = 8 << 20, BLOCK = 256 << 10, AROUND = 64 };

/* Bytes of what smaps says of the mapping that an address lies in. */
static long mapping_says(const void* address, const char* what) {
  char line[512];
  long kilobytes = 0;
  int is_it = 0;
  FILE* const maps = fopen("/proc/self/smaps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin = 0, end = 0;
    if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
      is_it = begin <= (uintptr_t)address && (uintptr_t)address < end;
    else if (is_it && strncmp(line, what, strlen(what)) == 0)
      sscanf(line + strlen(what), ": %ld", &kilobytes);
  }
  if (maps != NULL) fclose(maps);
  return kilobytes * 1024;
}
static long huge_bytes(const void* address) { return mapping_says(address, "AnonHugePages"); }

/* A mapping of its own: pages that nobody can reach lie around it. `step`: between its bytes that
 * are in use. */
static unsigned char* array(size_t bytes, size_t step) {
  unsigned char* const place =
      mmap(NULL, bytes + 2 * HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) wrong("mmap", "memory", (long)bytes, 0, 1);
  unsigned char* const got =
      (unsigned char*)(((uintptr_t)place + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE);
  mprotect(got, bytes, PROT_READ | PROT_WRITE);
  for (size_t i = 0; i < bytes; i += step) got[i] = (unsigned char)(i / step);
  return got;
}

/* Whether the kernel can: an older one, or one whose memory is in small pieces, can't. */
static int can_collapse(void) {
  unsigned char* const own = array(LONG, 1);
  const int can = madvise(own, LONG, MADV_COLLAPSE) == 0;
  munmap(own, LONG);
  return can;
}

/* `wanted`: as the library was told. */
void collapsed_buffers(int wanted) {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  unsigned char *send = array(LONG, 1), *recv = array(LONG, 1),
                *sparse = array(LONG, HUGE_PAGE / 4);
  unsigned char* const kept = memory(LONG);
  memcpy(kept, send, LONG);
  /* The kernel makes huge pages by itself. */
  if (huge_bytes(send) != 0) return;
  const int expected = wanted && can_collapse();
  for (int call = 0; call < 4; ++call) {
    MPI_Alltoall(send + AROUND, BLOCK, MPI_BYTE, recv + AROUND, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Allgather(sparse + AROUND, BLOCK, MPI_BYTE, recv + LONG / 2, BLOCK, MPI_BYTE,
                  MPI_COMM_WORLD);
    const long huge = huge_bytes(send);
    if (call == 0 && huge != 0) wrong("collapse", "a first call", call, huge, 0);
    if (call > 0 && huge != 0 && !wanted) wrong("collapse", "later calls", call, huge, 0);
    if (call > 0 && huge == 0 && expected && can_collapse())
      wrong("collapse", "later calls", call, 0, 1);
  }
  if (memcmp(kept, send, LONG) != 0) wrong("collapse", "what a buffer held", 0, 0, 1);
  for (int from = 0; from < size; ++from)
    if (memcmp(recv + AROUND + from * BLOCK, kept + AROUND + rank * BLOCK, BLOCK) != 0)
      wrong("MPI_Alltoall", "collapsed memory", from, 0, 1);
  /* What is in use here and there takes no more memory than before. */
  if (huge_bytes(sparse) != 0) wrong("collapse", "memory in use here and there", 0, 1, 0);
}
