/* A UCC context is a job of the engine: its processes join it with the allgather that the program
 * gave UCC, once all of them are known to have this layer. */
#define _GNU_SOURCE /* sets of cores */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "component.h"

#define LOG(level, context, ...) tl_##level((context)->super.super.lib, __VA_ARGS__)

/** What a process tells of itself with its address. */
typedef struct address {
  char version[16]; /**< the engine's: processes with another one can't join */
} address;

/** What processes tell each other when they have joined. */
typedef struct arrival {
  int32_t joined;
  cpu_set_t cores; /**< that this process may run on */
} arrival;

static address my_address(void) {
  address mine = {{0}};
  strncpy(mine.version, ibcoll_version(), sizeof(mine.version) - 1);
  return mine;
}

ucc_status_t tl_ibcoll_status(ibcoll_status status) {
  switch (status) {
    case IBCOLL_OK:
      return UCC_OK;
    case IBCOLL_ERR_INVALID:
    case IBCOLL_ERR_MISMATCH:
      return UCC_ERR_INVALID_PARAM;
    case IBCOLL_ERR_NO_MEMORY:
      return UCC_ERR_NO_MEMORY;
    case IBCOLL_ERR_DEADLINE:
    case IBCOLL_ERR_CANCELLED: /* by a rank whose call has timed out */
      return UCC_ERR_TIMED_OUT;
    case IBCOLL_ERR_SYSTEM:
      return UCC_ERR_NO_RESOURCE;
    default:
      return UCC_ERR_NO_MESSAGE;
  }
}

UCC_CLASS_INIT_FUNC(tl_ibcoll_context, const ucc_base_context_params_t* parameters,
                    const ucc_base_config_t* config) {
  const tl_ibcoll_context_config* const settings = ucc_derived_of(config, tl_ibcoll_context_config);
  UCC_CLASS_CALL_SUPER_INIT(ucc_tl_context_t, &settings->super, parameters->context);
  self->job = NULL;
  self->segments = NULL;
  self->segment_count = 0;
  self->yield_setting = settings->yield;
  self->yields = 0;
  const ucc_context_params_t* const given = &parameters->params;
  if (!(given->mask & UCC_CONTEXT_PARAM_FIELD_OOB) || given->oob.n_oob_eps < 2) {
    LOG(debug, self, "the context has no allgather over two processes or more: not used");
    return UCC_ERR_NOT_SUPPORTED;
  }
  memset(&self->numbers, 0, sizeof self->numbers);
  pthread_mutex_init(&self->numbers.mutex, NULL);
  pthread_mutex_init(&self->resuming_mutex, NULL);
  atomic_init(&self->resuming, NULL);
  return tl_ibcoll_tasks_init(&self->tasks, parameters->thread_mode);
}

UCC_CLASS_CLEANUP_FUNC(tl_ibcoll_context) {
  for (size_t i = 0; i < self->segment_count; ++i)
    (void)ibcoll_memory_deregister(self->segments[i]);
  free(self->segments);
  if (self->job != NULL && ibcoll_finalize(self->job) != IBCOLL_OK)
    LOG(debug, self, "%s", ibcoll_last_error());
  pthread_mutex_destroy(&self->numbers.mutex);
  pthread_mutex_destroy(&self->resuming_mutex);
  ucc_mpool_cleanup(&self->tasks, 1);
}

UCC_CLASS_DEFINE(tl_ibcoll_context, ucc_tl_context_t);
UCC_CLASS_DEFINE_NEW_FUNC(tl_ibcoll_context, ucc_base_context_t, const ucc_base_context_params_t*,
                          const ucc_base_config_t*);
UCC_CLASS_DEFINE_DELETE_FUNC(tl_ibcoll_context, ucc_base_context_t);

ucc_status_t tl_ibcoll_context_get_attr(const ucc_base_context_t* context,
                                        ucc_base_ctx_attr_t* attributes) {
  (void)context;
  const uint64_t asked = attributes->attr.mask;
  if (asked & UCC_CONTEXT_ATTR_FIELD_CTX_ADDR_LEN) attributes->attr.ctx_addr_len = sizeof(address);
  if (asked & UCC_CONTEXT_ATTR_FIELD_CTX_ADDR) {
    const address mine = my_address();
    memcpy(attributes->attr.ctx_addr, &mine, sizeof mine);
  }
  if (asked & UCC_CONTEXT_ATTR_FIELD_WORK_BUFFER_SIZE) attributes->attr.global_work_buffer_size = 0;
  attributes->topo_required = 0;
  return UCC_OK;
}

#if UCC_API_MINOR >= 5
ucc_status_t tl_ibcoll_mem_map(const ucc_base_context_t* context, ucc_mem_map_mode_t mode,
                               ucc_mem_map_memh_t* memory, ucc_mem_map_tl_t* mine) {
  (void)context, (void)mode, (void)memory, (void)mine;
  return UCC_ERR_NOT_SUPPORTED;
}

ucc_status_t tl_ibcoll_mem_unmap(const ucc_base_context_t* context, ucc_mem_map_mode_t mode,
                                 ucc_mem_map_tl_t* mine) {
  (void)context, (void)mode, (void)mine;
  return UCC_ERR_NOT_SUPPORTED;
}

ucc_status_t tl_ibcoll_memh_pack(const ucc_base_context_t* context, ucc_mem_map_mode_t mode,
                                 ucc_mem_map_tl_t* mine, void** packed) {
  (void)context, (void)mode, (void)mine, (void)packed;
  return UCC_ERR_NOT_SUPPORTED;
}
#endif

/** Whether a process of the context has this layer, with the same engine. */
static int has_layer(const tl_ibcoll_context* context, ucc_rank_t rank) {
  const ucc_tl_lib_t* const lib = ucc_derived_of(context->super.super.lib, ucc_tl_lib_t);
  const ucc_addr_storage_t* const all = &context->super.super.ucc_context->addr_storage;
  const ucc_context_addr_header_t* const header = UCC_ADDR_STORAGE_RANK_HEADER(all, rank);
  const address mine = my_address();
  for (int i = 0; i < header->n_components; ++i) {
    if (header->components[i].id != lib->iface->super.id) continue;
    return memcmp(PTR_OFFSET(header, header->components[i].offset), &mine, sizeof mine) == 0;
  }
  return 0;
}

static int post_allgather(void* host, const void* mine, size_t bytes, void* all, void** request) {
  const ucc_oob_coll_t* const oob = host;
  return oob->allgather((void*)mine, all, bytes, oob->coll_info, request);
}

static int test_allgather(void* host, void* request, int* done) {
  const ucc_oob_coll_t* const oob = host;
  const ucc_status_t status = oob->req_test(request);
  if (status > 0) return 0;
  *done = 1;
  const ucc_status_t freed = oob->req_free(request);
  return status != UCC_OK ? status : freed;
}

/** The program's allgather, waited for: UCC creates contexts in calls that block. */
static ucc_status_t allgather(ucc_oob_coll_t* oob, const void* mine, size_t bytes, void* all) {
  void* request = NULL;
  int status = post_allgather(oob, mine, bytes, all, &request);
  for (int done = 0; status == UCC_OK && !done;) status = test_allgather(oob, request, &done);
  return (ucc_status_t)status;
}

/** Whether more of the job's processes share this server than may run at a time. */
static int is_oversubscribed(const tl_ibcoll_context* context, const arrival* all, int size) {
  const int server = ibcoll_server_of(context->job, ibcoll_rank(context->job));
  int sharing = 0;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int rank = 0; rank < size; ++rank) {
    if (ibcoll_server_of(context->job, rank) != server) continue;
    ++sharing;
    CPU_OR(&cores, &cores, &all[rank].cores);
  }
  return sharing > CPU_COUNT(&cores);
}

/** Registers what the program attached to its context, so that calls in it need not. Memory that
 * the network refuses stays usable, as any other. */
static void register_segments(tl_ibcoll_context* context) {
  const ucc_context_params_t* const given = &context->super.super.ucc_context->params;
  if (!(given->mask & UCC_CONTEXT_PARAM_FIELD_MEM_PARAMS)) return;
  const ucc_mem_map_params_t* const memory = &given->mem_params;
  context->segments = calloc(memory->n_segments, sizeof *context->segments);
  if (context->segments == NULL) return;
  for (uint64_t i = 0; i < memory->n_segments; ++i) {
    ibcoll_memory** const place = &context->segments[context->segment_count];
    const ucc_mem_map_t* const segment = &memory->segments[i];
    if (ibcoll_memory_register(context->job, segment->address, segment->len, place) == IBCOLL_OK)
      ++context->segment_count;
    else
      LOG(debug, context, "%s", ibcoll_last_error());
  }
}

/** Joins, and sets the job up as UCC wants it; what it has to say goes to *mine. */
static void join(tl_ibcoll_context* context, ucc_oob_coll_t* oob, arrival* mine) {
  const ibcoll_bootstrap bootstrap = {.struct_size = sizeof bootstrap,
                                      .rank = (int)oob->oob_ep,
                                      .size = (int)oob->n_oob_eps,
                                      .host = oob,
                                      .allgather_post = post_allgather,
                                      .allgather_test = test_allgather};
  CPU_ZERO(&mine->cores);
  (void)sched_getaffinity(0, sizeof mine->cores, &mine->cores);
  ibcoll_status status = ibcoll_init_with(&bootstrap, &context->job);
  if (status != IBCOLL_OK) context->job = NULL;
  if (status == IBCOLL_OK && context->super.super.ucc_context->thread_mode == UCC_THREAD_MULTIPLE)
    status = ibcoll_set_thread_level(context->job, IBCOLL_THREAD_MULTIPLE);
  if (status != IBCOLL_OK) LOG(error, context, "%s", ibcoll_last_error());
  mine->joined = status == IBCOLL_OK;
}

ucc_status_t tl_ibcoll_context_join(ucc_base_context_t* base) {
  tl_ibcoll_context* const context = ucc_derived_of(base, tl_ibcoll_context);
  ucc_oob_coll_t* const oob = &base->ucc_context->params.oob;
  for (ucc_rank_t rank = 0; rank < oob->n_oob_eps; ++rank) {
    if (has_layer(context, rank)) continue;
    LOG(debug, context, "process %u has no such layer, or another engine: not used", rank);
    return UCC_ERR_NOT_SUPPORTED;
  }
  arrival* const all = malloc((oob->n_oob_eps + 1) * sizeof *all);
  if (all == NULL) return UCC_ERR_NO_MEMORY;
  arrival* const mine = &all[oob->n_oob_eps];
  memset(mine, 0, sizeof *mine);
  join(context, oob, mine);
  ucc_status_t status = allgather(oob, mine, sizeof *mine, all);
  for (ucc_rank_t rank = 0; status == UCC_OK && rank < oob->n_oob_eps; ++rank)
    if (!all[rank].joined) status = UCC_ERR_NOT_SUPPORTED;
  if (status == UCC_OK) {
    context->yields = context->yield_setting == UCS_CONFIG_AUTO
                          ? is_oversubscribed(context, all, (int)oob->n_oob_eps)
                          : context->yield_setting == UCS_CONFIG_ON;
    register_segments(context);
  }
  free(all);
  return status;
}
