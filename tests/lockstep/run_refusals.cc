#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "tests/lockstep/random.h"
#include "tests/lockstep/run_state.h"

namespace ibcoll::lockstep {
namespace {

/// What multicasts cost is known only where IBCOLL_LOGP says it.
constexpr uint32_t kBoundOfUnknown = 23;

/// Arguments that can't be right, of this rank alone: nothing may come of them.
ibcoll_status pass_what_cannot_be(uint32_t which, ibcoll_context* context, int ranks, Rank me) {
  ibcoll_group* const world = ibcoll_world(context);
  alignas(16) std::byte memory[256] = {};
  ibcoll_options options = IBCOLL_OPTIONS_INIT;
  ibcoll_request* request = nullptr;
  ibcoll_group* group = nullptr;
  std::vector<int64_t> counts(static_cast<size_t>(ranks), 0), places(counts);
  switch (which) {
    case 0:
      return ibcoll_bcast(world, nullptr, 8, 0, nullptr);
    case 1:
      return ibcoll_bcast(world, memory, 8, ranks, nullptr);
    case 2:
      options.algorithm = "no_such";
      return ibcoll_allgather(world, memory, memory + 8, 0, &options);
    case 3:
      counts.back() = -7;
      return ibcoll_alltoallv(world, memory, counts.data(), places.data(), memory + 64,
                              counts.data(), places.data(), nullptr);
    case 4:
      return ibcoll_allreduce(world, memory, memory + 64, 1, IBCOLL_FLOAT, IBCOLL_BAND, nullptr);
    case 5:
      options.pacing = "never";
      return ibcoll_barrier(world, &options);
    case 6:
      return ibcoll_reduce(world, memory, memory + 8, 2, IBCOLL_INT64, IBCOLL_SUM, me, nullptr);
    case 7: {
      std::vector<ibcoll_block> blocks(static_cast<size_t>(ranks), ibcoll_block_contiguous(0, 0));
      std::vector<ibcoll_block> overlapping(blocks);
      overlapping.front() = ibcoll_block_vector(0, 8, 3, 4);
      return ibcoll_alltoallw(world, memory, blocks.data(), memory + 64, overlapping.data(),
                              nullptr);
    }
    case 8:
      return ibcoll_gather(world, IBCOLL_IN_PLACE, memory, 1, me == 0 ? ranks : 0, nullptr);
    case 9: {
      ibcoll_call call = ibcoll_call_barrier(nullptr);
      call.flags = 0x10;
      return ibcoll_call_init(world, &call, &request);
    }
    case 10: {
      struct Longer {
        ibcoll_options options;
        uint64_t unknown;
      } longer{options, 1};
      longer.options.struct_size = sizeof longer;
      return ibcoll_barrier(world, &longer.options);
    }
    case 11: {
      const int twice[] = {me, me};
      return ibcoll_group_create(context, twice, 2, &group);
    }
    case 12:
      return ibcoll_wait(nullptr);
    case 13:
      return ibcoll_allreduce(world, memory, memory + 64, 1, IBCOLL_OWN, IBCOLL_SUM, nullptr);
    case 14:
      return ibcoll_free(context, memory);
    case 15: {
      const ibcoll_operator_description description = IBCOLL_OPERATOR_DESCRIPTION_INIT;
      ibcoll_operator op;
      return ibcoll_operator_create(context, &description, &op);
    }
    case 16: {
      const uint64_t nobody = 0;
      return ibcoll_multicast(context, &nobody, 1, memory, 8, nullptr, &request);
    }
    case 17: {
      const uint64_t others = ~(uint64_t{1} << me) & ((uint64_t{2} << (ranks - 1)) - 1);
      const ibcoll_call call = ibcoll_call_barrier(nullptr);
      return ibcoll_set_call(context, &others, 1, 7, &call);
    }
    case 18: {
      std::vector<int64_t> own(counts);
      own[static_cast<size_t>(me)] = 8;
      return ibcoll_alltoallv(world, memory, own.data(), places.data(), memory + 64, counts.data(),
                              places.data(), nullptr);
    }
    case 19: {
      const std::vector<int> more(static_cast<size_t>(ranks) + 1, me);
      return ibcoll_group_create(context, more.data(), ranks + 1, &group);
    }
    case 20:
      options.ordered = 2;
      return ibcoll_allreduce(world, memory, memory + 64, 1, IBCOLL_INT64, IBCOLL_SUM, &options);
    case 21: {
      if (ranks == 1) return ibcoll_bcast(world, nullptr, 8, 0, nullptr);
      std::vector<int64_t> received(static_cast<size_t>(ranks), 2);
      return ibcoll_allgatherv(world, memory, 2, memory + 64, received.data(), places.data(),
                               nullptr);
    }
    case kBoundOfUnknown: {
      const uint64_t members = uint64_t{1} << me;
      double bound_us = 0;
      return ibcoll_multicast_bound(context, &members, 1, 8, nullptr, &bound_us);
    }
    case 24:
    case 25: {
      // There is none of that name; it does not go by leaders of servers.
      static constexpr const char* kAlgorithms[] = {"none", "two_level"};
      const uint64_t members = uint64_t{1} << me;
      ibcoll_multicast_options multicast = IBCOLL_MULTICAST_OPTIONS_INIT;
      multicast.algorithm = kAlgorithms[which - 24];
      return ibcoll_multicast(context, &members, 1, memory, 8, &multicast, &request);
    }
    default: {
      const int stranger[] = {ranks, me};
      return ibcoll_group_create(context, stranger, 2, &group);
    }
  }
}

/// A call on the world of which rank `odd` has another idea.
ibcoll_status call_differently(uint32_t which, ibcoll_group* world, const CallSpec& spec, bool odd,
                               int ranks, Rank me, Guarded& memory) {
  std::byte* const recv = memory.data;
  std::byte* const send = memory.data + memory.bytes / 2;
  ibcoll_options options = IBCOLL_OPTIONS_INIT;
  const size_t bytes = spec.bytes;
  switch (which) {
    case 0:
      return ibcoll_allgather(world, send, recv, odd ? bytes + 8 : bytes, nullptr);
    case 1:
      return ibcoll_bcast(world, recv, bytes, odd ? (spec.root + 1) % ranks : spec.root, nullptr);
    case 2:
      if (odd) return ibcoll_barrier(world, nullptr);
      return ibcoll_allreduce(world, send, recv, spec.elements, IBCOLL_INT64, IBCOLL_SUM, nullptr);
    case 3:
      options.algorithm = odd ? "linear" : "ring";
      return ibcoll_alltoall(world, send, recv, bytes, &options);
    case 4:
      return ibcoll_allreduce(world, send, recv, spec.elements + 1,
                              odd ? IBCOLL_DOUBLE : IBCOLL_INT64, IBCOLL_SUM, nullptr);
    case 5:
      return ibcoll_allreduce(world, send, recv, spec.elements + 1, IBCOLL_INT64,
                              odd ? IBCOLL_MAX : IBCOLL_SUM, nullptr);
    case 6: {
      std::vector<int64_t> sends(static_cast<size_t>(ranks), spec.bytes), receives(sends), places;
      for (int i = 0; i < ranks; ++i) places.push_back(int64_t{i} * (spec.bytes + 8));
      const auto next = static_cast<size_t>((me + 1) % ranks);
      if (odd) receives[next] += 8;
      return ibcoll_alltoallv(world, send, sends.data(), places.data(), recv, receives.data(),
                              places.data(), nullptr);
    }
    case 7: {
      // What the library itself sends to exchange counts has the same length, and may be the same.
      std::vector<int64_t> sends(static_cast<size_t>(ranks), 0), receives(sends);
      std::memset(send, 0, 16 * static_cast<size_t>(ranks));
      return odd ? ibcoll_exchange_counts(world, sends.data(), receives.data())
                 : ibcoll_alltoall(world, send, recv, 16, nullptr);
    }
    default: {
      ibcoll_graph* graph = nullptr;
      if (!odd) return ibcoll_allreduce(world, send, recv, 8, IBCOLL_INT64, IBCOLL_BOR, nullptr);
      const ibcoll_status status = ibcoll_graph_create(world, 0, nullptr, 0, nullptr, &graph);
      if (graph != nullptr) (void)ibcoll_graph_free(graph);
      return status;
    }
  }
}

/// Of three ranks or more each waits for the next one, in a group that it has with that one alone.
ibcoll_status wait_in_cycle(ibcoll_context* context, uint64_t seed, int ranks, Rank me) {
  const int length = ranks < 3 ? ranks : 3 + static_cast<int>(seed % (ranks - 2));
  const ibcoll_group_options options{sizeof options, seed};
  if (me >= length) return ibcoll_barrier(ibcoll_world(context), nullptr);
  ibcoll_group* with_next = nullptr;
  ibcoll_group* with_last = nullptr;
  const auto make = [&](int first, ibcoll_group** group) {
    const int members[] = {first, (first + 1) % length};
    return ibcoll_group_create_with(context, members, 2, &options, group);
  };
  ibcoll_status status = make(me, &with_next);
  if (status == IBCOLL_OK) status = make((me + length - 1) % length, &with_last);
  if (status == IBCOLL_OK) status = ibcoll_barrier(with_next, nullptr);
  const ibcoll_scope scope = ibcoll_last_error_scope();
  for (ibcoll_group* const group : {with_next, with_last}) {
    if (group != nullptr) (void)ibcoll_group_free(group);
  }
  // The error of the call is to be the last one.
  if (status != IBCOLL_OK && scope == IBCOLL_SCOPE_JOB)
    return ibcoll_barrier(ibcoll_world(context), nullptr);
  return status;
}

/// A rank takes itself for the root, in a group that is gone right afterwards.
ibcoll_status root_in_gone_group(ibcoll_context* context, const CallSpec& spec, uint64_t id,
                                 Rank odd, int ranks, Rank me, Guarded& memory) {
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  const ibcoll_group_options options{sizeof options, id};
  ibcoll_group* group = nullptr;
  const ibcoll_status made =
      ibcoll_group_create_with(context, members.data(), ranks, &options, &group);
  if (made != IBCOLL_OK) return made;
  const int root = me == odd ? odd : (odd + 1 + spec.root % (ranks - 1)) % ranks;
  const ibcoll_status status = ibcoll_bcast(group, memory.data, spec.bytes, root, nullptr);
  if (status == IBCOLL_OK) return ibcoll_group_free(group);
  // The error of the call is to be the last one.
  const bool of_job = ibcoll_last_error_scope() == IBCOLL_SCOPE_JOB;
  (void)ibcoll_group_free(group);
  return of_job ? ibcoll_barrier(ibcoll_world(context), nullptr) : status;
}

constexpr uint32_t kRoots = 1;
constexpr int kFewCalls = 2, kManyCalls = 100;

}  // namespace

void Run::State::refuse(const Action& action) {
  if (over_) return;
  const ibcoll_status status = pass_what_cannot_be(action.first, context_, program_.ranks(), me_);
  runner_.finished(Operation::kRefused, status);
  if (status == (action.first == kBoundOfUnknown ? IBCOLL_ERR_UNSUPPORTED : IBCOLL_ERR_INVALID)) {
    if (ibcoll_last_error_scope() != IBCOLL_SCOPE_CALL)
      violation(action, fmt::format("scope {}: {}", static_cast<int>(ibcoll_last_error_scope()),
                                    ibcoll_last_error()));
    return;
  }
  if (status == IBCOLL_OK) return violation(action, "what can't be right was taken");
  // An error of the world's comes first where it has one.
  Action on_world;
  on_world.kind = action.kind;
  on_world.first = action.first;
  failed(on_world, status);
}

void Run::State::disagree(const Action& action) {
  const int ranks = program_.ranks();
  if (over_ || ended_[0] != IBCOLL_OK || ranks < 2) return;
  Guarded memory = buffers_.take(
      Memory::kPrivate, 2 * static_cast<size_t>(ranks) * (action.spec.bytes + 64), 0, std::byte{0});
  memory.fill();
  const bool odd = me_ == action.rank;
  const uint64_t id = drawn({program_.seed, action.number});
  ibcoll_status status =
      action.first == kCycle ? wait_in_cycle(context_, id, ranks, me_)
      : action.first == kRootsOfGone
          ? root_in_gone_group(context_, action.spec, id, action.rank, ranks, me_, memory)
          : call_differently(action.first, groups_[0], action.spec, odd, ranks, me_, memory);
  // Who was done before anybody noticed hears of it here. What was meant by a call is forgotten
  // after many others.
  const int later = id % 3 == 0 ? kManyCalls : kFewCalls;
  for (int i = 0; i < later && status == IBCOLL_OK; ++i)
    status = ibcoll_barrier(groups_[0], nullptr);
  buffers_.put(memory);
  runner_.finished(Operation::kDisagree, status);
  if (status == IBCOLL_OK) {
    // Of two that each take themselves for the root nobody waits for anything: that is found when
    // the job is left at the latest.
    return action.first == kRoots || action.first == kRootsOfGone
               ? runner_.unnoticed()
               : violation(action, "nobody has noticed");
  }
  if (ibcoll_last_error_scope() != IBCOLL_SCOPE_JOB && runner_.faults().dead == 0)
    violation(action,
              fmt::format("status {}, scope {}: {}", static_cast<int>(status),
                          static_cast<int>(ibcoll_last_error_scope()), ibcoll_last_error()));
  const bool has_groups_of_its_own = action.first == kCycle || action.first == kRootsOfGone;
  if (!has_groups_of_its_own || ibcoll_last_error_scope() != IBCOLL_SCOPE_GROUP)
    return failed(action, status);
  // What a death has done to one of those says nothing of the action's group.
  const std::string wrong = causes_.check(action, outcome_of(status), runner_.faults());
  if (!wrong.empty()) violation(action, wrong);
}

}  // namespace ibcoll::lockstep
