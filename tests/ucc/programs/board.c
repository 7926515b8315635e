#include "board.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static board* g_boards;

void make_boards(void) {
  g_boards = mmap(NULL, kBoards * sizeof *g_boards, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (g_boards != MAP_FAILED) return;
  perror("mmap");
  exit(1);
}

place place_on(int number, int rank, int size) {
  board* const shared = &g_boards[number];
  const place result = {shared, rank, size, atomic_load(&shared->posted[rank]), 0};
  return result;
}

typedef struct exchange {
  const place* of;
  unsigned long number;
  char* all;
  size_t bytes;
} exchange;

static ucc_status_t post(void* mine, void* all, size_t bytes, void* info, void** request) {
  place* const of = info;
  if (of->last != 0 && of->count >= of->last) kill(getpid(), SIGKILL);
  exchange* const made = malloc(sizeof *made);
  if (bytes > kSlotBytes || made == NULL) {
    free(made);
    return UCC_ERR_NO_MEMORY;
  }
  *made = (exchange){of, of->count++, all, bytes};
  memcpy(of->shared->slots[made->number % 2][of->rank], mine, bytes);
  atomic_store(&of->shared->posted[of->rank], made->number + 1);
  *request = made;
  return UCC_OK;
}

static ucc_status_t test(void* request) {
  const exchange* const of = request;
  const board* const shared = of->of->shared;
  for (int rank = 0; rank < of->of->size; ++rank)
    if (atomic_load(&shared->posted[rank]) <= of->number) return UCC_INPROGRESS;
  for (int rank = 0; rank < of->of->size; ++rank)
    memcpy(of->all + (size_t)rank * of->bytes, shared->slots[of->number % 2][rank], of->bytes);
  return UCC_OK;
}

static ucc_status_t release(void* request) {
  free(request);
  return UCC_OK;
}

ucc_oob_coll_t allgather_over(place* of) {
  const ucc_oob_coll_t result = {.allgather = post,
                                 .req_test = test,
                                 .req_free = release,
                                 .coll_info = of,
                                 .n_oob_eps = (uint32_t)of->size,
                                 .oob_ep = (uint32_t)of->rank};
  return result;
}
