/* The life of a collective: made, posted as often as it is persistent, tested by UCC's progress,
 * and put away. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "component.h"
#include "core/ucc_progress_queue.h"

static void construct(ucc_mpool_t* pool, void* object, void* chunk) {
  tl_ibcoll_task* const task = object;
  ucc_coll_task_mpool_ops.obj_init(pool, object, chunk);
  task->lists = NULL;
  task->lists_room = 0;
}

static void destruct(ucc_mpool_t* pool, void* object) {
  tl_ibcoll_task* const task = object;
  free(task->lists);
  ucc_coll_task_mpool_ops.obj_cleanup(pool, object);
}

ucc_status_t tl_ibcoll_tasks_init(ucc_mpool_t* tasks, ucc_thread_mode_t threads) {
  static ucc_mpool_ops_t own; /* the pool keeps its address */
  own = ucc_coll_task_mpool_ops;
  own.obj_init = construct;
  own.obj_cleanup = destruct;
  return ucc_mpool_init(tasks, 0, sizeof(tl_ibcoll_task), 0, UCC_CACHE_LINE_SIZE, 8, UINT_MAX, &own,
                        threads, "tl_ibcoll_tasks");
}

static _Atomic(ibcoll_request*)* place_of(tl_ibcoll_team* team, ucc_coll_type_t type) {
  return &team->idle[ucc_ilog2(type) % kKinds];
}

int tl_ibcoll_free_request(tl_ibcoll_team* team, ibcoll_request* request) {
  if (ibcoll_call_free(request) == IBCOLL_OK) return 0;
  (void)ibcoll_cancel(request);
  (void)ibcoll_wait(request);
  if (ibcoll_call_free(request) != IBCOLL_OK)
    tl_debug(UCC_TL_TEAM_LIB(team), "%s", ibcoll_last_error());
  return 1;
}

void tl_ibcoll_free_idle(tl_ibcoll_team* team) {
  for (int kind = 0; kind < kKinds; ++kind) {
    ibcoll_request* const request = atomic_exchange(&team->idle[kind], NULL);
    if (request != NULL) (void)tl_ibcoll_free_request(team, request);
  }
}

/** Keeps the request for the next collective of the kind, if it has ended well and none is kept.
 * Only those of the team's first group are: later ones are rare, and there is nothing to mix up. */
static void put_away_request(tl_ibcoll_task* task) {
  if (task->request == NULL) return;
  const ucc_status_t status = task->super.super.status;
  tl_ibcoll_team* const team = ucc_derived_of(task->super.team, tl_ibcoll_team);
  ibcoll_request* none = NULL;
  if (!task->on_set && (status == UCC_OK || status == UCC_OPERATION_INITIALIZED) &&
      team->resume.generation == 0 &&
      atomic_compare_exchange_strong(place_of(team, task->super.bargs.args.coll_type), &none,
                                     task->request))
    return;
  if (tl_ibcoll_free_request(team, task->request) && !task->on_set)
    tl_ibcoll_resume_after(team, task->generation);
}

static ucc_status_t finalize(ucc_coll_task_t* base) {
  tl_ibcoll_task* const task = ucc_derived_of(base, tl_ibcoll_task);
  if (task->waits) tl_ibcoll_resume_leave(task);
  put_away_request(task);
  ucc_mpool_put(task);
  return UCC_OK;
}

ucc_status_t tl_ibcoll_failed(const tl_ibcoll_team* team, ibcoll_status status) {
  tl_error(UCC_TL_TEAM_LIB(team), "%s", ibcoll_last_error());
  return tl_ibcoll_status(status);
}

/** How often progress tests before it goes back to UCC, which has other layers to look after: most
 * short collectives end meanwhile. */
enum { kTests = 8 };

static void carry_out(const tl_ibcoll_move* move) {
  if (move->bytes != 0) memmove(move->to, move->from, move->bytes);
}

static void progress(ucc_coll_task_t* base) {
  tl_ibcoll_task* const task = ucc_derived_of(base, tl_ibcoll_task);
  tl_ibcoll_team* const team = ucc_derived_of(base->team, tl_ibcoll_team);
  tl_ibcoll_context* const context = TL_IBCOLL_CONTEXT(team);
  int done = 0;
  ibcoll_status status = IBCOLL_OK;
  if (atomic_load_explicit(&context->resuming, memory_order_relaxed) != NULL)
    tl_ibcoll_resume_progress(context);
  if (!task->waits && base->status == UCC_INPROGRESS) {
    for (int left = context->yields ? 1 : kTests; left > 0 && !done && status == IBCOLL_OK; --left)
      status = ibcoll_test(task->request, &done);
  }
  if (status != IBCOLL_OK) {
    const int given_up = tl_ibcoll_is_given_up(status) && !task->on_set;
    base->status = tl_ibcoll_failed(team, status);
    if (given_up) tl_ibcoll_resume_after(team, task->generation);
  } else if (done) {
    carry_out(&task->after);
    base->status = UCC_OK;
  } else if (context->yields) {
    sched_yield();
  }
}

/** Starts the call on the team's group. */
static ucc_status_t start(tl_ibcoll_team* team, tl_ibcoll_task* task) {
  tl_ibcoll_resume* const resume = &team->resume;
  task->number = atomic_fetch_add(&resume->posted, 1) + 1;
  if (task->request == NULL || task->generation != resume->generation ||
      atomic_load(&resume->settling) != NULL)
    return tl_ibcoll_resume_post(task, 0);
  const ibcoll_status status = ibcoll_start(task->request);
  if (status == IBCOLL_OK) return UCC_OK;
  return tl_ibcoll_is_given_up(status) ? tl_ibcoll_resume_post(task, 1)
                                       : tl_ibcoll_failed(team, status);
}

/** What tells calls on a set of ranks apart from those of other teams, which may have the same tag.
 * First members number their teams, so numbers alone are not enough: teams that begin with
 * different ranks may have the same one, and the set in common. A job has at most a million ranks
 * (20 bits), and the tag, or none, takes 17: numbers come again after 2^27 teams. */
static uint64_t key_of(const tl_ibcoll_team* team, const ucc_coll_args_t* arguments) {
  const uint64_t tag = arguments->mask & UCC_COLL_ARGS_FIELD_TAG ? (uint64_t)arguments->tag + 1 : 0;
  return team->first << 44 | (team->number & 0x7ffffff) << 17 | tag;
}

/** A broadcast to some ranks of the team: members of an active set alone make it, so it has no
 * group, but is a call on a set of ranks. */
static ibcoll_status init_on_set(tl_ibcoll_team* team, const ucc_coll_args_t* arguments,
                                 ibcoll_call* call, ibcoll_request** request) {
  ibcoll_context* const job = TL_IBCOLL_CONTEXT(team)->job;
  const size_t words = ibcoll_set_words(ibcoll_size(job));
  uint64_t* const set = calloc(words, sizeof *set);
  if (set == NULL) return IBCOLL_ERR_NO_MEMORY;
  ucc_team_t* const core = UCC_TL_CORE_TEAM(team);
  const ucc_ep_map_t ranks = UCC_TL_TEAM_MAP(team);
  int64_t member = (int64_t)arguments->active_set.start;
  for (uint64_t i = 0; i < arguments->active_set.size; ++i, member += arguments->active_set.stride)
    ibcoll_set_add(set, (int)ucc_get_ctx_rank(core, ucc_ep_map_eval(ranks, (ucc_rank_t)member)));
  const ucc_rank_t root = ucc_ep_map_eval(ranks, (ucc_rank_t)arguments->root);
  call->root = ibcoll_set_id(set, words, (int)ucc_get_ctx_rank(core, root));
  const ibcoll_status status =
      ibcoll_set_call_init(job, set, words, key_of(team, arguments), call, request);
  free(set);
  return status;
}

/** For keys: as good as different for any two pairs. */
static uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t mix = (a ^ b) * 0x9e3779b97f4a7c15;
  mix = (mix ^ mix >> 32) * 0xd6e8feb86659fd93;
  return mix ^ mix >> 32;
}

/** Starts a call of a team whose calls begin in another order on each rank. CL/HIER initializes
 * them in the same order on all, so that this numbers them. It posts some of them several times,
 * and changes their arguments in between. */
static ucc_status_t start_in_any_order(tl_ibcoll_team* team, tl_ibcoll_task* task) {
  if (task->request != NULL) (void)tl_ibcoll_free_request(team, task->request);
  task->request = NULL;
  const ucc_status_t described =
      tl_ibcoll_describe(team, &task->super.bargs.args, task, &task->call);
  if (described != UCC_OK) return described;
  task->call.flags &= ~IBCOLL_PERSISTENT;
  const uint64_t of_team = team->first << 44 | (team->number & 0x7ffffff) << 17 | 0x1ffff;
  const uint64_t key = mixed(mixed(of_team, task->number), task->posts++);
  ibcoll_status status = ibcoll_set_call_init(TL_IBCOLL_CONTEXT(team)->job, team->set,
                                              team->set_words, key, &task->call, &task->request);
  if (status == IBCOLL_OK) status = ibcoll_start(task->request);
  return status == IBCOLL_OK ? UCC_OK : tl_ibcoll_failed(team, status);
}

/** Starts a call on some of the team's ranks. */
static ucc_status_t start_on_set(tl_ibcoll_team* team, tl_ibcoll_task* task) {
  const ibcoll_status status = ibcoll_start(task->request);
  return status == IBCOLL_OK ? UCC_OK : tl_ibcoll_failed(team, status);
}

static ucc_status_t post(ucc_coll_task_t* base) {
  tl_ibcoll_task* const task = ucc_derived_of(base, tl_ibcoll_task);
  tl_ibcoll_team* const team = ucc_derived_of(base->team, tl_ibcoll_team);
  base->status = UCC_INPROGRESS; /* before another thread can look */
  carry_out(&task->before);
  const ucc_status_t status = !task->on_set       ? start(team, task)
                              : team->set != NULL ? start_in_any_order(team, task)
                                                  : start_on_set(team, task);
  if (status != UCC_OK) return base->status = base->super.status = status;
  return ucc_progress_queue_enqueue(UCC_TASK_CORE_CTX(base)->pq, base);
}

/** A request for the call, which the team has kept or is new. */
static ibcoll_status init_on_team(tl_ibcoll_team* team, tl_ibcoll_task* task) {
  tl_ibcoll_resume* const resume = &team->resume;
  task->generation = resume->generation;
  if (task->generation != 0) return IBCOLL_OK; /* when it is posted */
  _Atomic(ibcoll_request*)* const kept = place_of(team, task->super.bargs.args.coll_type);
  task->request = atomic_exchange(kept, NULL);
  const ibcoll_status status = task->request == NULL
                                   ? ibcoll_call_init(team->group, &task->call, &task->request)
                                   : ibcoll_call_renew(task->request, &task->call);
  return tl_ibcoll_is_given_up(status) ? IBCOLL_OK : status;
}

ucc_status_t tl_ibcoll_collective_init(ucc_base_coll_args_t* given, ucc_base_team_t* base,
                                       ucc_coll_task_t** made) {
  tl_ibcoll_team* const team = ucc_derived_of(base, tl_ibcoll_team);
  const ucc_coll_args_t* const arguments = &given->args;
  const int is_active_set = UCC_COLL_ARGS_ACTIVE_SET(arguments);
  if (is_active_set && (arguments->coll_type != UCC_COLL_TYPE_BCAST || team->set != NULL))
    return UCC_ERR_NOT_SUPPORTED;
  tl_ibcoll_task* const task = ucc_mpool_get(&TL_IBCOLL_CONTEXT(team)->tasks);
  if (task == NULL) return UCC_ERR_NO_MEMORY;
  ucc_status_t status = ucc_coll_task_init(&task->super, given, base);
  task->request = NULL;
  task->on_set = is_active_set || team->set != NULL;
  task->posts = 0;
  atomic_store(&task->waits, 0);
  task->token[0] = task->token[1] = 0;
  if (status == UCC_OK) status = tl_ibcoll_describe(team, arguments, task, &task->call);
  if (status == UCC_OK) {
    ibcoll_status prepared = IBCOLL_OK;
    if (is_active_set)
      prepared = init_on_set(team, arguments, &task->call, &task->request);
    else if (team->set == NULL)
      prepared = init_on_team(team, task);
    else
      task->number = atomic_fetch_add(&team->made, 1);
    if (prepared != IBCOLL_OK) status = tl_ibcoll_failed(team, prepared);
  }
  if (status != UCC_OK) {
    (void)finalize(&task->super);
    return status;
  }
  task->super.post = post;
  task->super.progress = progress;
  task->super.finalize = finalize;
  *made = &task->super;
  return UCC_OK;
}
