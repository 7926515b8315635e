/* A team is a group of the engine. Making one takes two allgathers of its members: one that tells
 * them the team's number, and one that tells whether all have the group. Where a member still has
 * an earlier team of that number, all try another one. */
#define _GNU_SOURCE /* memmem */
#include <stdlib.h>
#include <string.h>

#include "coll_score/ucc_coll_score.h"
#include "component.h"

/** Begins to look whether members die: an error if one has. If there are too many teams that are
 * made at a time, some are not watched. */
static ucc_status_t begin_watch(tl_ibcoll_team* team) {
  tl_ibcoll_context* const context = TL_IBCOLL_CONTEXT(team);
  team->watch_number = tl_ibcoll_watch(&context->numbers);
  if (team->watch_number < 0) return UCC_OK;
  /* Teams have lower identifiers. */
  const ibcoll_group_options options = {.struct_size = sizeof options,
                                        .id = UINT64_MAX - (uint64_t)team->watch_number};
  const ibcoll_status status = ibcoll_group_create_with(
      context->job, team->ranks, (int)UCC_TL_TEAM_SIZE(team), &options, &team->watch);
  if (status == IBCOLL_OK) return UCC_OK;
  team->watch = NULL;
  tl_ibcoll_unwatch(&context->numbers, team->watch_number);
  return tl_ibcoll_failed(team, status);
}

static void end_watch(tl_ibcoll_team* team) {
  if (team->watch == NULL) return;
  const int goes_on = ibcoll_group_status(team->watch) == IBCOLL_OK;
  (void)ibcoll_group_free(team->watch);
  team->watch = NULL;
  if (goes_on) tl_ibcoll_unwatch(&TL_IBCOLL_CONTEXT(team)->numbers, team->watch_number);
}

/** What there is to say while the program's allgather goes on. */
static ucc_status_t look_for_deaths(tl_ibcoll_team* team) {
  ibcoll_status status = ibcoll_progress(TL_IBCOLL_CONTEXT(team)->job, NULL);
  if (status == IBCOLL_OK && team->watch != NULL) status = ibcoll_group_status(team->watch);
  if (status == IBCOLL_OK) return UCC_INPROGRESS;
  (void)tl_ibcoll_failed(team, status);
  /* The allgather goes on, and may still write there. */
  team->votes = NULL;
  return UCC_ERR_NO_MESSAGE;
}

static ucc_status_t post_votes(tl_ibcoll_team* team) {
  const ucc_oob_coll_t* const oob = &UCC_TL_TEAM_OOB(team);
  return oob->allgather(&team->vote, team->votes, sizeof team->vote, oob->coll_info,
                        &team->exchange);
}

/** Notes the members, as the job numbers them. */
static ucc_status_t find_ranks(tl_ibcoll_team* team) {
  const ucc_rank_t size = UCC_TL_TEAM_SIZE(team);
  team->ranks = malloc(size * sizeof *team->ranks);
  team->votes = malloc(size * sizeof *team->votes);
  if (team->ranks == NULL || team->votes == NULL) return UCC_ERR_NO_MEMORY;
  team->list = size;
  for (ucc_rank_t i = 0; i < size; ++i) {
    const ucc_rank_t core = ucc_ep_map_eval(UCC_TL_TEAM_MAP(team), i);
    const ucc_rank_t rank = ucc_get_ctx_rank(UCC_TL_CORE_TEAM(team), core);
    team->ranks[i] = (int)rank;
    team->list = (team->list ^ rank) * 0x9e3779b97f4a7c15 + (team->list >> 29);
  }
  team->first = (uint64_t)team->ranks[0];
  return UCC_OK;
}

/** Notes the members as a set. They are numbered by their order in the job there, so the team must
 * have them in that order. */
static ucc_status_t find_set(tl_ibcoll_team* team) {
  team->set_words = ibcoll_set_words(ibcoll_size(TL_IBCOLL_CONTEXT(team)->job));
  team->set = calloc(team->set_words, sizeof *team->set);
  if (team->set == NULL) return UCC_ERR_NO_MEMORY;
  for (ucc_rank_t i = 0; i < UCC_TL_TEAM_SIZE(team); ++i) {
    if (i > 0 && team->ranks[i] <= team->ranks[i - 1]) return UCC_ERR_NOT_SUPPORTED;
    ibcoll_set_add(team->set, team->ranks[i]);
  }
  return UCC_OK;
}

/** In which order the team's calls begin. CL/HIER starts those of a team of its in an order that
 * differs from rank to rank, but initializes them in the same one. */
static ucc_post_ordering_t ordering_of(const ucc_base_team_params_t* parameters) {
  if (parameters->scope == UCC_CL_HIER) return UCC_COLLECTIVE_INIT_ORDERED;
  return parameters->params.mask & UCC_TEAM_PARAM_FIELD_ORDERING ? parameters->params.ordering
                                                                 : UCC_COLLECTIVE_POST_ORDERED;
}

static void put_away(tl_ibcoll_team* team) {
  end_watch(team);
  tl_ibcoll_resume_end(team);
  free(team->ranks);
  free(team->set);
  free(team->votes);
}

UCC_CLASS_INIT_FUNC(tl_ibcoll_team, ucc_base_context_t* base,
                    const ucc_base_team_params_t* parameters) {
  tl_ibcoll_context* const context = ucc_derived_of(base, tl_ibcoll_context);
  UCC_CLASS_CALL_SUPER_INIT(ucc_tl_team_t, &context->super, parameters);
  memset((char*)self + sizeof self->super, 0, sizeof *self - sizeof self->super);
  if (parameters->scope != UCC_CL_BASIC && parameters->scope != UCC_CL_HIER)
    return UCC_ERR_NOT_SUPPORTED;
  const ucc_post_ordering_t ordering = ordering_of(parameters);
  if (ordering != UCC_COLLECTIVE_POST_ORDERED && ordering != UCC_COLLECTIVE_INIT_ORDERED &&
      ordering != UCC_COLLECTIVE_INIT_AND_POST_ORDERED)
    return UCC_ERR_NOT_SUPPORTED;
  if (parameters->params.oob.allgather == NULL) {
    /* UCC makes one of TL/UCP's collectives, if that is there. */
    tl_debug(context->super.super.lib, "the team has no allgather: not used");
    return UCC_ERR_NOT_SUPPORTED;
  }
  pthread_mutex_init(&self->resume.mutex, NULL);
  ucc_status_t status = find_ranks(self);
  if (status == UCC_OK && ordering == UCC_COLLECTIVE_INIT_ORDERED) status = find_set(self);
  if (status == UCC_OK) status = begin_watch(self);
  if (status == UCC_OK) {
    tl_ibcoll_propose(&context->numbers, self->list, &self->vote);
    status = post_votes(self);
  }
  if (status != UCC_OK) put_away(self);
  return status;
}

UCC_CLASS_CLEANUP_FUNC(tl_ibcoll_team) {
  tl_ibcoll_free_idle(self);
  if (self->group != NULL) {
    const ibcoll_status ended = ibcoll_group_status(self->group);
    if (ibcoll_group_free(self->group) != IBCOLL_OK)
      tl_debug(UCC_TL_TEAM_LIB(self), "%s", ibcoll_last_error());
    else if (ended == IBCOLL_OK && self->resume.generation == 0 && UCC_TL_TEAM_RANK(self) == 0)
      tl_ibcoll_retire(&TL_IBCOLL_CONTEXT(self)->numbers, self->list, self->number);
  }
  put_away(self);
}

UCC_CLASS_DEFINE(tl_ibcoll_team, ucc_tl_team_t);
UCC_CLASS_DEFINE_NEW_FUNC(tl_ibcoll_team, ucc_base_team_t, ucc_base_context_t*,
                          const ucc_base_team_params_t*);
UCC_CLASS_DEFINE_DELETE_FUNC(tl_ibcoll_team, ucc_base_team_t);

ibcoll_status tl_ibcoll_create_group(tl_ibcoll_team* team) {
  const ibcoll_group_options options = {.struct_size = sizeof options,
                                        .id = team->number | team->resume.generation << 40};
  const ibcoll_status status =
      ibcoll_group_create_with(TL_IBCOLL_CONTEXT(team)->job, team->ranks,
                               (int)UCC_TL_TEAM_SIZE(team), &options, &team->group);
  if (status == IBCOLL_OK) return status;
  tl_debug(UCC_TL_TEAM_LIB(team), "%s", ibcoll_last_error());
  team->group = NULL;
  return status;
}

static int all_agree(const tl_ibcoll_team* team) {
  for (ucc_rank_t rank = 0; rank < UCC_TL_TEAM_SIZE(team); ++rank)
    if (!team->votes[rank].agrees) return 0;
  return 1;
}

ucc_status_t tl_ibcoll_team_test(ucc_base_team_t* base) {
  tl_ibcoll_team* const team = ucc_derived_of(base, tl_ibcoll_team);
  const ucc_oob_coll_t* const oob = &UCC_TL_TEAM_OOB(team);
  while (team->votes != NULL) {
    ucc_status_t status = oob->req_test(team->exchange);
    if (status == UCC_INPROGRESS) return look_for_deaths(team);
    oob->req_free(team->exchange);
    if (status != UCC_OK) return status;
    if (team->number == 0) {
      team->number = team->votes[0].number;
      team->fresh = team->votes[0].fresh;
    } else if (!all_agree(team)) {
      if (team->fresh == 0) return UCC_ERR_NOT_SUPPORTED;
      if (team->group != NULL) (void)ibcoll_group_free(team->group);
      team->number = team->fresh;
      team->fresh = 0;
    } else {
      free(team->votes);
      team->votes = NULL;
      end_watch(team);
      break;
    }
    team->vote.agrees = tl_ibcoll_create_group(team) == IBCOLL_OK;
    status = post_votes(team);
    if (status != UCC_OK) return status;
  }
  return UCC_OK;
}

ucc_status_t tl_ibcoll_team_destroy(ucc_base_team_t* base) {
  UCC_CLASS_DELETE_FUNC_NAME(tl_ibcoll_team)(base);
  return UCC_OK;
}

/** Whether a word is in an entry of UCC_TL_UCP_TUNE. */
static int mentions(const char* entry, size_t bytes, const char* word) {
  return memmem(entry, bytes, word, strlen(word)) != NULL;
}

/** Whether TL/UCP is to carry out alltoallv by its one-sided algorithm, which is named or has
 * number 2. With it ranks pass other displacements than for any other. What this layer refuses UCC
 * passes to TL/UCP, but to which of its algorithms first differs with the number of layers there
 * are. So this layer must not come first. */
static int is_onesided_set(const tl_ibcoll_team* team) {
  const ucc_context_t* const context = UCC_TL_CORE_CTX(team);
  for (unsigned i = 0; i < context->n_tl_ctx; ++i) {
    const ucc_base_context_t* const layer = &context->tl_ctx[i]->super;
    if (strcmp(ucc_derived_of(layer->lib, ucc_tl_lib_t)->iface->super.name, "ucp") != 0) continue;
    for (const char* entry = layer->score_str; *entry != 0;) {
      const size_t bytes = strcspn(entry, "#");
      if (mentions(entry, bytes, "alltoallv") &&
          (mentions(entry, bytes, "@onesided") || mentions(entry, bytes, "@2")))
        return 1;
      entry += bytes;
      if (*entry == '#') ++entry;
    }
  }
  return 0;
}

ucc_status_t tl_ibcoll_team_get_scores(ucc_base_team_t* base, ucc_coll_score_t** scores) {
  tl_ibcoll_team* const team = ucc_derived_of(base, tl_ibcoll_team);
  ucc_memory_type_t memory = UCC_MEMORY_TYPE_HOST;
  const uint64_t claimed =
      TL_IBCOLL_COLLECTIVES & ~(is_onesided_set(team) ? (uint64_t)UCC_COLL_TYPE_ALLTOALLV : 0);
  ucc_coll_score_t* built;
  ucc_status_t status = ucc_coll_score_build_default(
      base, TL_IBCOLL_SCORE, tl_ibcoll_collective_init, claimed, &memory, 1, &built);
  if (status != UCC_OK) return status;
  const char* const wanted = UCC_TL_TEAM_CTX(team)->score_str;
  if (wanted[0] != 0) {
#if UCC_API_MINOR < 3
    status = ucc_coll_score_update_from_str(wanted, built, UCC_TL_TEAM_SIZE(team),
                                            tl_ibcoll_collective_init, base, TL_IBCOLL_SCORE, NULL,
                                            &memory, 1);
#else
    const ucc_coll_score_team_info_t info = {.default_score = TL_IBCOLL_SCORE,
                                             .size = UCC_TL_TEAM_SIZE(team),
                                             .supported_colls = claimed,
                                             .supported_mem_types = &memory,
                                             .num_mem_types = 1,
                                             .init = tl_ibcoll_collective_init};
    status = ucc_coll_score_update_from_str(wanted, &info, base, built);
#endif
    /* What of it this layer does not have is for the user to read in UCC's own message. */
    if (status < 0 && status != UCC_ERR_INVALID_PARAM && status != UCC_ERR_NOT_SUPPORTED) {
      ucc_coll_score_free(built);
      return status;
    }
  }
  *scores = built;
  return UCC_OK;
}
