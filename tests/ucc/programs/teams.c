// Contexts, teams and collectives of UCC that only the team layer ibcoll can serve: what UCC's own
// test programs do not try. Usage: ucc_teams RANKS WHAT.

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "board.h"
#include "ucc/api/ucc_version.h"

static int g_rank, g_ranks;
static ucc_lib_h g_lib;
static ucc_context_h g_context;
static place g_place;

__attribute__((noreturn, format(printf, 1, 2))) static void give_up(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "rank %d: ", g_rank);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

static void check(ucc_status_t status, const char* what) {
  if (status < 0) give_up("%s: %s", what, ucc_status_string(status));
}

static void begin(ucc_thread_mode_t threads, ucc_mem_map_params_t* segments) {
  setenv("UCC_TLS", "ibcoll,self", 1);
  ucc_lib_config_h lib_config;
  check(ucc_lib_config_read(NULL, NULL, &lib_config), "configuration of the library");
  const ucc_lib_params_t lib = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE, .thread_mode = threads};
  check(ucc_init(&lib, lib_config, &g_lib), "library");
  ucc_lib_config_release(lib_config);
  ucc_context_config_h config;
  check(ucc_context_config_read(g_lib, NULL, &config), "configuration of the context");
  g_place = place_on(0, g_rank, g_ranks);
  ucc_context_params_t context = {.mask = UCC_CONTEXT_PARAM_FIELD_OOB,
                                  .oob = allgather_over(&g_place)};
  if (segments != NULL) {
    context.mask |= UCC_CONTEXT_PARAM_FIELD_MEM_PARAMS;
    context.mem_params = *segments;
  }
  check(ucc_context_create(g_lib, &context, config, &g_context), "context");
  ucc_context_config_release(config);
}

static void end(void) {
  check(ucc_context_destroy(g_context), "end of the context");
  check(ucc_finalize(g_lib), "end of the library");
}

typedef struct team {
  place members;
  ucc_team_h handle;
} team;

static void post_ordered_team(team* made, int board, int rank, int size,
                              ucc_post_ordering_t ordering) {
  made->members = place_on(board, rank, size);
  const ucc_team_params_t parameters = {
      .mask = UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE | UCC_TEAM_PARAM_FIELD_OOB |
              UCC_TEAM_PARAM_FIELD_ORDERING,
      .ordering = ordering,
      .ep = (uint64_t)rank,
      .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG,
      .oob = allgather_over(&made->members)};
  check(ucc_team_create_post(&g_context, 1, &parameters, &made->handle), "team");
}

static void post_team(team* made, int board, int rank, int size) {
  post_ordered_team(made, board, rank, size, UCC_COLLECTIVE_POST_ORDERED);
}

static int is_made(const team* made) {
  const ucc_status_t status = ucc_team_create_test(made->handle);
  check(status, "team, tested");
  (void)ucc_context_progress(g_context);
  if (status != UCC_OK) sched_yield();
  return status == UCC_OK;
}

static void destroy_team(const team* made) {
  ucc_status_t status;
  while ((status = ucc_team_destroy(made->handle)) == UCC_INPROGRESS) sched_yield();
  check(status, "end of a team");
}

static ucc_status_t finish(ucc_coll_req_h request) {
  ucc_status_t status;
  while ((status = ucc_collective_test(request)) == UCC_INPROGRESS ||
         status == UCC_OPERATION_INITIALIZED)
    (void)ucc_context_progress(g_context);
  return status;
}

static ucc_coll_args_t sum_of(int64_t* mine, int64_t* all, size_t count) {
  const ucc_coll_args_t sum = {.coll_type = UCC_COLL_TYPE_ALLREDUCE,
                               .src.info = {mine, count, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST},
                               .dst.info = {all, count, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST},
                               .op = UCC_OP_SUM};
  return sum;
}

static ucc_status_t run(ucc_coll_args_t* call, const team* on) {
  ucc_coll_req_h request;
  check(ucc_collective_init(call, &request, on->handle), "collective");
  ucc_status_t status = ucc_collective_post(request);
  if (status == UCC_OK) status = finish(request);
  check(ucc_collective_finalize(request), "end of a collective");
  return status;
}

/** The sum of what the team's ranks give, each `base` and its rank there. */
static void check_sum(const team* on, int64_t base) {
  const int64_t size = on->members.size;
  int64_t mine = base + on->members.rank, all = 0;
  ucc_coll_args_t sum = sum_of(&mine, &all, 1);
  check(run(&sum, on), "sum");
  const int64_t expected = base * size + size * (size - 1) / 2;
  if (all != expected) give_up("a sum is %ld, not %ld", (long)all, (long)expected);
}

static long resident_kb(void) {
  FILE* const file = fopen("/proc/self/status", "r");
  char line[256];
  long kb = -1;
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "RssAnon: %ld", &kb) == 1) break;
  if (file != NULL) fclose(file);
  return kb;
}

/** All ranks twice, all in reverse, and every other one: made at the same time, in another order on
 * every other rank, used, and destroyed in another order still. */
static void one_round(int64_t round) {
  enum { kTeams = 4 };
  const int half = g_rank % 2;
  const int ranks[kTeams] = {g_rank, g_ranks - 1 - g_rank, g_rank / 2, g_rank};
  const int sizes[kTeams] = {g_ranks, g_ranks, (g_ranks + 1 - half) / 2, g_ranks};
  const int boards[kTeams] = {1, 2, 3 + half, 5};
  team teams[kTeams];
  for (int i = 0; i < kTeams; ++i) {
    const int which = half ? kTeams - 1 - i : i;
    post_team(&teams[which], boards[which], ranks[which], sizes[which]);
  }
  for (int made = 0; made != (1 << kTeams) - 1;)
    for (int i = 0; i < kTeams; ++i)
      if (!(made >> i & 1) && is_made(&teams[i])) made |= 1 << i;
  for (int i = 0; i < kTeams; ++i) check_sum(&teams[(i + 2) % kTeams], round);
  for (int i = 0; i < kTeams; ++i) destroy_team(&teams[(i + 1 + half) % kTeams]);
}

static void make_many(void) {
  begin(UCC_THREAD_SINGLE, NULL);
  for (int round = 0; round < 100; ++round) one_round(round);
  const long before = resident_kb();
  for (int round = 0; round < 500; ++round) one_round(round);
  const long after = resident_kb();
  printf("rank %d: %ld KB of memory after 100 rounds, %ld after 600\n", g_rank, before, after);
  if (after > before + 1024) give_up("memory has grown by %ld KB", after - before);
  end();
}

static void make_world(team* made, int board) {
  post_team(made, board, g_rank, g_ranks);
  while (!is_made(made)) {
  }
}

/** A broadcast in each pair of neighbours, on the left and on the right, with and without a tag. */
static void use_active_sets(void) {
  begin(UCC_THREAD_SINGLE, NULL);
  team world;
  make_world(&world, 1);
  for (int round = 0; round < 50; ++round) {
    for (int first = 0; first + 1 < g_ranks; ++first) {
      if (g_rank != first && g_rank != first + 1) continue;
      const int root = first + round % 2;
      int64_t data[64] = {0};
      for (int i = 0; i < 64; ++i) data[i] = g_rank == root ? 1000 * round + first + i : -1;
      ucc_coll_args_t call = {
          .mask = UCC_COLL_ARGS_FIELD_ACTIVE_SET | (round % 3 ? UCC_COLL_ARGS_FIELD_TAG : 0),
          .coll_type = UCC_COLL_TYPE_BCAST,
          .src.info = {data, 64, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST},
          .root = (uint64_t)root,
          .tag = (ucc_coll_id_t)round,
          .active_set = {.start = (uint64_t)first, .stride = 1, .size = 2}};
      check(run(&call, &world), "broadcast to an active set");
      for (int i = 0; i < 64; ++i)
        if (data[i] != 1000 * round + first + i) give_up("round %d: wrong data", round);
    }
  }
  destroy_team(&world);
  end();
}

/** Ranks 1 and 2 are in two teams that differ in their first member alone. Each makes a broadcast
 * from 1 to 2 on both, with the same tag, in another order than the other one. */
static void use_sets_of_two_teams(void) {
  if (g_ranks < 4) give_up("four ranks or more make two such teams");
  begin(UCC_THREAD_SINGLE, NULL);
  const int is_member[2] = {g_rank<3, g_rank> 0 && g_rank < 4};
  const int ranks[2] = {g_rank, g_rank % 3};
  team teams[2];
  for (int i = 0; i < 2; ++i) {
    if (!is_member[i]) continue;
    post_team(&teams[i], 1 + i, ranks[i], 3);
    while (!is_made(&teams[i])) {
    }
  }
  for (int round = 0; round < 20 && is_member[0] && is_member[1] && g_rank != 0; ++round) {
    int64_t data[2];
    ucc_coll_req_h requests[2];
    for (int i = 0; i < 2; ++i) {
      const int which = (i + g_rank) % 2;
      data[which] = g_rank == 1 ? 1000 * which + round : -1;
      ucc_coll_args_t call = {
          .mask = UCC_COLL_ARGS_FIELD_ACTIVE_SET | (round % 2 ? UCC_COLL_ARGS_FIELD_TAG : 0),
          .coll_type = UCC_COLL_TYPE_BCAST,
          .src.info = {&data[which], 1, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST},
          .root = 1,
          .tag = 5,
          .active_set = {.start = 1, .stride = 1, .size = 2}};
      check(ucc_collective_init(&call, &requests[which], teams[which].handle), "broadcast");
      check(ucc_collective_post(requests[which]), "start of a broadcast");
    }
    for (int i = 0; i < 2; ++i) {
      check(finish(requests[i]), "broadcast to an active set");
      check(ucc_collective_finalize(requests[i]), "end of a broadcast");
      if (data[i] != 1000 * i + round) give_up("round %d: %ld on team %d", round, (long)data[i], i);
    }
  }
  for (int i = 0; i < 2; ++i)
    if (is_member[i]) destroy_team(&teams[i]);
  end();
}

/** Sums and broadcasts that all ranks initialize in the same order, and post in another one each.
 */
static void use_any_order(void) {
  enum { kCalls = 6 };
  begin(UCC_THREAD_SINGLE, NULL);
  team world;
  post_ordered_team(&world, 1, g_rank, g_ranks, UCC_COLLECTIVE_INIT_ORDERED);
  while (!is_made(&world)) {
  }
  for (int round = 0; round < 50; ++round) {
    int64_t mine[kCalls], all[kCalls];
    ucc_coll_req_h requests[kCalls];
    for (int i = 0; i < kCalls; ++i) {
      ucc_coll_args_t call = sum_of(&mine[i], &all[i], 1);
      mine[i] = 100 * round + i + g_rank;
      if (i % 2 != 0) { /* of what the root gives */
        call.coll_type = UCC_COLL_TYPE_BCAST;
        call.root = (uint64_t)(i % g_ranks);
        call.src.info.buffer = &all[i];
        all[i] = (int)call.root == g_rank ? mine[i] : -1;
      }
      call.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
      call.flags |= UCC_COLL_ARGS_FLAG_PERSISTENT;
      check(ucc_collective_init(&call, &requests[i], world.handle), "collective");
    }
    for (int again = 0; again < 2; ++again) {
      for (int i = 0; i < kCalls; ++i)
        check(ucc_collective_post(requests[(i * (g_rank % 2 ? 5 : 1) + g_rank) % kCalls]), "start");
      for (int i = 0; i < kCalls; ++i) check(finish(requests[i]), "collective in any order");
      for (int i = 0; i < kCalls; ++i) {
        const int64_t first = 100 * round + i + again * 1000;
        const int64_t expected =
            i % 2 != 0 ? first + i % g_ranks : first * g_ranks + g_ranks * (g_ranks - 1) / 2;
        if (all[i] != expected)
          give_up("round %d: call %d gives %ld, not %ld", round, i, (long)all[i], (long)expected);
        mine[i] += 1000;
        if (i % 2 != 0) all[i] = i % g_ranks == g_rank ? mine[i] : -1;
      }
    }
    for (int i = 0; i < kCalls; ++i) check(ucc_collective_finalize(requests[i]), "end");
  }
  destroy_team(&world);
  end();
}

enum { kBlock = 40, kMostElements = kMaxRanks * kBlock };

/** What a rank gives as the source of the `i`th element. */
static int64_t given(int rank, int i) { return 1000 * (rank + 1) + i; }

/** Makes the collective with the same buffer as source and destination, but not UCC's flag for it:
 * `sent` elements lie at its beginning before, and `received` ones afterwards. */
static void check_in_one_buffer(const team* on, ucc_coll_type_t type, int sent, int received,
                                int64_t (*expected)(int)) {
  static uint32_t counts[kMaxRanks], displacements[kMaxRanks];
  const int size = on->members.size;
  for (int i = 0; i < size; ++i) {
    counts[i] = kBlock;
    displacements[i] = (uint32_t)i * kBlock;
  }
  const int lists = UCC_COLL_TYPE_ALLTOALLV | UCC_COLL_TYPE_ALLGATHERV | UCC_COLL_TYPE_GATHERV;
  int64_t data[kMostElements];
  for (int i = 0; i < kMostElements; ++i) data[i] = i < sent ? given(on->members.rank, i) : -1;
  ucc_coll_args_t call = {.coll_type = type, .op = UCC_OP_SUM, .root = (uint64_t)size - 1};
  const ucc_coll_buffer_info_t source = {data, (uint64_t)sent, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST};
  const ucc_coll_buffer_info_t all = {data, (uint64_t)received, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST};
  const ucc_coll_buffer_info_v_t listed = {data, (ucc_count_t*)counts, (ucc_aint_t*)displacements,
                                           UCC_DT_INT64, UCC_MEMORY_TYPE_HOST};
  if (type & (UCC_COLL_TYPE_ALLTOALLV | UCC_COLL_TYPE_SCATTERV))
    call.src.info_v = listed;
  else
    call.src.info = source;
  if (type & (lists | UCC_COLL_TYPE_REDUCE_SCATTERV))
    call.dst.info_v = listed;
  else
    call.dst.info = all;
  const ucc_status_t status = run(&call, on);
  if (status != UCC_OK) give_up("collective %#x: %s", (unsigned)type, ucc_status_string(status));
  for (int i = 0; i < received; ++i)
    if (data[i] != expected(i))
      give_up("collective %#x: element %d is %ld, not %ld", (unsigned)type, i, (long)data[i],
              (long)expected(i));
}

/** What the `i`th element becomes where blocks of all ranks come together. */
static int64_t exchanged(int i) { return given(i / kBlock, g_rank * kBlock + i % kBlock); }
static int64_t gathered(int i) { return given(i / kBlock, i % kBlock); }
static int64_t scattered(int i) { return given(g_ranks - 1, g_rank * kBlock + i); }
static int64_t summed(int i) {
  int64_t sum = 0;
  for (int rank = 0; rank < g_ranks; ++rank) sum += given(rank, i);
  return sum;
}
static int64_t own_summed(int i) { return summed(g_rank * kBlock + i); }
static int64_t kept(int i) { return given(g_rank, i); }

static void use_one_buffer(void) {
  begin(UCC_THREAD_SINGLE, NULL);
  team world;
  make_world(&world, 1);
  const int is_root = g_rank == g_ranks - 1, all = g_ranks * kBlock;
  for (int round = 0; round < 3; ++round) {
    check_in_one_buffer(&world, UCC_COLL_TYPE_ALLREDUCE, all, all, summed);
    check_in_one_buffer(&world, UCC_COLL_TYPE_REDUCE, all, all, is_root ? summed : kept);
    check_in_one_buffer(&world, UCC_COLL_TYPE_REDUCE_SCATTER, all, kBlock, own_summed);
    check_in_one_buffer(&world, UCC_COLL_TYPE_REDUCE_SCATTERV, all, kBlock, own_summed);
    check_in_one_buffer(&world, UCC_COLL_TYPE_ALLTOALL, all, all, exchanged);
    check_in_one_buffer(&world, UCC_COLL_TYPE_ALLTOALLV, all, all, exchanged);
    check_in_one_buffer(&world, UCC_COLL_TYPE_ALLGATHER, kBlock, all, gathered);
    check_in_one_buffer(&world, UCC_COLL_TYPE_ALLGATHERV, kBlock, all, gathered);
    check_in_one_buffer(&world, UCC_COLL_TYPE_GATHER, kBlock, is_root ? all : kBlock,
                        is_root ? gathered : kept);
    check_in_one_buffer(&world, UCC_COLL_TYPE_GATHERV, kBlock, is_root ? all : kBlock,
                        is_root ? gathered : kept);
    check_in_one_buffer(&world, UCC_COLL_TYPE_SCATTER, all, kBlock, scattered);
    check_in_one_buffer(&world, UCC_COLL_TYPE_SCATTERV, all, kBlock, scattered);
  }
  destroy_team(&world);
  end();
}

static void* sum_in_thread(void* argument) {
  for (int64_t round = 0; round < 500; ++round) check_sum(argument, round);
  return NULL;
}

static void use_threads(void) {
  enum { kThreads = 3 };
  begin(UCC_THREAD_MULTIPLE, NULL);
  team teams[kThreads];
  for (int i = 0; i < kThreads; ++i) make_world(&teams[i], 1 + i);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], NULL, sum_in_thread, &teams[i]) != 0) give_up("no thread");
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads; ++i) destroy_team(&teams[i]);
  end();
}

static void use_segments(void) {
  enum { kCount = 100000 };
  int64_t* const memory = calloc(2 * kCount, sizeof *memory);
  ucc_mem_map_t segment = {memory, 2 * kCount * sizeof *memory};
  ucc_mem_map_params_t segments = {&segment, 1};
  begin(UCC_THREAD_SINGLE, &segments);
  team world;
  make_world(&world, 1);
  for (size_t i = 0; i < kCount; ++i) memory[i] = (int64_t)i;
  ucc_coll_args_t sum = sum_of(memory, memory + kCount, kCount);
  check(run(&sum, &world), "sum");
  for (size_t i = 0; i < kCount; ++i)
    if (memory[kCount + i] != (int64_t)i * g_ranks) give_up("element %zu is wrong", i);
  destroy_team(&world);
  end();
  free(memory);
}

#if UCC_API_MINOR >= 5
/** UCC asks all layers for a handle of the memory, and this one has none. */
static void map_memory(void) {
  begin(UCC_THREAD_SINGLE, NULL);
  char memory[4096];
  ucc_mem_map_t segment = {memory, sizeof memory};
  const ucc_mem_map_params_t segments = {&segment, 1};
  size_t size = 0;
  ucc_mem_map_mem_h handle = NULL;
  check(ucc_mem_map(g_context, UCC_MEM_MAP_MODE_EXPORT, &segments, &size, &handle), "handle");
  if (handle != NULL) check(ucc_mem_unmap(&handle), "end of a handle");
  end();
}
#endif

/** How a sum ends that some rank does not make. */
static ucc_status_t lonely_sum(const team* on) {
  int64_t mine = 1, all = 0;
  ucc_coll_args_t sum = sum_of(&mine, &all, 1);
  ucc_coll_req_h request;
  ucc_status_t status = ucc_collective_init(&sum, &request, on->handle);
  if (status != UCC_OK) return status;
  status = ucc_collective_post(request);
  if (status == UCC_OK) status = finish(request);
  check(ucc_collective_finalize(request), "end of a collective");
  return status;
}

/** The last rank is killed: what the others have under way ends with an error, and so does what
 * they begin later, and they can put all away. */
static void lose_a_rank(void) {
  begin(UCC_THREAD_SINGLE, NULL);
  team world;
  make_world(&world, 1);
  check_sum(&world, 1);
  if (g_rank == g_ranks - 1) kill(getpid(), SIGKILL);
  for (int call = 0; call < 2; ++call) {
    const ucc_status_t status = lonely_sum(&world);
    if (status >= 0) give_up("a sum with a rank that is dead ended with %d", status);
  }
  destroy_team(&world);
}

/** The last rank is killed while a team is made, when it has posted so many of its allgathers and
 * is to post another: the others get an error. UCC itself makes the first one. */
static void lose_a_member(unsigned long posted) {
  begin(UCC_THREAD_SINGLE, NULL);
  team world;
  make_world(&world, 1);
  team next;
  post_team(&next, 2, g_rank, g_ranks);
  if (g_rank == g_ranks - 1) next.members.last = posted;
  ucc_status_t status;
  while ((status = ucc_team_create_test(next.handle)) == UCC_INPROGRESS) {
    (void)ucc_context_progress(g_context);
    sched_yield();
  }
  if (status >= 0) give_up("a team with a rank that is dead was made");
}
static void lose_before_votes(void) { lose_a_member(1); }
static void lose_between_votes(void) { lose_a_member(2); }

/** A sum for which the rank waits no longer than a moment: it gets UCC's own error. */
static void give_up_sum(const team* on) {
  int64_t mine = 1, all = 0;
  ucc_coll_args_t sum = sum_of(&mine, &all, 1);
  sum.mask = UCC_COLL_ARGS_FIELD_FLAGS;
  sum.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
  sum.timeout = 0.05;
  const ucc_status_t status = run(&sum, on);
  if (status != UCC_ERR_TIMED_OUT) give_up("not timed out, but %s", ucc_status_string(status));
}

/** Rank 0 gives up sums for which the others come late. What it had sent may be enough for theirs,
 * and otherwise they end with the same error. Then the team goes on, again and again. */
static void give_up_waiting(void) {
  enum { kGivenUp = 2 }; /* one after the other: the second while the team gets its next group */
  begin(UCC_THREAD_SINGLE, NULL);
  team world, other;
  make_world(&world, 1);
  make_world(&other, 2);
  check_sum(&world, 7);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kGivenUp && g_rank == 0; ++i) give_up_sum(&world);
    check_sum(&other, 2 * round);
    for (int i = 0; i < kGivenUp && g_rank != 0; ++i) {
      const ucc_status_t status = lonely_sum(&world);
      if (status != UCC_OK && status != UCC_ERR_TIMED_OUT)
        give_up("a sum that rank 0 gave up: %s", ucc_status_string(status));
    }
    check_sum(&other, 2 * round + 1);
    for (int i = 0; i < 20; ++i) check_sum(&world, i);
  }
  destroy_team(&world);
  destroy_team(&other);
  end();
}

static const struct {
  const char* name;
  void (*run)(void);
  int deaths;
} kWhat[] = {{"many", make_many, 0},
             {"sets", use_active_sets, 0},
             {"setclash", use_sets_of_two_teams, 0},
             {"anyorder", use_any_order, 0},
             {"alias", use_one_buffer, 0},
             {"threads", use_threads, 0},
             {"segments", use_segments, 0},
#if UCC_API_MINOR >= 5
             {"memmap", map_memory, 0},
#endif
             {"timeout", give_up_waiting, 0},
             {"death", lose_a_rank, 1},
             {"deathmade1", lose_before_votes, 1},
             {"deathmade2", lose_between_votes, 1}};

int main(int argc, char** argv) {
  const size_t all = sizeof kWhat / sizeof *kWhat;
  size_t what = 0;
  while (argc == 3 && what < all && strcmp(argv[2], kWhat[what].name) != 0) ++what;
  g_ranks = argc == 3 ? atoi(argv[1]) : 0;
  if (g_ranks < 2 || g_ranks > kMaxRanks || what == all) {
    fprintf(stderr, "usage: ucc_teams RANKS");
    for (what = 0; what < all; ++what)
      fprintf(stderr, "%c%s", what == 0 ? ' ' : '|', kWhat[what].name);
    fputc('\n', stderr);
    return 2;
  }
  make_boards();
  for (g_rank = 0; g_rank < g_ranks; ++g_rank) {
    if (fork() != 0) continue;
    kWhat[what].run();
    fflush(stdout);
    _exit(0);
  }
  int killed = 0, failed = 0, status;
  while (wait(&status) > 0) {
    killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return failed == kWhat[what].deaths && killed == kWhat[what].deaths ? 0 : 1;
}
