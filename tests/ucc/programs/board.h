/** @file
 * Processes that use UCC without an MPI: they are forked, and share boards of memory over which UCC
 * exchanges what it needs to begin.
 */
#ifndef IBCOLL_TESTS_UCC_BOARD_H
#define IBCOLL_TESTS_UCC_BOARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <ucc/api/ucc.h>

enum { kBoards = 16, kMaxRanks = 8, kSlotBytes = 32768 };

/** One allgather after another of the same processes. What a process writes for one is read by all
 * before it writes for the next but one: so two slots are enough. */
typedef struct board {
  atomic_ulong posted[kMaxRanks];
  char slots[2][kMaxRanks][kSlotBytes];
} board;

/** This process's place among those that use a board. */
typedef struct place {
  board* shared;
  int rank;
  int size;
  unsigned long count; /**< allgathers that it has posted */
  unsigned long last;  /**< it is killed when it is to post another one after so many; 0: never */
} place;

/** Makes the boards that processes forked from now on share. */
void make_boards(void);
/** The place of a process; boards that others use at the same time must be different ones. */
place place_on(int board, int rank, int size);
/** UCC's description of it, valid as long as `of` is. */
ucc_oob_coll_t allgather_over(place* of);

#endif
