/* Numbers of teams. The first member of a team gives them, no two alike but those of teams that it
 * has destroyed: so teams of the same ranks differ, in whatever order their members make them. */
#include "component.h"

static uint64_t take_retired(tl_ibcoll_numbers* numbers, uint64_t list) {
  for (int i = 0; i < numbers->retired_count; ++i) {
    if (numbers->retired[i].list != list) continue;
    const uint64_t number = numbers->retired[i].number;
    numbers->retired[i] = numbers->retired[--numbers->retired_count];
    return number;
  }
  return 0;
}

void tl_ibcoll_propose(tl_ibcoll_numbers* numbers, uint64_t list, tl_ibcoll_vote* vote) {
  pthread_mutex_lock(&numbers->mutex);
  vote->fresh = ++numbers->last;
  vote->number = take_retired(numbers, list);
  if (vote->number == 0) vote->number = ++numbers->last;
  pthread_mutex_unlock(&numbers->mutex);
}

void tl_ibcoll_retire(tl_ibcoll_numbers* numbers, uint64_t list, uint64_t number) {
  const int room = sizeof numbers->retired / sizeof *numbers->retired;
  pthread_mutex_lock(&numbers->mutex);
  if (numbers->retired_count < room) { /* else it is not given again */
    numbers->retired[numbers->retired_count].list = list;
    numbers->retired[numbers->retired_count++].number = number;
  }
  pthread_mutex_unlock(&numbers->mutex);
}

int tl_ibcoll_watch(tl_ibcoll_numbers* numbers) {
  int number = 0;
  pthread_mutex_lock(&numbers->mutex);
  while (number < 64 && (numbers->watches >> number & 1)) ++number;
  if (number < 64) numbers->watches |= (uint64_t)1 << number;
  pthread_mutex_unlock(&numbers->mutex);
  return number < 64 ? number : -1;
}

void tl_ibcoll_unwatch(tl_ibcoll_numbers* numbers, int number) {
  pthread_mutex_lock(&numbers->mutex);
  numbers->watches &= ~((uint64_t)1 << number);
  pthread_mutex_unlock(&numbers->mutex);
}
