/* Collectives of UCC as calls of the engine. What is refused follows from what all ranks of a
 * collective pass alike, so that all of them refuse it. */
#include <stdlib.h>
#include <string.h>

#include "component.h"
#include "core/ucc_dt.h"

/** What a call is described with. */
typedef struct description {
  const ucc_coll_args_t* arguments;
  tl_ibcoll_task* task;
  ibcoll_call* call;
  size_t ranks;
  size_t me;
  int is_root;
  /** As the flag says. Programs also pass the same buffer twice instead, which Open MPI does: it is
   * looked at where calls are described, since for some of them it says where the data lies, too.
   */
  int in_place;
} description;

/** Whether source and destination are the same buffer, on a rank that has both. */
static int is_one_buffer(const description* of) {
  return of->in_place || of->arguments->src.info.buffer == of->arguments->dst.info.buffer;
}

static int has_size(ucc_datatype_t type) {
  return UCC_DT_IS_PREDEFINED(type) || UCC_DT_IS_CONTIG(type);
}

/** Bytes of a buffer's elements, or of one of `parts` of them. */
static ucc_status_t bytes_of(const ucc_coll_buffer_info_t* buffer, size_t parts, size_t* bytes) {
  if (!has_size(buffer->datatype)) return UCC_ERR_NOT_SUPPORTED;
  *bytes = buffer->count / parts * ucc_dt_size(buffer->datatype);
  return UCC_OK;
}

/** Writes counts and displacements of a buffer, in bytes, into the first two of four lists that the
 * task keeps. */
static ucc_status_t list(const description* of, const ucc_coll_buffer_info_v_t* buffer,
                         int64_t* counts) {
  if (!has_size(buffer->datatype)) return UCC_ERR_NOT_SUPPORTED;
  const size_t element = ucc_dt_size(buffer->datatype);
  int64_t* const displacements = counts + of->ranks;
  for (size_t i = 0; i < of->ranks; ++i) {
    const ucc_rank_t rank = (ucc_rank_t)i;
    counts[i] = (int64_t)(ucc_coll_args_get_count(of->arguments, buffer->counts, rank) * element);
    displacements[i] =
        (int64_t)(ucc_coll_args_get_displacement(of->arguments, buffer->displacements, rank) *
                  element);
  }
  return UCC_OK;
}

/** Room for the lists of `buffers` buffers. */
static ucc_status_t take_lists(const description* of, size_t buffers) {
  tl_ibcoll_task* const task = of->task;
  const size_t entries = 2 * buffers * of->ranks;
  if (task->lists_room >= entries) return UCC_OK;
  free(task->lists);
  task->lists = malloc(entries * sizeof *task->lists);
  task->lists_room = task->lists == NULL ? 0 : entries;
  return task->lists == NULL ? UCC_ERR_NO_MEMORY : UCC_OK;
}

static ucc_status_t list_received(const description* of, int64_t* place) {
  of->call->recv = of->arguments->dst.info_v.buffer;
  of->call->recv_counts = place;
  of->call->recv_displacements = place + of->ranks;
  return list(of, &of->arguments->dst.info_v, place);
}

static ucc_status_t list_sent(const description* of, int64_t* place) {
  of->call->send = of->arguments->src.info_v.buffer;
  of->call->send_counts = place;
  of->call->send_displacements = place + of->ranks;
  return list(of, &of->arguments->src.info_v, place);
}

static ucc_status_t own_count(const description* of, const ucc_coll_buffer_info_t* buffer) {
  size_t bytes = 0;
  const ucc_status_t status = bytes_of(buffer, 1, &bytes);
  of->call->own_count = (int64_t)bytes;
  return status;
}

/** Where this rank's block begins in a buffer of equal blocks, or of listed ones. */
static char* own_block(const description* of, void* buffer, size_t bytes) {
  return (char*)buffer + of->me * bytes;
}
static char* own_listed(const description* of, void* buffer, const int64_t* displacements) {
  return (char*)buffer + displacements[of->me];
}

/** Of an allgather and its like: the engine sends what lies at `block`, this rank's place in the
 * result. Where it lies at the result's beginning, it is moved there first. */
static void send_from(const description* of, char* block, size_t bytes) {
  const char* const source = of->arguments->src.info.buffer;
  of->call->send = of->in_place || source == block ? IBCOLL_IN_PLACE : (const void*)source;
  if (of->call->send == IBCOLL_IN_PLACE || source != of->arguments->dst.info.buffer) return;
  of->call->send = IBCOLL_IN_PLACE;
  of->task->before = (tl_ibcoll_move){block, source, bytes};
}

/** Of a scatter at its root: the other way round. */
static void receive_at(const description* of, const char* block, size_t bytes) {
  char* const destination = of->arguments->dst.info.buffer;
  of->call->recv = of->in_place || destination == block ? (void*)IBCOLL_IN_PLACE : destination;
  if (of->call->recv == IBCOLL_IN_PLACE || destination != of->arguments->src.info.buffer) return;
  of->call->recv = (void*)IBCOLL_IN_PLACE;
  of->task->after = (tl_ibcoll_move){destination, block, bytes};
}

static ucc_status_t describe_alltoall(const description* of) {
  const ucc_coll_args_t* const given = of->arguments;
  const int in_place = is_one_buffer(of);
  of->call->collective = IBCOLL_ALLTOALL;
  of->call->recv = given->dst.info.buffer;
  of->call->send = in_place ? IBCOLL_IN_PLACE : given->src.info.buffer;
  return bytes_of(in_place ? &given->dst.info : &given->src.info, of->ranks, &of->call->bytes);
}

static ucc_status_t describe_alltoallv(const description* of) {
  /* One-sided: what a rank receives is placed by those that send it. */
  if (of->arguments->mask & UCC_COLL_ARGS_FIELD_GLOBAL_WORK_BUFFER) return UCC_ERR_NOT_SUPPORTED;
  of->call->collective = IBCOLL_ALLTOALLV;
  ucc_status_t status = take_lists(of, 2);
  if (status != UCC_OK) return status;
  status = list_received(of, of->task->lists);
  if (status == UCC_OK && !of->in_place) status = list_sent(of, of->task->lists + 2 * of->ranks);
  /* Blocks that are sent from elsewhere than others come to are not in place. */
  const size_t half = 2 * of->ranks;
  if (of->in_place || (is_one_buffer(of) && memcmp(of->task->lists, of->task->lists + half,
                                                   half * sizeof *of->task->lists) == 0))
    of->call->send = IBCOLL_IN_PLACE;
  return status;
}

static ucc_status_t describe_allgather(const description* of) {
  const ucc_coll_args_t* const given = of->arguments;
  of->call->collective = IBCOLL_ALLGATHER;
  of->call->recv = given->dst.info.buffer;
  const ucc_status_t status = bytes_of(&given->dst.info, of->ranks, &of->call->bytes);
  send_from(of, own_block(of, of->call->recv, of->call->bytes), of->call->bytes);
  return status;
}

static ucc_status_t describe_allgatherv(const description* of) {
  of->call->collective = IBCOLL_ALLGATHERV;
  ucc_status_t status = take_lists(of, 1);
  if (status == UCC_OK) status = list_received(of, of->task->lists);
  if (status == UCC_OK && !of->in_place) status = own_count(of, &of->arguments->src.info);
  if (status != UCC_OK) return status;
  send_from(of, own_listed(of, of->call->recv, of->call->recv_displacements),
            (size_t)of->call->own_count);
  return UCC_OK;
}

static ucc_status_t describe_gather(const description* of) {
  const ucc_coll_args_t* const given = of->arguments;
  of->call->collective = IBCOLL_GATHER;
  of->call->send = given->src.info.buffer;
  if (!of->is_root) return bytes_of(&given->src.info, 1, &of->call->bytes);
  of->call->recv = given->dst.info.buffer;
  const ucc_status_t status = bytes_of(&given->dst.info, of->ranks, &of->call->bytes);
  send_from(of, own_block(of, of->call->recv, of->call->bytes), of->call->bytes);
  return status;
}

static ucc_status_t describe_gatherv(const description* of) {
  of->call->collective = IBCOLL_GATHERV;
  of->call->send = of->arguments->src.info.buffer;
  ucc_status_t status = of->in_place ? UCC_OK : own_count(of, &of->arguments->src.info);
  if (status != UCC_OK || !of->is_root) return status;
  status = take_lists(of, 1);
  if (status == UCC_OK) status = list_received(of, of->task->lists);
  if (status != UCC_OK) return status;
  send_from(of, own_listed(of, of->call->recv, of->call->recv_displacements),
            (size_t)of->call->own_count);
  return UCC_OK;
}

static ucc_status_t describe_scatter(const description* of) {
  const ucc_coll_args_t* const given = of->arguments;
  of->call->collective = IBCOLL_SCATTER;
  of->call->recv = given->dst.info.buffer;
  if (!of->is_root) return bytes_of(&given->dst.info, 1, &of->call->bytes);
  of->call->send = given->src.info.buffer;
  const ucc_status_t status = bytes_of(&given->src.info, of->ranks, &of->call->bytes);
  receive_at(of, own_block(of, given->src.info.buffer, of->call->bytes), of->call->bytes);
  return status;
}

static ucc_status_t describe_scatterv(const description* of) {
  of->call->collective = IBCOLL_SCATTERV;
  of->call->recv = of->arguments->dst.info.buffer;
  ucc_status_t status = of->in_place ? UCC_OK : own_count(of, &of->arguments->dst.info);
  if (status != UCC_OK || !of->is_root) return status;
  status = take_lists(of, 1);
  if (status == UCC_OK) status = list_sent(of, of->task->lists);
  if (status != UCC_OK) return status;
  receive_at(of, own_listed(of, of->arguments->src.info_v.buffer, of->call->send_displacements),
             (size_t)of->call->own_count);
  return UCC_OK;
}

/** The engine's name of an element type; -1 where it has none. */
static int type_of(ucc_datatype_t type) {
  switch (type) {
    case UCC_DT_INT8:
      return IBCOLL_INT8;
    case UCC_DT_INT16:
      return IBCOLL_INT16;
    case UCC_DT_INT32:
      return IBCOLL_INT32;
    case UCC_DT_INT64:
      return IBCOLL_INT64;
    case UCC_DT_UINT8:
      return IBCOLL_UINT8;
    case UCC_DT_UINT16:
      return IBCOLL_UINT16;
    case UCC_DT_UINT32:
      return IBCOLL_UINT32;
    case UCC_DT_UINT64:
      return IBCOLL_UINT64;
    case UCC_DT_FLOAT16:
      return IBCOLL_FLOAT16;
    case UCC_DT_BFLOAT16:
      return IBCOLL_BFLOAT16;
    case UCC_DT_FLOAT32:
      return IBCOLL_FLOAT;
    case UCC_DT_FLOAT64:
      return IBCOLL_DOUBLE;
    case UCC_DT_FLOAT32_COMPLEX:
      return IBCOLL_FLOAT_COMPLEX;
    case UCC_DT_FLOAT64_COMPLEX:
      return IBCOLL_DOUBLE_COMPLEX;
#if SIZEOF_LONG_DOUBLE == 16
    case UCC_DT_FLOAT128:
      return IBCOLL_LONG_DOUBLE;
    case UCC_DT_FLOAT128_COMPLEX:
      return IBCOLL_LONG_DOUBLE_COMPLEX;
#endif
    default:
      return -1;
  }
}

static int operator_of(ucc_reduction_op_t op) {
  switch (op) {
    case UCC_OP_SUM:
      return IBCOLL_SUM;
    case UCC_OP_PROD:
      return IBCOLL_PRODUCT;
    case UCC_OP_MAX:
      return IBCOLL_MAX;
    case UCC_OP_MIN:
      return IBCOLL_MIN;
    case UCC_OP_LAND:
      return IBCOLL_LAND;
    case UCC_OP_LOR:
      return IBCOLL_LOR;
    case UCC_OP_LXOR:
      return IBCOLL_LXOR;
    case UCC_OP_BAND:
      return IBCOLL_BAND;
    case UCC_OP_BOR:
      return IBCOLL_BOR;
    case UCC_OP_BXOR:
      return IBCOLL_BXOR;
    default:
      return -1;
  }
}

/** What all reductions have in common. `datatype`: of the buffer that this rank has for sure. What
 * the engine leaves where it lay in one buffer is what UCC expects there. */
static ucc_status_t describe_reduction(const description* of, ibcoll_collective collective,
                                       ucc_datatype_t datatype) {
  const int type = type_of(datatype);
  const int op = operator_of(of->arguments->op);
  if (type < 0 || op < 0 || !ibcoll_has_operator((ibcoll_type)type, (ibcoll_operator)op))
    return UCC_ERR_NOT_SUPPORTED;
  of->call->collective = collective;
  of->call->type = (ibcoll_type)type;
  of->call->op = (ibcoll_operator)op;
  const int has_both = of->is_root || collective != IBCOLL_REDUCE;
  of->call->send = has_both && is_one_buffer(of) ? IBCOLL_IN_PLACE : of->arguments->src.info.buffer;
  return UCC_OK;
}

static ucc_status_t describe_reduce(const description* of) {
  const ucc_coll_buffer_info_t* const buffer =
      of->is_root ? &of->arguments->dst.info : &of->arguments->src.info;
  of->call->recv = of->is_root ? of->arguments->dst.info.buffer : NULL;
  of->call->elements = buffer->count;
  return describe_reduction(of, IBCOLL_REDUCE, buffer->datatype);
}

static ucc_status_t describe_allreduce(const description* of) {
  const ucc_coll_buffer_info_t* const buffer = &of->arguments->dst.info;
  of->call->recv = buffer->buffer;
  of->call->elements = buffer->count;
  return describe_reduction(of, IBCOLL_ALLREDUCE, buffer->datatype);
}

/** With UCC's flag for data in place each rank's part stays where it lies; the engine leaves it at
 * the beginning, where it is expected if a program passes one buffer twice. */
static ucc_status_t describe_parts(const description* of, void* buffer, ucc_datatype_t datatype) {
  of->call->recv = buffer;
  of->call->recv_counts = of->task->lists;
  const ucc_status_t status = describe_reduction(of, IBCOLL_REDUCE_SCATTER, datatype);
  if (status != UCC_OK || !of->in_place) return status;
  const size_t element = ucc_dt_size(datatype);
  size_t before = 0;
  for (size_t i = 0; i < of->me; ++i) before += (size_t)of->task->lists[i] * element;
  of->task->after =
      (tl_ibcoll_move){(char*)buffer + before, buffer, (size_t)of->task->lists[of->me] * element};
  return UCC_OK;
}

static ucc_status_t describe_reduce_scatter(const description* of) {
  const ucc_coll_buffer_info_t* const buffer = &of->arguments->dst.info;
  if (!of->in_place) {
    of->call->recv = buffer->buffer;
    of->call->elements = buffer->count;
    return describe_reduction(of, IBCOLL_REDUCE_SCATTER_BLOCK, buffer->datatype);
  }
  const ucc_status_t status = take_lists(of, 1);
  if (status != UCC_OK) return status;
  for (size_t i = 0; i < of->ranks; ++i)
    of->task->lists[i] =
        (int64_t)ucc_buffer_block_count(buffer->count, (ucc_rank_t)of->ranks, (ucc_rank_t)i);
  return describe_parts(of, buffer->buffer, buffer->datatype);
}

static ucc_status_t describe_reduce_scatterv(const description* of) {
  const ucc_coll_buffer_info_v_t* const buffer = &of->arguments->dst.info_v;
  const ucc_status_t status = take_lists(of, 1);
  if (status != UCC_OK) return status;
  for (size_t i = 0; i < of->ranks; ++i)
    of->task->lists[i] =
        (int64_t)ucc_coll_args_get_count(of->arguments, buffer->counts, (ucc_rank_t)i);
  return describe_parts(of, buffer->buffer, buffer->datatype);
}

static ucc_status_t describe_bcast(const description* of) {
  of->call->collective = IBCOLL_BCAST;
  of->call->recv = of->arguments->src.info.buffer;
  return bytes_of(&of->arguments->src.info, 1, &of->call->bytes);
}

/** A byte to the root, or from it, that nobody looks at: each rank has it when UCC lets it go. */
static ucc_status_t describe_token(const description* of, ibcoll_collective collective) {
  of->call->collective = collective;
  of->call->send = &of->task->token[0];
  of->call->recv = &of->task->token[1];
  of->call->type = IBCOLL_UINT8;
  of->call->op = IBCOLL_BOR;
  of->call->elements = of->call->bytes = 1;
  return UCC_OK;
}

ucc_status_t tl_ibcoll_describe(const tl_ibcoll_team* team, const ucc_coll_args_t* arguments,
                                tl_ibcoll_task* task, ibcoll_call* call) {
  const ucc_coll_type_t type = arguments->coll_type;
  const int is_root = arguments->root == UCC_TL_TEAM_RANK(team);
  const int rooted = type & (UCC_COLL_TYPE_GATHER | UCC_COLL_TYPE_GATHERV | UCC_COLL_TYPE_REDUCE |
                             UCC_COLL_TYPE_SCATTER | UCC_COLL_TYPE_SCATTERV);
  const description of = {.arguments = arguments,
                          .task = task,
                          .call = call,
                          .ranks = UCC_TL_TEAM_SIZE(team),
                          .me = UCC_TL_TEAM_RANK(team),
                          .is_root = is_root,
                          .in_place = UCC_IS_INPLACE(*arguments) && (is_root || !rooted)};
  *call = (ibcoll_call){.struct_size = sizeof *call,
                        .flags = UCC_IS_PERSISTENT(*arguments) ? IBCOLL_PERSISTENT : 0,
                        .root = (int)arguments->root};
  task->before = task->after = (tl_ibcoll_move){0};
  switch (type) {
    case UCC_COLL_TYPE_ALLTOALL:
      return describe_alltoall(&of);
    case UCC_COLL_TYPE_ALLGATHER:
      return describe_allgather(&of);
    case UCC_COLL_TYPE_ALLTOALLV:
      return describe_alltoallv(&of);
    case UCC_COLL_TYPE_ALLGATHERV:
      return describe_allgatherv(&of);
    case UCC_COLL_TYPE_GATHER:
      return describe_gather(&of);
    case UCC_COLL_TYPE_GATHERV:
      return describe_gatherv(&of);
    case UCC_COLL_TYPE_SCATTER:
      return describe_scatter(&of);
    case UCC_COLL_TYPE_SCATTERV:
      return describe_scatterv(&of);
    case UCC_COLL_TYPE_BCAST:
      return describe_bcast(&of);
    case UCC_COLL_TYPE_REDUCE:
      return describe_reduce(&of);
    case UCC_COLL_TYPE_ALLREDUCE:
      return describe_allreduce(&of);
    case UCC_COLL_TYPE_REDUCE_SCATTER:
      return describe_reduce_scatter(&of);
    case UCC_COLL_TYPE_REDUCE_SCATTERV:
      return describe_reduce_scatterv(&of);
    case UCC_COLL_TYPE_BARRIER:
      call->collective = IBCOLL_BARRIER;
      return UCC_OK;
    case UCC_COLL_TYPE_FANIN:
      return describe_token(&of, IBCOLL_REDUCE);
    case UCC_COLL_TYPE_FANOUT:
      return describe_token(&of, IBCOLL_BCAST);
    default:
      return UCC_ERR_NOT_SUPPORTED;
  }
}
