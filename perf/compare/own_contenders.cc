#include "perf/compare/own_contenders.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "engine/bootstrap/launch.h"
#include "ibcoll/ibcoll.h"
#include "studies/measure/copy_speed.h"

namespace ibcoll::compare {
namespace {

using measure::CopySpeed;
using measure::Traffic;

contest_rank seat_of(contest& shared, int seat, int rank) {
  contest_rank me{};
  me.contest = &shared;
  me.seat = &shared.seat[seat];
  me.rank = rank;
  return me;
}

struct IbcollJob {
  contest* shared;
  int seat;
  bool user_memory;
};

/// What serves orders with the library's calls.
struct IbcollRank {
  ibcoll_group* world;
  ibcoll_graph* graph;
  /// reduce_scatter: the doubles that each rank receives.
  int64_t doubles[CONTEST_MAX_RANKS];
  /// alltoallw.
  ibcoll_block send[CONTEST_MAX_RANKS], receive[CONTEST_MAX_RANKS];
};

void prepare_ibcoll(const contest_rank* me) {
  auto* own = static_cast<IbcollRank*>(me->user);
  const contest_blocks& b = me->blocks;
  for (int i = 0; i < b.sends; ++i) own->doubles[i] = b.send_bytes[i] / 8;
  for (int i = 0; b.run != 0 && i < b.sends; ++i) {
    own->send[i] = ibcoll_block_vector(b.send_at[i], b.run, b.send_bytes[i] / b.run, 2 * b.run);
    own->receive[i] =
        ibcoll_block_vector(b.receive_at[i], b.run, b.receive_bytes[i] / b.run, 2 * b.run);
  }
}

ibcoll_status combine(const contest_rank* me, int collective) {
  const auto* own = static_cast<const IbcollRank*>(me->user);
  const size_t doubles = me->block_bytes / 8;
  ibcoll_group* const world = own->world;
  switch (collective) {
    case CONTEST_REDUCE:
      return ibcoll_reduce(world, me->send, me->receive, doubles, IBCOLL_DOUBLE, IBCOLL_SUM, 0,
                           nullptr);
    case CONTEST_ALLREDUCE:
      return ibcoll_allreduce(world, me->send, me->receive, doubles, IBCOLL_DOUBLE, IBCOLL_SUM,
                              nullptr);
    case CONTEST_REDUCE_SCATTER:
      return ibcoll_reduce_scatter(world, me->send, me->receive, own->doubles, IBCOLL_DOUBLE,
                                   IBCOLL_SUM, nullptr);
    case CONTEST_REDUCE_SCATTER_BLOCK:
      return ibcoll_reduce_scatter_block(world, me->send, me->receive, doubles, IBCOLL_DOUBLE,
                                         IBCOLL_SUM, nullptr);
    case CONTEST_SCAN:
      return ibcoll_scan(world, me->send, me->receive, doubles, IBCOLL_DOUBLE, IBCOLL_SUM, nullptr);
    case CONTEST_EXSCAN:
      return ibcoll_exscan(world, me->send, me->receive, doubles, IBCOLL_DOUBLE, IBCOLL_SUM,
                           nullptr);
    default:
      return IBCOLL_ERR_INVALID;
  }
}

ibcoll_status move(const contest_rank* me, int collective) {
  const auto* own = static_cast<const IbcollRank*>(me->user);
  ibcoll_group* const world = own->world;
  const contest_blocks& b = me->blocks;
  const size_t bytes = me->block_bytes;
  switch (collective) {
    case CONTEST_ALLTOALL:
      return ibcoll_alltoall(world, me->send, me->receive, bytes, nullptr);
    case CONTEST_ALLTOALLV:
      return ibcoll_alltoallv(world, me->send, b.send_bytes, b.send_at, me->receive,
                              b.receive_bytes, b.receive_at, nullptr);
    case CONTEST_ALLTOALLW:
      return ibcoll_alltoallw(world, me->send, own->send, me->receive, own->receive, nullptr);
    case CONTEST_NEIGHBOR_ALLGATHER:
      return ibcoll_neighbor_allgather(own->graph, me->send, me->receive, bytes, nullptr);
    case CONTEST_NEIGHBOR_ALLTOALL:
      return ibcoll_neighbor_alltoall(own->graph, me->send, me->receive, bytes, nullptr);
    case CONTEST_ALLGATHER:
      return ibcoll_allgather(world, me->send, me->receive, bytes, nullptr);
    case CONTEST_ALLGATHERV:
      return ibcoll_allgatherv(world, me->send, b.send_bytes[0], me->receive, b.receive_bytes,
                               b.receive_at, nullptr);
    case CONTEST_GATHER:
      return ibcoll_gather(world, me->send, me->receive, bytes, 0, nullptr);
    case CONTEST_GATHERV:
      return ibcoll_gatherv(world, me->send, b.send_bytes[0], me->receive, b.receive_bytes,
                            b.receive_at, 0, nullptr);
    case CONTEST_SCATTER:
      return ibcoll_scatter(world, me->send, me->receive, bytes, 0, nullptr);
    case CONTEST_SCATTERV:
      return ibcoll_scatterv(world, me->send, b.send_bytes, b.send_at, me->receive,
                             b.receive_bytes[0], 0, nullptr);
    case CONTEST_BCAST:
      return ibcoll_bcast(world, me->receive, bytes, 0, nullptr);
    case CONTEST_BARRIER:
      return ibcoll_barrier(world, nullptr);
    default:
      return combine(me, collective);
  }
}

int call_ibcoll(const contest_rank* me, int collective) {
  if (move(me, collective) == IBCOLL_OK) return 0;
  contest_fail(me->seat, ibcoll_last_error());
  return -1;
}

/// One rank of the job, through the interface every user has.
int serve_ibcoll(ibcoll_context* context, void* argument) {
  const auto& job = *static_cast<const IbcollJob*>(argument);
  contest_rank me = seat_of(*job.shared, job.seat, ibcoll_rank(context));
  if (contest_bind(job.shared, me.rank) != 0) {
    contest_fail(me.seat, "can't bind the ranks");
    return 1;
  }
  const size_t rooms[2] = {job.shared->send_room, job.shared->receive_room};
  void* buffers[2] = {nullptr, nullptr};
  for (int i = 0; i < 2; ++i) {
    if (job.user_memory) {
      // As the MPI programs do, and not touched before it is used: pages touched by all ranks at
      // once lie scattered, which made copies of megabytes a third slower here.
      buffers[i] = std::aligned_alloc(4096, (rooms[i] + 4095) / 4096 * 4096 + 4096);
    } else if (ibcoll_alloc(context, std::max<size_t>(1, rooms[i]), &buffers[i]) != IBCOLL_OK) {
      contest_fail(me.seat, ibcoll_last_error());
      return 1;
    }
    if (buffers[i] == nullptr) {
      contest_fail(me.seat, "not enough memory for the buffers");
      return 1;
    }
  }
  me.send = static_cast<unsigned char*>(buffers[0]);
  me.receive = static_cast<unsigned char*>(buffers[1]);
  IbcollRank own{};
  own.world = ibcoll_world(context);
  int sources[CONTEST_NEIGHBORS], destinations[CONTEST_NEIGHBORS];
  for (int i = 0; i < CONTEST_NEIGHBORS; ++i) {
    sources[i] = contest_source(me.rank, i, job.shared->ranks);
    destinations[i] = contest_destination(me.rank, i, job.shared->ranks);
  }
  if (ibcoll_graph_create(own.world, CONTEST_NEIGHBORS, sources, CONTEST_NEIGHBORS, destinations,
                          &own.graph) != IBCOLL_OK) {
    contest_fail(me.seat, ibcoll_last_error());
    return 1;
  }
  me.call = call_ibcoll;
  me.prepare = prepare_ibcoll;
  me.user = &own;
  const int status = contest_serve(&me);
  ibcoll_graph_free(own.graph);
  return status;
}

/// The traffic whose copying stands for a collective's, and which part of it must be.
struct Copying {
  Collective collective;
  int64_t bytes;
  double part = 1;
};

/// Reductions read every block and write what is received; they are timed as all-to-alls of slices,
/// which read as much and write all of it.
Copying copying_of(int collective, int ranks, int64_t bytes) {
  const int64_t slice = std::max<int64_t>(bytes / ranks, 8);
  const double results = (ranks + 1.0) / (2.0 * ranks);
  switch (collective) {
    case CONTEST_ALLTOALLW:
      return {Collective::kAlltoall, bytes};
    case CONTEST_NEIGHBOR_ALLGATHER:
    case CONTEST_NEIGHBOR_ALLTOALL:
      return {Collective::kAlltoall, std::max<int64_t>(CONTEST_NEIGHBORS * bytes / ranks, 1)};
    case CONTEST_REDUCE:
      return {Collective::kAlltoall, slice, results};
    case CONTEST_ALLREDUCE:
    case CONTEST_SCAN:
    case CONTEST_EXSCAN:
      return {Collective::kAlltoall, slice};
    case CONTEST_REDUCE_SCATTER:
    case CONTEST_REDUCE_SCATTER_BLOCK:
      return {Collective::kAlltoall, bytes, results};
    default:
      return {*parse_collective(contest_name(collective)), bytes};
  }
}

int measure_memcpy(const contest_rank* me) {
  const auto samples = static_cast<int>(me->seat->samples);
  const Copying copying = copying_of(static_cast<int>(me->seat->collective), me->contest->ranks,
                                     static_cast<int64_t>(me->seat->block_bytes));
  const Traffic traffic(copying.collective, me->contest->ranks, copying.bytes);
  double* const call_ns = me->seat->call_ns[me->rank];
  if (traffic.total_bytes() == 0) {
    std::fill_n(call_ns, samples, 0);
    return 0;
  }
  auto speed = CopySpeed::create(*static_cast<Bootstrap*>(me->user), traffic);
  if (!speed) return -1;
  const auto calls = speed->time_calls(traffic, copy_plain, samples);
  if (!calls) return -1;
  for (size_t i = 0; i < calls->size(); ++i) call_ns[i] = (*calls)[i] * copying.part;
  return 0;
}

Status serve_memcpy(Bootstrap& bootstrap, contest& shared, int seat) {
  contest_rank me = seat_of(shared, seat, bootstrap.rank());
  if (contest_bind(&shared, me.rank) != 0) return fail_errno("can't bind the ranks");
  me.user = &bootstrap;
  me.measure = measure_memcpy;
  if (contest_serve(&me) != 0) return fail(ErrorCode::kPeerFailed, "a rank gave up");
  return {};
}

}  // namespace

int run_ibcoll(contest& shared, int seat, bool user_memory) {
  IbcollJob job{&shared, seat, user_memory};
  ibcoll_launch_options options = IBCOLL_LAUNCH_OPTIONS_INIT;
  options.ranks = shared.ranks;
  options.bind = 0;  // contest_bind does, as for all contenders
  int status = 0;
  if (ibcoll_launch(&options, serve_ibcoll, &job, &status) != IBCOLL_OK) {
    contest_fail(&shared.seat[seat], ibcoll_last_error());
    return 1;
  }
  return status;
}

int run_ibcoll_rank(contest& shared, int seat, bool user_memory) {
  IbcollJob job{&shared, seat, user_memory};
  ibcoll_context* context = nullptr;
  if (ibcoll_init(&context) != IBCOLL_OK) {
    contest_fail(&shared.seat[seat], ibcoll_last_error());
    return 1;
  }
  const int status = serve_ibcoll(context, &job);
  return ibcoll_finalize(context) == IBCOLL_OK ? status : 1;
}

int run_memcpy(contest& shared, int seat) {
  LaunchOptions options;
  options.ranks = shared.ranks;
  options.bind = false;
  const Result<int> status = launch_processes(options, [&](Bootstrap& bootstrap) {
    const Status done = serve_memcpy(bootstrap, shared, seat);
    if (!done) contest_fail(&shared.seat[seat], done.error().message.c_str());
    return done ? 0 : 1;
  });
  if (!status) contest_fail(&shared.seat[seat], status.error().message.c_str());
  return status.value_or(1);
}

}  // namespace ibcoll::compare
