#include "perf/compare/own_contenders.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "engine/bootstrap/launch.h"
#include "engine/measure/copy_speed.h"
#include "ibcoll/ibcoll.h"

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

int call_ibcoll(void* rank, uint64_t block_bytes) {
  const auto* me = static_cast<const contest_rank*>(rank);
  auto* world = static_cast<ibcoll_group*>(me->user);
  if (ibcoll_alltoall(world, me->send, me->receive, block_bytes, nullptr) == IBCOLL_OK) return 0;
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
  const size_t bytes =
      static_cast<size_t>(ibcoll_size(context)) * std::max<size_t>(1, job.shared->max_block_bytes);
  void* buffers[2] = {nullptr, nullptr};
  for (void*& buffer : buffers) {
    if (job.user_memory) {
      // As the MPI programs do, and not touched before it is used: pages touched by all ranks at
      // once lie scattered, which made copies of megabytes a third slower here.
      buffer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096 + 4096);
    } else if (ibcoll_alloc(context, bytes, &buffer) != IBCOLL_OK) {
      contest_fail(me.seat, ibcoll_last_error());
      return 1;
    }
    if (buffer == nullptr) {
      contest_fail(me.seat, "not enough memory for the buffers");
      return 1;
    }
  }
  me.send = static_cast<unsigned char*>(buffers[0]);
  me.receive = static_cast<unsigned char*>(buffers[1]);
  me.call = call_ibcoll;
  me.context = &me;
  me.user = ibcoll_world(context);
  return contest_serve(&me);
}

int measure_memcpy(const contest_rank* me) {
  const Traffic traffic(Collective::kAlltoall, me->contest->ranks,
                        static_cast<int64_t>(me->seat->block_bytes));
  const auto calls = static_cast<CopySpeed*>(me->context)
                         ->time_calls(traffic, copy_plain, static_cast<int>(me->seat->samples));
  if (!calls) return -1;
  std::copy(calls->begin(), calls->end(), me->seat->call_ns[me->rank]);
  return 0;
}

Status serve_memcpy(Bootstrap& bootstrap, contest& shared, int seat) {
  contest_rank me = seat_of(shared, seat, bootstrap.rank());
  if (contest_bind(&shared, me.rank) != 0) return fail_errno("can't bind the ranks");
  const Traffic largest(Collective::kAlltoall, shared.ranks,
                        static_cast<int64_t>(shared.max_block_bytes));
  IBCOLL_ASSIGN(CopySpeed speed, CopySpeed::create(bootstrap, largest));
  me.context = &speed;
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
