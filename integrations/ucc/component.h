/** @file
 * The team layer `ibcoll` of UCC: teams are groups of the engine, and collectives are its requests.
 * Everything here is per minor version of UCC, whose internal structs it is compiled with; the
 * engine is used through its public interface alone.
 */
#ifndef IBCOLL_INTEGRATIONS_UCC_COMPONENT_H
#define IBCOLL_INTEGRATIONS_UCC_COMPONENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "components/tl/ucc_tl.h"
#include "components/tl/ucc_tl_log.h"
#include "core/ucc_team.h"
#include "ibcoll/ibcoll.h"
#include "schedule/ucc_schedule.h"
#include "utils/ucc_mpool.h"

/** Higher than TL/UCP's 10 and NCCL's 20, lower than SHARP's 30: scores of layers must differ. */
#define TL_IBCOLL_SCORE 26

#define TL_IBCOLL_COLLECTIVES                                                                \
  (UCC_COLL_TYPE_ALLGATHER | UCC_COLL_TYPE_ALLGATHERV | UCC_COLL_TYPE_ALLREDUCE |            \
   UCC_COLL_TYPE_ALLTOALL | UCC_COLL_TYPE_ALLTOALLV | UCC_COLL_TYPE_BARRIER |                \
   UCC_COLL_TYPE_BCAST | UCC_COLL_TYPE_FANIN | UCC_COLL_TYPE_FANOUT | UCC_COLL_TYPE_GATHER | \
   UCC_COLL_TYPE_GATHERV | UCC_COLL_TYPE_REDUCE | UCC_COLL_TYPE_REDUCE_SCATTER |             \
   UCC_COLL_TYPE_REDUCE_SCATTERV | UCC_COLL_TYPE_SCATTER | UCC_COLL_TYPE_SCATTERV)

typedef struct tl_ibcoll_lib {
  ucc_tl_lib_t super;
} tl_ibcoll_lib;
UCC_CLASS_DECLARE(tl_ibcoll_lib, const ucc_base_lib_params_t*, const ucc_base_config_t*);
UCC_CLASS_DECLARE_NEW_FUNC(tl_ibcoll_lib, ucc_base_lib_t, const ucc_base_lib_params_t*,
                           const ucc_base_config_t*);
UCC_CLASS_DECLARE_DELETE_FUNC(tl_ibcoll_lib, ucc_base_lib_t);

typedef struct tl_ibcoll_context_config {
  ucc_tl_context_config_t super;
  int yield; /**< between tests: ucs_on_off_auto_value_t */
} tl_ibcoll_context_config;

/** Numbers of teams, which tell teams of the same ranks apart. Those of teams that are gone are
 * given again, so that the engine has no more of them to remember. */
typedef struct tl_ibcoll_numbers {
  pthread_mutex_t mutex;
  uint64_t last; /**< the highest that this rank has given */
  struct {
    uint64_t list; /**< hash of the ranks */
    uint64_t number;
  } retired[64];
  int retired_count;
  uint64_t watches; /**< bits of the identifiers that tl_ibcoll_watch has given */
} tl_ibcoll_numbers;

typedef struct tl_ibcoll_team tl_ibcoll_team;

/** One rank's membership in the job that all processes of a UCC context form. */
typedef struct tl_ibcoll_context {
  ucc_tl_context_t super;
  ibcoll_context* job; /**< null until all processes have agreed to join */
  ucc_mpool_t tasks;
  tl_ibcoll_numbers numbers;
  int yield_setting; /**< ucs_on_off_auto_value_t */
  int yields;        /**< whether a test that finds nothing lets other processes run */
  /** Teams that are getting another group: whoever makes progress helps them. */
  pthread_mutex_t resuming_mutex;
  _Atomic(tl_ibcoll_team*) resuming;
  ibcoll_memory** segments; /**< what the program attached to the context, registered */
  size_t segment_count;
} tl_ibcoll_context;
UCC_CLASS_DECLARE(tl_ibcoll_context, const ucc_base_context_params_t*, const ucc_base_config_t*);
UCC_CLASS_DECLARE_NEW_FUNC(tl_ibcoll_context, ucc_base_context_t, const ucc_base_context_params_t*,
                           const ucc_base_config_t*);
UCC_CLASS_DECLARE_DELETE_FUNC(tl_ibcoll_context, ucc_base_context_t);

/** What a team's members tell each other while it is made. */
typedef struct tl_ibcoll_vote {
  uint64_t number; /**< the team's, if this rank is its first member */
  uint64_t fresh;  /**< the same, if some member still has an earlier team of that number */
  uint64_t agrees; /**< whether this rank has the group */
} tl_ibcoll_vote;

enum { kKinds = 32 }; /**< bits of ucc_coll_type_t */

typedef struct tl_ibcoll_task tl_ibcoll_task;

/** How a team goes on after a rank has given up a call: UCC's timeouts end the group, and the team
 * gets another one (resume.c). */
typedef struct tl_ibcoll_resume {
  pthread_mutex_t mutex;
  _Atomic uint64_t generation; /**< groups that the team had before */
  _Atomic uint64_t posted;     /**< calls on its groups, numbered from 1 */
  /** An allgather of the last calls that ranks have posted on the group before; null: none is under
   * way. */
  _Atomic(ibcoll_request*) settling;
  uint64_t last;                 /**< what this rank says in it */
  uint64_t* lasts;               /**< what all say */
  uint64_t lost;                 /**< calls up to this one are not made any more by any rank */
  uint64_t given_up;             /**< the last one that this rank gave up before it had begun */
  ucc_status_t over;             /**< an error: the team does not go on */
  tl_ibcoll_task* first_waiting; /**< posted meanwhile, in their order */
  int is_listed;                 /**< among those of the context that need progress */
  tl_ibcoll_team* next_listed;
} tl_ibcoll_resume;

struct tl_ibcoll_team {
  ucc_tl_team_t super;
  ibcoll_group* group; /**< null until the team has a number */
  uint64_t number;     /**< no other team with the same first member has it */
  uint64_t fresh;      /**< to be tried if a member refuses that; 0: it was */
  uint64_t list;       /**< hash of the ranks */
  uint64_t first;      /**< the first member's rank in the job */
  int* ranks;          /**< in the job */
  /** The ranks as a set, if calls begin in another order on each of them: then they are calls on a
   * set, which are matched by their keys. */
  uint64_t* set;
  size_t set_words;
  _Atomic uint64_t made; /**< calls of such a team that have been initialized */
  /** A group of the same ranks on which nothing is called, while the team is made: it tells of a
   * member that dies, for which the program's allgather would wait for ever. */
  ibcoll_group* watch;
  int watch_number;
  tl_ibcoll_vote vote;
  tl_ibcoll_vote* votes; /**< everybody's, while the team is made */
  void* exchange;        /**< UCC's request of the allgather that is under way */
  tl_ibcoll_resume resume;
  /** By kind of collective: the request of one that has ended, for the next to take. */
  _Atomic(ibcoll_request*) idle[kKinds];
};
UCC_CLASS_DECLARE(tl_ibcoll_team, ucc_base_context_t*, const ucc_base_team_params_t*);
UCC_CLASS_DECLARE_NEW_FUNC(tl_ibcoll_team, ucc_base_team_t, ucc_base_context_t*,
                           const ucc_base_team_params_t*);
UCC_CLASS_DECLARE_DELETE_FUNC(tl_ibcoll_team, ucc_base_team_t);

/** Bytes that a task moves itself, since UCC expects them elsewhere than the engine. */
typedef struct tl_ibcoll_move {
  char* to;
  const char* from;
  size_t bytes; /**< 0: nothing is to be moved */
} tl_ibcoll_move;

/** Tasks are used again: room for lists stays theirs. */
struct tl_ibcoll_task {
  ucc_coll_task_t super;
  ibcoll_call call;
  ibcoll_request* request; /**< null: it is made when the task is posted */
  int on_set;              /**< the call is one on a set of ranks, and has a group of its own */
  uint64_t number;         /**< of the call among those of its team */
  uint64_t posts;          /**< how often it has been posted */
  uint64_t generation;     /**< of the group that the request is of */
  _Atomic int waits;       /**< for the team's next group */
  tl_ibcoll_task* next_waiting;
  int64_t* lists;        /**< counts and displacements in bytes, read until the call has finished */
  size_t lists_room;     /**< entries */
  tl_ibcoll_move before; /**< when the call begins */
  tl_ibcoll_move after;  /**< when it has ended */
  uint8_t token[2];      /**< what fanin and fanout move */
};

/** What the process has in common with others of its context (context.c). */
ucc_status_t tl_ibcoll_context_join(ucc_base_context_t* context);
ucc_status_t tl_ibcoll_context_get_attr(const ucc_base_context_t* context,
                                        ucc_base_ctx_attr_t* attributes);

#if UCC_API_MINOR >= 5
/** UCC asks every layer for a handle of memory that the program names, and for one to send to
 * peers. This one needs none: it answers so, as layers do that UCC has then none from. */
ucc_status_t tl_ibcoll_mem_map(const ucc_base_context_t* context, ucc_mem_map_mode_t mode,
                               ucc_mem_map_memh_t* memory, ucc_mem_map_tl_t* mine);
ucc_status_t tl_ibcoll_mem_unmap(const ucc_base_context_t* context, ucc_mem_map_mode_t mode,
                                 ucc_mem_map_tl_t* mine);
ucc_status_t tl_ibcoll_memh_pack(const ucc_base_context_t* context, ucc_mem_map_mode_t mode,
                                 ucc_mem_map_tl_t* mine, void** packed);
#endif

/** Proposes numbers for a team of that list (numbers.c). */
void tl_ibcoll_propose(tl_ibcoll_numbers* numbers, uint64_t list, tl_ibcoll_vote* vote);
/** A number of 64 for a group that only watches its members, or -1. */
int tl_ibcoll_watch(tl_ibcoll_numbers* numbers);
/** That group is gone, and it had not ended. */
void tl_ibcoll_unwatch(tl_ibcoll_numbers* numbers, int number);
/** The number's team is gone, and every one of its calls had ended well. */
void tl_ibcoll_retire(tl_ibcoll_numbers* numbers, uint64_t list, uint64_t number);

ucc_status_t tl_ibcoll_team_test(ucc_base_team_t* team);
ucc_status_t tl_ibcoll_team_destroy(ucc_base_team_t* team);
ucc_status_t tl_ibcoll_team_get_scores(ucc_base_team_t* team, ucc_coll_score_t** scores);

/** Sets the pool of a context's tasks up (tasks.c). */
ucc_status_t tl_ibcoll_tasks_init(ucc_mpool_t* tasks, ucc_thread_mode_t threads);
/** Frees a request. One that is under way (UCC gave up waiting) ends its group first: peers could
 * still write to buffers that the program takes back now. Whether it did. */
int tl_ibcoll_free_request(tl_ibcoll_team* team, ibcoll_request* request);
/** Frees the requests that the team has kept. */
void tl_ibcoll_free_idle(tl_ibcoll_team* team);
/** Says what the engine has said, and gives it in UCC's terms. */
ucc_status_t tl_ibcoll_failed(const tl_ibcoll_team* team, ibcoll_status status);

/** Makes the team's group, with an identifier that no other one of these ranks has (team.c). */
ibcoll_status tl_ibcoll_create_group(tl_ibcoll_team* team);

/** Whether the error that a call of the group has just given means that a rank gave up a call, and
 * nothing worse (resume.c). */
int tl_ibcoll_is_given_up(ibcoll_status status);
/** Starts a task's call on the team's present group, or has it wait for the next one.
 * `found_over`: its own group is. */
ucc_status_t tl_ibcoll_resume_post(tl_ibcoll_task* task, int found_over);
/** Looks whether teams have another group, on which tasks that wait can begin. */
void tl_ibcoll_resume_progress(tl_ibcoll_context* context);
/** The team is no more. */
void tl_ibcoll_resume_end(tl_ibcoll_team* team);
/** The group of this generation is over, and nothing else is known yet. */
void tl_ibcoll_resume_after(tl_ibcoll_team* team, uint64_t generation);
/** The task waits no more: UCC has given it up. */
void tl_ibcoll_resume_leave(tl_ibcoll_task* task);

/** Makes the task of a collective; UCC_ERR_NOT_SUPPORTED, alike on all ranks, where the next layer
 * is to take it. */
ucc_status_t tl_ibcoll_collective_init(ucc_base_coll_args_t* arguments, ucc_base_team_t* team,
                                       ucc_coll_task_t** task);

/** Writes what UCC asks for as a call of the engine; lists that it needs belong to the task. */
ucc_status_t tl_ibcoll_describe(const tl_ibcoll_team* team, const ucc_coll_args_t* arguments,
                                tl_ibcoll_task* task, ibcoll_call* call);

/** An error of the engine in UCC's terms. */
ucc_status_t tl_ibcoll_status(ibcoll_status status);

#define TL_IBCOLL_CONTEXT(team) (ucc_derived_of(UCC_TL_TEAM_CTX(team), tl_ibcoll_context))

#endif
