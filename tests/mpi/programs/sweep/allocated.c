/* Memory of MPI_Alloc_mem. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sweep.h"

enum { BYTES = 1 << 20, INTS = BYTES / (int)sizeof(int) };

/* Whether an address lies in the engine's memory, which is a file of that name to the kernel. */
static int is_engines(const void* address) {
  char line[512];
  int found = 0;
  FILE* const maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin = 0, end = 0;
    if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && begin <= (uintptr_t)address &&
        (uintptr_t)address < end)
      found = strstr(line, "memfd:ibcoll") != NULL;
  }
  if (maps != NULL) fclose(maps);
  return found;
}

static void* allocate(MPI_Aint bytes, MPI_Info info, int engines, const char* what) {
  unsigned char* got = NULL;
  MPI_Alloc_mem(bytes, info, &got);
  if (is_engines(got) != engines) wrong("MPI_Alloc_mem", what, (long)bytes, !engines, engines);
  memset(got, 1, (size_t)bytes);
  return got;
}

/* Collectives and windows in such memory. */
static void use(int* in, int* out, int rank, int size) {
  for (int i = 0; i < INTS; ++i) in[i] = rank + i;
  MPI_Allreduce(in, out, INTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < INTS; ++i)
    if (out[i] != size * i + size * (size - 1) / 2)
      wrong("MPI_Allreduce", "allocated memory", i, out[i], size * i + size * (size - 1) / 2);
  MPI_Win window;
  MPI_Win_create(out, BYTES, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  MPI_Put(in, INTS, MPI_INT, (rank + 1) % size, 0, INTS, MPI_INT, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
  const int from = (rank + size - 1) % size;
  for (int i = 0; i < INTS; ++i)
    if (out[i] != from + i) wrong("MPI_Put", "allocated memory", i, out[i], from + i);
}

const int* allocated_memory(int engines) {
  enum { ROUNDS = 200, MANY = 50 };
  int rank = 0, size = 1;
  MPI_Comm other;
  MPI_Info info;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  /* Before any collective. */
  int* in = allocate(BYTES, MPI_INFO_NULL, engines, "at first");
  int* out = allocate(BYTES, MPI_INFO_NULL, engines, "at first");
  use(in, out, rank, size);
  /* Communicators that were served by it go. */
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  MPI_Allreduce(in, out, INTS, MPI_INT, MPI_SUM, other);
  MPI_Comm_free(&other);
  use(in, out, rank, size);
  /* Keys that mean nothing here, and one that does. */
  MPI_Info_create(&info);
  MPI_Info_set(info, "alloc_shared_noncontig", "true");
  MPI_Info_set(info, "mpi_minimum_memory_alignment", "64");
  MPI_Free_mem(allocate(BYTES, info, engines, "with keys"));
  MPI_Info_set(info, "mpi_minimum_memory_alignment", "2097152");
  MPI_Free_mem(allocate(BYTES, info, 0, "of an alignment"));
  MPI_Info_free(&info);
  /* What is short is the MPI's, and freed by it. */
  MPI_Free_mem(allocate(16, MPI_INFO_NULL, 0, "of few bytes"));
  /* Again and again, and more than there is (the test leaves room for 64 MB). */
  for (int i = 0; i < ROUNDS; ++i) MPI_Free_mem(allocate(BYTES, MPI_INFO_NULL, engines, "again"));
  void* many[MANY];
  for (int i = 0; i < MANY; ++i) {
    many[i] = NULL;
    MPI_Alloc_mem(4 * BYTES, MPI_INFO_NULL, &many[i]);
    memset(many[i], i, 4 * BYTES);
  }
  if (engines && (!is_engines(many[0]) || is_engines(many[MANY - 1])))
    wrong("MPI_Alloc_mem", "more than there is", MANY, is_engines(many[MANY - 1]), 0);
  for (int i = 0; i < MANY; ++i) MPI_Free_mem(many[i]);
  use(in, out, rank, size);
  MPI_Free_mem(in);
  return out;
}

void check_allocated(const int* kept, int rank, int size) {
  const int from = (rank + size - 1) % size;
  for (int i = 0; i < INTS; ++i)
    if (kept[i] != from + i) {
      fprintf(stderr, "after MPI_Finalize there is %d instead of %d\n", kept[i], from + i);
      exit(3);
    }
}

/* What a child writes is its own, and it sees what there was when it was made. */
void forked_memory(void) {
  int rank = 0, size = 0, status = 0, changed[2];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int *const in = allocate(BYTES, MPI_INFO_NULL, 1, "at first"), *const out =
                                                                     allocate(BYTES, MPI_INFO_NULL,
                                                                              1, "at first");
  use(in, out, rank, size);
  for (int i = 0; i < INTS; ++i) in[i] = i;
  if (pipe(changed) != 0) wrong("pipe", "forked", 0, -1, 0);
  const pid_t child = fork();
  if (child == 0) {
    char sign = 0;
    if (read(changed[0], &sign, 1) != 1) _exit(1);
    for (int i = 0; i < INTS; ++i)
      if (in[i] != i) _exit(2);
    memset(in, 0xff, BYTES);
    memset(out, 0xff, BYTES);
    _exit(0);
  }
  in[INTS - 1] = 0;
  if (child < 0 || write(changed[1], "x", 1) != 1) wrong("fork", "forked", 0, child, 0);
  if (waitpid(child, &status, 0) != child || status != 0)
    wrong("fork", "what the child has seen", 0, status, 0);
  for (int i = 0; i < INTS - 1; ++i)
    if (in[i] != i) wrong("fork", "what the child has written", i, in[i], i);
  use(in, out, rank, size);
  MPI_Free_mem(in);
  MPI_Free_mem(out);
  close(changed[0]);
  close(changed[1]);
}
