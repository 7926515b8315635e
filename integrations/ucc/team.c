/* A team is a group of the engine. Making one takes two allgathers of its members: one that agrees
 * on a number that no other team of theirs has had, and one that tells whether all have the group.
 */
#include <stdlib.h>

#include "coll_score/ucc_coll_score.h"
#include "component.h"

/** Core teams share 16 bits of the numbers: so teams that are made at the same time, in any order,
 * have different ones. */
enum { kIdBits = 16 };

static ucc_status_t post_votes(tl_ibcoll_team* team) {
  const ucc_oob_coll_t* const oob = &UCC_TL_TEAM_OOB(team);
  return oob->allgather(&team->vote, team->votes, sizeof team->vote, oob->coll_info,
                        &team->exchange);
}

UCC_CLASS_INIT_FUNC(tl_ibcoll_team, ucc_base_context_t* base,
                    const ucc_base_team_params_t* parameters) {
  tl_ibcoll_context* const context = ucc_derived_of(base, tl_ibcoll_context);
  UCC_CLASS_CALL_SUPER_INIT(ucc_tl_team_t, &context->super, parameters);
  self->group = NULL;
  self->number = 0;
  self->votes = NULL;
  self->exchange = NULL;
  /* CL/HIER starts the calls of a team in an order that differs from rank to rank. */
  if (parameters->scope != UCC_CL_BASIC) return UCC_ERR_NOT_SUPPORTED;
  const ucc_team_params_t* const given = &parameters->params;
  if ((given->mask & UCC_TEAM_PARAM_FIELD_ORDERING) &&
      given->ordering != UCC_COLLECTIVE_POST_ORDERED &&
      given->ordering != UCC_COLLECTIVE_INIT_AND_POST_ORDERED)
    return UCC_ERR_NOT_SUPPORTED;
  if (given->oob.allgather == NULL) return UCC_ERR_NOT_SUPPORTED;
  self->votes = malloc(parameters->size * sizeof *self->votes);
  if (self->votes == NULL) return UCC_ERR_NO_MEMORY;
  self->vote.number = __atomic_add_fetch(&context->last_team, 1, __ATOMIC_RELAXED);
  self->vote.agrees = 1;
  return post_votes(self);
}

UCC_CLASS_CLEANUP_FUNC(tl_ibcoll_team) {
  if (self->group != NULL && ibcoll_group_free(self->group) != IBCOLL_OK)
    tl_debug(UCC_TL_TEAM_LIB(self), "%s", ibcoll_last_error());
  free(self->votes);
}

UCC_CLASS_DEFINE(tl_ibcoll_team, ucc_tl_team_t);
UCC_CLASS_DEFINE_NEW_FUNC(tl_ibcoll_team, ucc_base_team_t, ucc_base_context_t*,
                          const ucc_base_team_params_t*);
UCC_CLASS_DEFINE_DELETE_FUNC(tl_ibcoll_team, ucc_base_team_t);

/** The highest number that was proposed. Those that this rank proposes later are higher still. */
static int64_t agree_on_number(tl_ibcoll_team* team) {
  tl_ibcoll_context* const context = TL_IBCOLL_CONTEXT(team);
  int64_t number = 0;
  for (ucc_rank_t rank = 0; rank < UCC_TL_TEAM_SIZE(team); ++rank)
    number = ucc_max(number, team->votes[rank].number);
  int64_t last = __atomic_load_n(&context->last_team, __ATOMIC_RELAXED);
  while (last < number && !__atomic_compare_exchange_n(&context->last_team, &last, number, 0,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return number;
}

static ucc_status_t create_group(tl_ibcoll_team* team) {
  const ucc_rank_t size = UCC_TL_TEAM_SIZE(team);
  int* const ranks = malloc(size * sizeof *ranks);
  if (ranks == NULL) return UCC_ERR_NO_MEMORY;
  for (ucc_rank_t rank = 0; rank < size; ++rank)
    ranks[rank] =
        (int)ucc_get_ctx_rank(UCC_TL_CORE_TEAM(team), ucc_ep_map_eval(UCC_TL_TEAM_MAP(team), rank));
  const ibcoll_group_options options = {.struct_size = sizeof options, .id = team->number};
  const ibcoll_status status = ibcoll_group_create_with(TL_IBCOLL_CONTEXT(team)->job, ranks,
                                                        (int)size, &options, &team->group);
  free(ranks);
  if (status == IBCOLL_OK) return UCC_OK;
  tl_debug(UCC_TL_TEAM_LIB(team), "%s", ibcoll_last_error());
  team->group = NULL;
  return tl_ibcoll_status(status);
}

ucc_status_t tl_ibcoll_team_test(ucc_base_team_t* base) {
  tl_ibcoll_team* const team = ucc_derived_of(base, tl_ibcoll_team);
  const ucc_oob_coll_t* const oob = &UCC_TL_TEAM_OOB(team);
  while (team->votes != NULL) {
    ucc_status_t status = oob->req_test(team->exchange);
    if (status == UCC_INPROGRESS) return status;
    oob->req_free(team->exchange);
    if (status != UCC_OK) return status;
    if (team->number == 0) {
      team->number = (uint64_t)agree_on_number(team) << kIdBits | base->params.id;
      team->vote.agrees = create_group(team) == UCC_OK;
      status = post_votes(team);
      if (status != UCC_OK) return status;
      continue;
    }
    for (ucc_rank_t rank = 0; rank < UCC_TL_TEAM_SIZE(team); ++rank)
      if (!team->votes[rank].agrees) return UCC_ERR_NOT_SUPPORTED;
    free(team->votes);
    team->votes = NULL;
  }
  return UCC_OK;
}

ucc_status_t tl_ibcoll_team_destroy(ucc_base_team_t* base) {
  UCC_CLASS_DELETE_FUNC_NAME(tl_ibcoll_team)(base);
  return UCC_OK;
}

ucc_status_t tl_ibcoll_team_get_scores(ucc_base_team_t* base, ucc_coll_score_t** scores) {
  tl_ibcoll_team* const team = ucc_derived_of(base, tl_ibcoll_team);
  ucc_memory_type_t memory = UCC_MEMORY_TYPE_HOST;
  ucc_coll_score_t* built;
  ucc_status_t status = ucc_coll_score_build_default(
      base, TL_IBCOLL_SCORE, tl_ibcoll_collective_init, TL_IBCOLL_COLLECTIVES, &memory, 1, &built);
  if (status != UCC_OK) return status;
  const char* const wanted = UCC_TL_TEAM_CTX(team)->score_str;
  if (wanted[0] != 0) {
    const ucc_coll_score_team_info_t info = {.default_score = TL_IBCOLL_SCORE,
                                             .size = UCC_TL_TEAM_SIZE(team),
                                             .supported_colls = TL_IBCOLL_COLLECTIVES,
                                             .supported_mem_types = &memory,
                                             .num_mem_types = 1,
                                             .init = tl_ibcoll_collective_init};
    status = ucc_coll_score_update_from_str(wanted, &info, base, built);
    /* What of it this layer does not have is for the user to read in UCC's own message. */
    if (status < 0 && status != UCC_ERR_INVALID_PARAM && status != UCC_ERR_NOT_SUPPORTED) {
      ucc_coll_score_free(built);
      return status;
    }
  }
  *scores = built;
  return UCC_OK;
}
