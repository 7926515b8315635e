/* How a team goes on after a rank has given up a call. The engine then ends the group on all ranks,
 * so that nobody writes to buffers that the program has back. Each rank finds that in its next call
 * of the team, and joins another group of the same ranks. There they first tell each other which of
 * their calls they had posted before. Calls up to the last of those are lost: some rank has seen
 * them end with an error, so those that come to them later get the same. The calls behind it are
 * made on the new group.
 *
 * All ranks post the calls of a team in the same order, so these are numbered by each rank alone.
 */
#include <stdlib.h>

#include "component.h"

static tl_ibcoll_team* team_of(const tl_ibcoll_task* task) {
  return ucc_derived_of(task->super.team, tl_ibcoll_team);
}

static void list(tl_ibcoll_team* team) {
  tl_ibcoll_context* const context = TL_IBCOLL_CONTEXT(team);
  if (team->resume.is_listed) return;
  team->resume.is_listed = 1;
  pthread_mutex_lock(&context->resuming_mutex);
  team->resume.next_listed = atomic_load(&context->resuming);
  atomic_store(&context->resuming, team);
  pthread_mutex_unlock(&context->resuming_mutex);
}

int tl_ibcoll_is_given_up(ibcoll_status status) {
  return (status == IBCOLL_ERR_CANCELLED || status == IBCOLL_ERR_DEADLINE) &&
         ibcoll_last_error_scope() == IBCOLL_SCOPE_GROUP;
}

/** Joins the next group and begins to tell the others. The mutex is held here and below. */
static ibcoll_status tell(tl_ibcoll_team* team) {
  tl_ibcoll_resume* const of = &team->resume;
  if (of->lasts == NULL) of->lasts = malloc(UCC_TL_TEAM_SIZE(team) * sizeof *of->lasts);
  if (of->lasts == NULL) return IBCOLL_ERR_NO_MEMORY;
  ibcoll_status status = tl_ibcoll_create_group(team);
  if (status != IBCOLL_OK) return status;
  const ibcoll_call call = {.struct_size = sizeof call,
                            .collective = IBCOLL_ALLGATHER,
                            .send = &of->last,
                            .recv = of->lasts,
                            .bytes = sizeof of->last};
  ibcoll_request* request = NULL;
  status = ibcoll_call_init(team->group, &call, &request);
  if (status != IBCOLL_OK) return status;
  status = ibcoll_start(request);
  if (status == IBCOLL_OK)
    atomic_store(&of->settling, request);
  else
    (void)ibcoll_call_free(request);
  return status;
}

/** The present group is over. `last`: the last call that this rank has posted on it. */
static void next_group(tl_ibcoll_team* team, uint64_t last) {
  tl_ibcoll_resume* const of = &team->resume;
  of->last = last > of->given_up ? last : of->given_up;
  list(team);
  ibcoll_status status;
  do {
    if (team->group != NULL) (void)ibcoll_group_free(team->group);
    team->group = NULL;
    atomic_fetch_add(&of->generation, 1);
    status = tell(team);
  } while (tl_ibcoll_is_given_up(status)); /* another rank has given up the next one already */
  tl_ibcoll_free_idle(team);
  if (status != IBCOLL_OK) of->over = tl_ibcoll_failed(team, status);
}

/** Starts the call of a task, if ranks still make it. */
static ucc_status_t launch(tl_ibcoll_task* task) {
  tl_ibcoll_team* const team = team_of(task);
  tl_ibcoll_resume* const of = &team->resume;
  if (of->over != UCC_OK) return of->over;
  if (task->number <= of->lost) {
    tl_error(UCC_TL_TEAM_LIB(team), "call %lu of the team was given up by a rank",
             (unsigned long)task->number);
    return UCC_ERR_TIMED_OUT;
  }
  if (task->request != NULL && task->generation != of->generation) {
    (void)tl_ibcoll_free_request(team, task->request);
    task->request = NULL;
  }
  ibcoll_status status = IBCOLL_OK;
  if (task->request == NULL) status = ibcoll_call_init(team->group, &task->call, &task->request);
  task->generation = of->generation;
  if (status == IBCOLL_OK) status = ibcoll_start(task->request);
  if (status == IBCOLL_OK) return UCC_OK;
  if (!tl_ibcoll_is_given_up(status)) return tl_ibcoll_failed(team, status);
  next_group(team, task->number - 1);
  return of->over != UCC_OK ? of->over : UCC_INPROGRESS;
}

/** Begins what waits, in its order, as long as the group is there. */
static void begin_waiting(tl_ibcoll_team* team) {
  tl_ibcoll_resume* const of = &team->resume;
  while (of->first_waiting != NULL && atomic_load(&of->settling) == NULL) {
    tl_ibcoll_task* const task = of->first_waiting;
    const ucc_status_t status = launch(task);
    if (status == UCC_INPROGRESS) return;
    of->first_waiting = task->next_waiting;
    if (status != UCC_OK) task->super.status = status;
    atomic_store(&task->waits, 0); /* last: progress looks at it without the mutex */
  }
}

/** Whether all ranks have told what they had posted. */
static int is_settled(tl_ibcoll_team* team) {
  tl_ibcoll_resume* const of = &team->resume;
  ibcoll_request* const request = atomic_load(&of->settling);
  int done = 0;
  const ibcoll_status status = ibcoll_test(request, &done);
  if (status == IBCOLL_OK && !done) return 0;
  const int again = tl_ibcoll_is_given_up(status);
  atomic_store(&of->settling, NULL);
  if (status != IBCOLL_OK && !again) of->over = tl_ibcoll_failed(team, status);
  (void)ibcoll_call_free(request);
  if (again) next_group(team, of->last);
  if (again || status != IBCOLL_OK) return !again || of->over != UCC_OK;
  for (ucc_rank_t rank = 0; rank < UCC_TL_TEAM_SIZE(team); ++rank)
    if (of->lasts[rank] > of->lost) of->lost = of->lasts[rank];
  if (of->given_up <= of->lost) return 1;
  /* Others would make it, and this rank does not. */
  (void)ibcoll_group_cancel(team->group);
  next_group(team, of->given_up);
  return of->over != UCC_OK;
}

void tl_ibcoll_resume_progress(tl_ibcoll_context* context) {
  /* Those that hold a team's mutex may want this one. */
  pthread_mutex_lock(&context->resuming_mutex);
  tl_ibcoll_team *first = NULL, *next;
  for (tl_ibcoll_team* team = atomic_load(&context->resuming); team != NULL; team = next) {
    tl_ibcoll_resume* const of = &team->resume;
    next = of->next_listed;
    if (pthread_mutex_trylock(&of->mutex) == 0) {
      if (atomic_load(&of->settling) == NULL || is_settled(team)) begin_waiting(team);
      of->is_listed = atomic_load(&of->settling) != NULL;
      const int stays = of->is_listed;
      pthread_mutex_unlock(&of->mutex);
      if (!stays) continue;
    }
    of->next_listed = first;
    first = team;
  }
  atomic_store(&context->resuming, first);
  pthread_mutex_unlock(&context->resuming_mutex);
}

void tl_ibcoll_resume_end(tl_ibcoll_team* team) {
  tl_ibcoll_context* const context = TL_IBCOLL_CONTEXT(team);
  pthread_mutex_lock(&context->resuming_mutex);
  if (team->resume.is_listed) {
    tl_ibcoll_team* first = atomic_load(&context->resuming);
    if (first == team) {
      atomic_store(&context->resuming, team->resume.next_listed);
    } else {
      while (first->resume.next_listed != team) first = first->resume.next_listed;
      first->resume.next_listed = team->resume.next_listed;
    }
  }
  pthread_mutex_unlock(&context->resuming_mutex);
  ibcoll_request* const settling = atomic_load(&team->resume.settling);
  if (settling != NULL) (void)tl_ibcoll_free_request(team, settling);
  free(team->resume.lasts);
  pthread_mutex_destroy(&team->resume.mutex);
}

ucc_status_t tl_ibcoll_resume_post(tl_ibcoll_task* task, int found_over) {
  tl_ibcoll_team* const team = team_of(task);
  tl_ibcoll_resume* const of = &team->resume;
  ucc_status_t status = UCC_INPROGRESS;
  pthread_mutex_lock(&of->mutex);
  if (found_over && task->generation == of->generation) next_group(team, task->number - 1);
  if (atomic_load(&of->settling) == NULL && of->first_waiting == NULL) status = launch(task);
  if (status == UCC_INPROGRESS) {
    task->next_waiting = NULL;
    atomic_store(&task->waits, 1);
    tl_ibcoll_task** place = &of->first_waiting;
    while (*place != NULL) place = &(*place)->next_waiting;
    *place = task;
  }
  pthread_mutex_unlock(&of->mutex);
  return status < 0 ? status : UCC_OK;
}

void tl_ibcoll_resume_after(tl_ibcoll_team* team, uint64_t generation) {
  tl_ibcoll_resume* const of = &team->resume;
  pthread_mutex_lock(&of->mutex);
  if (generation == of->generation) next_group(team, of->posted);
  pthread_mutex_unlock(&of->mutex);
}

void tl_ibcoll_resume_leave(tl_ibcoll_task* task) {
  tl_ibcoll_resume* const of = &team_of(task)->resume;
  pthread_mutex_lock(&of->mutex);
  if (task->waits) {
    tl_ibcoll_task** place = &of->first_waiting;
    while (*place != task) place = &(*place)->next_waiting;
    *place = task->next_waiting;
    if (task->number > of->given_up) of->given_up = task->number;
    atomic_store(&task->waits, 0);
  }
  pthread_mutex_unlock(&of->mutex);
}
