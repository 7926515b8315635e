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

static void* library_of(const tl_ibcoll_task* task) { return task->super.team->context->lib; }

static _Atomic(ibcoll_request*)* place_of(tl_ibcoll_team* team, ucc_coll_type_t type) {
  return &team->idle[ucc_ilog2(type) % kKinds];
}

/** Frees a request. One that is under way (UCC gave up waiting) ends its group first: peers could
 * still write to buffers that the program takes back now. */
static void free_request(void* library, ibcoll_request* request) {
  if (ibcoll_call_free(request) == IBCOLL_OK) return;
  (void)ibcoll_cancel(request);
  (void)ibcoll_wait(request);
  if (ibcoll_call_free(request) != IBCOLL_OK) tl_debug(library, "%s", ibcoll_last_error());
}

void tl_ibcoll_free_idle(tl_ibcoll_team* team) {
  for (int kind = 0; kind < kKinds; ++kind) {
    ibcoll_request* const request = atomic_exchange(&team->idle[kind], NULL);
    if (request != NULL) free_request(UCC_TL_TEAM_LIB(team), request);
  }
}

/** Keeps the request for the next collective of the kind, if it has ended well and none is kept. */
static void put_away_request(tl_ibcoll_task* task) {
  if (task->request == NULL) return;
  const ucc_status_t status = task->super.super.status;
  tl_ibcoll_team* const team = ucc_derived_of(task->super.team, tl_ibcoll_team);
  ibcoll_request* none = NULL;
  if (task->on_set || (status != UCC_OK && status != UCC_OPERATION_INITIALIZED) ||
      !atomic_compare_exchange_strong(place_of(team, task->super.bargs.args.coll_type), &none,
                                      task->request))
    free_request(library_of(task), task->request);
}

static ucc_status_t finalize(ucc_coll_task_t* base) {
  tl_ibcoll_task* const task = ucc_derived_of(base, tl_ibcoll_task);
  put_away_request(task);
  ucc_mpool_put(task);
  return UCC_OK;
}

static ucc_status_t failed(const tl_ibcoll_task* task, ibcoll_status status) {
  tl_error(library_of(task), "%s", ibcoll_last_error());
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
  const tl_ibcoll_context* const context = ucc_derived_of(base->team->context, tl_ibcoll_context);
  int done = 0;
  ibcoll_status status = IBCOLL_OK;
  for (int left = context->yields ? 1 : kTests; left > 0 && !done && status == IBCOLL_OK; --left)
    status = ibcoll_test(task->request, &done);
  if (status != IBCOLL_OK) {
    base->status = failed(task, status);
  } else if (done) {
    carry_out(&task->after);
    base->status = UCC_OK;
  } else if (context->yields) {
    sched_yield();
  }
}

static ucc_status_t post(ucc_coll_task_t* base) {
  tl_ibcoll_task* const task = ucc_derived_of(base, tl_ibcoll_task);
  carry_out(&task->before);
  const ibcoll_status status = ibcoll_start(task->request);
  if (status != IBCOLL_OK) return base->status = base->super.status = failed(task, status);
  base->status = UCC_INPROGRESS;
  return ucc_progress_queue_enqueue(UCC_TASK_CORE_CTX(base)->pq, base);
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

/** A request for the call, which the team has kept or is new. */
static ibcoll_status init_on_team(tl_ibcoll_team* team, ucc_coll_type_t type,
                                  const ibcoll_call* call, ibcoll_request** request) {
  *request = atomic_exchange(place_of(team, type), NULL);
  return *request == NULL ? ibcoll_call_init(team->group, call, request)
                          : ibcoll_call_renew(*request, call);
}

ucc_status_t tl_ibcoll_collective_init(ucc_base_coll_args_t* given, ucc_base_team_t* base,
                                       ucc_coll_task_t** made) {
  tl_ibcoll_team* const team = ucc_derived_of(base, tl_ibcoll_team);
  const ucc_coll_args_t* const arguments = &given->args;
  const int on_set = UCC_COLL_ARGS_ACTIVE_SET(arguments);
  if (on_set && arguments->coll_type != UCC_COLL_TYPE_BCAST) return UCC_ERR_NOT_SUPPORTED;
  tl_ibcoll_task* const task = ucc_mpool_get(&TL_IBCOLL_CONTEXT(team)->tasks);
  if (task == NULL) return UCC_ERR_NO_MEMORY;
  ucc_status_t status = ucc_coll_task_init(&task->super, given, base);
  task->request = NULL;
  task->on_set = on_set;
  task->before = task->after = (tl_ibcoll_move){0};
  task->token[0] = task->token[1] = 0;
  ibcoll_call call;
  if (status == UCC_OK) status = tl_ibcoll_describe(team, arguments, task, &call);
  if (status == UCC_OK) {
    const ibcoll_status prepared =
        on_set ? init_on_set(team, arguments, &call, &task->request)
               : init_on_team(team, arguments->coll_type, &call, &task->request);
    if (prepared != IBCOLL_OK) status = failed(task, prepared);
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
