#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include "tests/lockstep/random.h"
#include "tests/lockstep/run_state.h"

namespace ibcoll::lockstep {
namespace {

/// What is drawn for a rank and a call.
enum BufferUse : uint64_t { kBuffers = 16, kWay };

void list(const BufferPlan& plan, std::vector<int64_t>& counts, std::vector<int64_t>& displacements,
          std::vector<ibcoll_block>& blocks) {
  counts.clear();
  displacements.clear();
  blocks.clear();
  for (const PlacedBlock& block : plan.blocks) {
    counts.push_back(block.bytes());
    displacements.push_back(block.place.offset - plan.begin);
    blocks.push_back(block.place);
    blocks.back().offset -= plan.begin;
  }
}

}  // namespace

void Run::State::call(const Action& action) {
  const CallSpec& spec = action.spec;
  if (!is_member(program_, spec, me_)) return;
  if (!spec.on_set && groups_[spec.group] == nullptr) return;
  if (is_of_neighbors(spec.operation) && graphs_[spec.graph] == nullptr) return;
  if (over_) ++after_end_;
  if (spec.operation >= Operation::kExchangeCounts) return exchange_counts(action);
  Pending& pending = take();
  pending.action = &action;
  calls_[action.number] = &pending;
  plan_call(program_, action, me_, pending.plan);
  take_buffers(pending);
  fill(pending);
  ibcoll_options options = IBCOLL_OPTIONS_INIT;
  const ibcoll_call described = describe(pending, options);
  pending.must_fail = has_ended(spec);
  if (spec.mode == Mode::kBlocking) {
    finish(pending, call_at_once(pending, described));
    return release(pending);
  }
  if (const ibcoll_status status = prepare(pending, described); status != IBCOLL_OK) {
    finish(pending, status);
    return release(pending);
  }
  start(pending);
}

ibcoll_status Run::State::prepare(Pending& pending, const ibcoll_call& call) {
  const CallSpec& spec = pending.action->spec;
  const uint64_t way =
      drawn({program_.seed, pending.action->number, static_cast<uint64_t>(me_), kWay});
  if (!spec.on_set) {
    ibcoll_request*& spare = spares_[spec.group];
    if (spare == nullptr || way % 3 != 0)
      return ibcoll_call_init(groups_[spec.group], &call, &pending.request);
    pending.request = spare;
    spare = nullptr;
    return ibcoll_call_renew(pending.request, &call);
  }
  if (way % 3 != 0)
    return ibcoll_set_call_init(context_, &spec.set, 1, spec.tag, &call, &pending.request);
  ibcoll_group* handle = nullptr;
  ibcoll_status status = ibcoll_set_group(context_, &spec.set, 1, spec.tag, &handle);
  if (status != IBCOLL_OK) return status;
  status = ibcoll_call_init(handle, &call, &pending.request);
  if (status == IBCOLL_OK) expect_ok(ibcoll_group_free(handle), "group_free");
  // The error of the call is to be the last one.
  if (status != IBCOLL_OK) handles_of_sets_.push_back(handle);
  return status;
}

void Run::State::exchange_counts(const Action& action) {
  const CallSpec& spec = action.spec;
  const int me = id_in(program_, spec, me_), ranks = size_of(program_, spec);
  const auto own = static_cast<size_t>(me);
  const auto count = [&](int from, int to) { return exchanged_count(program_, action, from, to); };
  const bool must_fail = has_ended(spec);
  std::vector<int64_t> sends, receives, all_sends, all_receives;
  ibcoll_status status = IBCOLL_OK;
  if (spec.operation == Operation::kExchangeCounts) {
    for (int i = 0; i < ranks; ++i) {
      all_sends.push_back(count(me, i));
      all_receives.push_back(count(i, me));
      sends.push_back(who_knows(program_, action, me, i) == Knows::kTarget ? IBCOLL_UNKNOWN
                                                                           : all_sends.back());
      receives.push_back(who_knows(program_, action, i, me) == Knows::kOrigin
                             ? IBCOLL_UNKNOWN
                             : all_receives.back());
    }
    status = ibcoll_exchange_counts(groups_[spec.group], sends.data(), receives.data());
  } else {
    const bool root = me == spec.root;
    all_sends.push_back(count(me, spec.root));
    sends.push_back(who_knows(program_, action, me, spec.root) == Knows::kTarget ? IBCOLL_UNKNOWN
                                                                                 : all_sends[0]);
    for (int i = 0; root && i < ranks; ++i) {
      all_receives.push_back(count(i, me));
      receives.push_back(who_knows(program_, action, i, me) == Knows::kOrigin
                             ? IBCOLL_UNKNOWN
                             : all_receives.back());
    }
    // What a rank knows of itself it knows.
    if (root) sends[0] = receives[own] = all_sends[0];
    status = ibcoll_exchange_root_counts(groups_[spec.group], sends.data(),
                                         root ? receives.data() : nullptr, spec.root);
  }
  runner_.finished(spec.operation, status);
  if (status != IBCOLL_OK) return failed(action, status);
  if (must_fail || over_) violation(action, "counts were exchanged though the group had ended");
  if (sends != all_sends || receives != all_receives)
    violation(action, fmt::format("counts are {} and {}, not {} and {}", fmt::join(sends, " "),
                                  fmt::join(receives, " "), fmt::join(all_sends, " "),
                                  fmt::join(all_receives, " ")));
}

void Run::State::take_buffers(Pending& pending) {
  const CallSpec& spec = pending.action->spec;
  Random random(
      drawn({program_.seed, draws_of(*pending.action), static_cast<uint64_t>(me_), kBuffers}));
  Memory kind = spec.memory;
  if (kind == Memory::kMixed) kind = static_cast<Memory>(random.below(3));
  const bool aligned = pending.plan.elements != 0 && spec.own_operator < 0;
  const auto take = [&](const BufferPlan& plan) {
    const size_t shift = aligned ? 16 * random.below(4) : random.below(64);
    return buffers_.take(kind, plan.bytes, shift, static_cast<std::byte>(random.next()));
  };
  pending.send = take(pending.plan.send);
  pending.recv = take(pending.plan.recv);
}

void Run::State::fill(Pending& pending) {
  write_before(program_, *pending.action, pending.instance, pending.plan, true, pending.send.rest,
               pending.send.data);
  write_before(program_, *pending.action, pending.instance, pending.plan, false, pending.recv.rest,
               pending.recv.data);
}

/// The call's arguments; what has to stay until it has ended lies in `pending`.
ibcoll_call Run::State::describe(Pending& pending, ibcoll_options& options) {
  const CallSpec& spec = pending.action->spec;
  const CallPlan& plan = pending.plan;
  ibcoll_call call = ibcoll_call_of(static_cast<ibcoll_collective>(spec.operation), nullptr);
  if (spec.algorithm >= 0)
    options.algorithm =
        program_.options.algorithms[static_cast<size_t>(spec.algorithm)].name.c_str();
  if (spec.pacing != 0) options.pacing = kPacings[spec.pacing - 1];
  options.pieces = spec.pieces;
  options.ordered = spec.ordered ? 1 : 0;
  if (spec.deadline_of == plan.me) options.deadline_us = spec.deadline_us;
  if (spec.algorithm >= 0 || options.pieces != 0 || spec.ordered || options.deadline_us != 0)
    call.options = &options;
  if (is_of_neighbors(spec.operation)) call.graph = graphs_[spec.graph];
  if (spec.mode == Mode::kPersistent) call.flags = IBCOLL_PERSISTENT;
  call.root = spec.root;
  call.bytes = spec.bytes;
  call.elements = spec.elements;
  call.type = spec.type;
  call.op =
      spec.own_operator >= 0 ? operators_[static_cast<size_t>(spec.own_operator)].op : spec.op;
  if (plan.send.used) call.send = pending.send.data + plan.send.begin;
  if (plan.recv.used) call.recv = pending.recv.data + plan.recv.begin;
  if (plan.in_place) {
    if (spec.operation == Operation::kScatter || spec.operation == Operation::kScatterv) {
      call.recv = const_cast<void*>(IBCOLL_IN_PLACE);
    } else {
      call.send = IBCOLL_IN_PLACE;
    }
  }
  if (!plan.counts.empty()) {
    call.recv_counts = plan.counts.data();
    return call;
  }
  list(plan.send, pending.send_counts, pending.send_displacements, pending.send_blocks);
  list(plan.recv, pending.recv_counts, pending.recv_displacements, pending.recv_blocks);
  call.send_counts = pending.send_counts.data();
  call.send_displacements = pending.send_displacements.data();
  call.recv_counts = pending.recv_counts.data();
  call.recv_displacements = pending.recv_displacements.data();
  if (spec.operation == Operation::kAllgatherv || spec.operation == Operation::kGatherv ||
      spec.operation == Operation::kNeighborAllgatherv) {
    call.own_count =
        plan.in_place ? pending.recv_counts[static_cast<size_t>(plan.me)] : pending.send_counts[0];
  } else if (spec.operation == Operation::kScatterv) {
    call.own_count =
        plan.in_place ? pending.send_counts[static_cast<size_t>(plan.me)] : pending.recv_counts[0];
  }
  const bool always =
      spec.operation == Operation::kAlltoallw || spec.operation == Operation::kNeighborAlltoallw;
  if ((always || spec.strided_send) && !plan.send.blocks.empty())
    call.send_blocks = pending.send_blocks.data();
  if ((always || spec.strided_recv) && !plan.recv.blocks.empty())
    call.recv_blocks = pending.recv_blocks.data();
  return call;
}

ibcoll_status Run::State::call_at_once(Pending& pending, const ibcoll_call& call) {
  const CallSpec& spec = pending.action->spec;
  const bool has_function = spec.operation == Operation::kAlltoallw ||
                            spec.operation == Operation::kNeighborAlltoallw ||
                            (call.send_blocks == nullptr && call.recv_blocks == nullptr);
  const uint64_t way =
      drawn({program_.seed, pending.action->number, static_cast<uint64_t>(me_), kWay});
  if (!spec.on_set) {
    if (way % 16 == 0 || (!has_function && way % 2 == 0))
      return ibcoll_group_call(groups_[spec.group], &call);
    if (has_function && way % 8 != 0) return call_by_function(groups_[spec.group], spec, call);
    ibcoll_status status = prepare(pending, call);
    if (status == IBCOLL_OK) status = ibcoll_start(pending.request);
    if (status == IBCOLL_OK) status = ibcoll_wait(pending.request);
    return status;
  }
  if (!has_function || way % 3 != 0)
    return ibcoll_set_call(context_, &spec.set, 1, spec.tag, &call);
  ibcoll_group* handle = nullptr;
  if (const ibcoll_status status = ibcoll_set_group(context_, &spec.set, 1, spec.tag, &handle);
      status != IBCOLL_OK)
    return status;
  const ibcoll_status status = call_by_function(handle, spec, call);
  handles_of_sets_.push_back(handle);
  return status;
}

ibcoll_status Run::State::call_by_function(ibcoll_group* group, const CallSpec& spec,
                                           const ibcoll_call& call) {
  switch (spec.operation) {
    case Operation::kAlltoall:
      return ibcoll_alltoall(group, call.send, call.recv, call.bytes, call.options);
    case Operation::kAlltoallv:
      return ibcoll_alltoallv(group, call.send, call.send_counts, call.send_displacements,
                              call.recv, call.recv_counts, call.recv_displacements, call.options);
    case Operation::kAlltoallw:
      return ibcoll_alltoallw(group, call.send, call.send_blocks, call.recv, call.recv_blocks,
                              call.options);
    case Operation::kAllgather:
      return ibcoll_allgather(group, call.send, call.recv, call.bytes, call.options);
    case Operation::kAllgatherv:
      return ibcoll_allgatherv(group, call.send, call.own_count, call.recv, call.recv_counts,
                               call.recv_displacements, call.options);
    case Operation::kGather:
      return ibcoll_gather(group, call.send, call.recv, call.bytes, call.root, call.options);
    case Operation::kGatherv:
      return ibcoll_gatherv(group, call.send, call.own_count, call.recv, call.recv_counts,
                            call.recv_displacements, call.root, call.options);
    case Operation::kScatter:
      return ibcoll_scatter(group, call.send, call.recv, call.bytes, call.root, call.options);
    case Operation::kScatterv:
      return ibcoll_scatterv(group, call.send, call.send_counts, call.send_displacements, call.recv,
                             call.own_count, call.root, call.options);
    case Operation::kBcast:
      return ibcoll_bcast(group, call.recv, call.bytes, call.root, call.options);
    case Operation::kReduce:
      return ibcoll_reduce(group, call.send, call.recv, call.elements, call.type, call.op,
                           call.root, call.options);
    case Operation::kAllreduce:
      return ibcoll_allreduce(group, call.send, call.recv, call.elements, call.type, call.op,
                              call.options);
    case Operation::kReduceScatter:
      return ibcoll_reduce_scatter(group, call.send, call.recv, call.recv_counts, call.type,
                                   call.op, call.options);
    case Operation::kReduceScatterBlock:
      return ibcoll_reduce_scatter_block(group, call.send, call.recv, call.elements, call.type,
                                         call.op, call.options);
    case Operation::kScan:
      return ibcoll_scan(group, call.send, call.recv, call.elements, call.type, call.op,
                         call.options);
    case Operation::kExscan:
      return ibcoll_exscan(group, call.send, call.recv, call.elements, call.type, call.op,
                           call.options);
    case Operation::kBarrier:
      return ibcoll_barrier(group, call.options);
    case Operation::kNeighborAllgather:
      return ibcoll_neighbor_allgather(call.graph, call.send, call.recv, call.bytes, call.options);
    case Operation::kNeighborAllgatherv:
      return ibcoll_neighbor_allgatherv(call.graph, call.send, call.own_count, call.recv,
                                        call.recv_counts, call.recv_displacements, call.options);
    case Operation::kNeighborAlltoall:
      return ibcoll_neighbor_alltoall(call.graph, call.send, call.recv, call.bytes, call.options);
    case Operation::kNeighborAlltoallv:
      return ibcoll_neighbor_alltoallv(call.graph, call.send, call.send_counts,
                                       call.send_displacements, call.recv, call.recv_counts,
                                       call.recv_displacements, call.options);
    case Operation::kNeighborAlltoallw:
      return ibcoll_neighbor_alltoallw(call.graph, call.send, call.send_blocks, call.recv,
                                       call.recv_blocks, call.options);
    default:
      return IBCOLL_ERR_INTERNAL;
  }
}

void Run::State::start(Pending& pending) {
  if (pending.started) wait(pending, 0);
  if (pending.action == nullptr) return;  // it was no persistent one
  if (pending.instance != 0) fill(pending);
  pending.must_fail = has_ended(pending.action->spec);
  pending.started = true;
  pending.tested_after = unarmed_;
  if (const ibcoll_status status = ibcoll_start(pending.request); status != IBCOLL_OK) {
    pending.started = false;
    finish(pending, status);
    if (pending.action->spec.mode != Mode::kPersistent) release(pending);
  }
}

ibcoll_status Run::State::sleep_until_done(Pending& pending, int& done) {
  constexpr int kLongestSleepMs = 200'000;  // ranks stand still for a while
  int fd = -1, armed = 0;
  if (!expect_ok(ibcoll_get_descriptor(context_, &fd), "get_descriptor")) return IBCOLL_OK;
  for (bool first = true;; first = false) {
    if (!first || pending.tested_after != unarmed_) {
      const ibcoll_status status = ibcoll_test(pending.request, &done);
      pending.tested_after = unarmed_;
      if (status != IBCOLL_OK || done != 0) return status;
    }
    if (!expect_ok(ibcoll_arm(context_, &armed), "arm")) return IBCOLL_OK;
    pollfd readable{fd, POLLIN, 0};
    if (armed == 0) {
      ++unarmed_;
    } else if (poll(&readable, 1, kLongestSleepMs) == 0) {
      violation(*pending.action, "the descriptor does not become readable");
      return IBCOLL_OK;
    }
  }
}

void Run::State::wait(Pending& pending, uint32_t tests, bool by_descriptor) {
  if (!pending.started) return;
  ibcoll_status status = IBCOLL_OK;
  int done = 0;
  for (uint32_t i = 0; i < tests && done == 0; ++i) {
    status = ibcoll_test(pending.request, &done);
    if (status != IBCOLL_OK && done == 0 && ibcoll_last_error_scope() == IBCOLL_SCOPE_JOB) break;
    if (status != IBCOLL_OK && done == 0) {
      violation(*pending.action, "a test was refused");
      break;
    }
  }
  if (done == 0 && by_descriptor) status = sleep_until_done(pending, done);
  if (done == 0) status = ibcoll_wait(pending.request);
  if (ibcoll_may_be_done(pending.request) == 0)
    violation(*pending.action, "it is over, and may_be_done says that it can't be");
  pending.started = false;
  finish(pending, status);
  if (pending.action->spec.mode != Mode::kPersistent) release(pending);
}

void Run::State::drop(Pending& pending) {
  if (pending.started) wait(pending, 0);
  if (pending.action != nullptr) release(pending);
}

void Run::State::cancel(const Action& action) {
  for (const Sent& one : sent_) {
    if (one.action->number != action.call) continue;
    runner_.finished(Operation::kCancel, IBCOLL_OK);
    expect_ok(ibcoll_cancel(one.request), "cancel");
    return;
  }
  Pending* const pending = calls_[action.call];
  if (pending == nullptr || pending->request == nullptr) return;
  runner_.finished(Operation::kCancel, IBCOLL_OK);
  expect_ok(ibcoll_cancel(pending->request), "cancel");
}

void Run::State::finish(Pending& pending, ibcoll_status status) {
  const Action& action = *pending.action;
  runner_.finished(action.spec.operation, status);
  if (status != IBCOLL_OK) {
    pending.failed = true;
    failed(action, status);
  } else {
    if (over_) violation(action, "it ended well though the job was over");
    if (pending.must_fail)
      violation(action, "it ended well though its group had ended before it was started");
    check(pending, true);
    check(pending, false);
  }
  ++pending.instance;
}

void Run::State::check(Pending& pending, bool send) {
  const Guarded& buffer = send ? pending.send : pending.recv;
  const std::string wrong =
      checker_.check(program_, *pending.action, pending.instance, pending.plan, send, buffer.rest,
                     buffer.data, runner_.expectations());
  if (!wrong.empty())
    violation(*pending.action, fmt::format("start {}: {}", pending.instance, wrong));
  if (buffer.is_whole()) return;
  violation(*pending.action,
            fmt::format("memory around the {} buffer was written", send ? "send" : "receive"));
  buffer.fill_guards();
}

Pending& Run::State::take() {
  if (free_.empty()) {
    all_.push_back(new Pending);
    free_.push_back(all_.back());
  }
  Pending& pending = *free_.back();
  free_.pop_back();
  pending.instance = 0;
  pending.started = pending.must_fail = pending.failed = false;
  pending.request = nullptr;
  return pending;
}

void Run::State::release(Pending& pending) {
  const CallSpec& spec = pending.action->spec;
  const bool keeps = pending.request != nullptr && !spec.on_set && !pending.failed &&
                     groups_[spec.group] != nullptr && spares_[spec.group] == nullptr && !over_;
  if (keeps) {
    spares_[spec.group] = pending.request;
  } else if (pending.request != nullptr) {
    expect_ok(ibcoll_call_free(pending.request), "call_free");
  }
  pending.request = nullptr;
  for (ibcoll_group* const handle : handles_of_sets_)
    expect_ok(ibcoll_group_free(handle), "group_free");
  handles_of_sets_.clear();
  for (Guarded* const buffer : {&pending.send, &pending.recv}) {
    // It is the program's again: nobody takes what is there now for what was sent.
    if (pending.failed && buffer->memory != nullptr) buffer->fill();
    // Once the job is over, what was under way may still come.
    if (pending.failed && !over_) {
      watch(*buffer);
    } else {
      buffers_.put(*buffer);
    }
  }
  calls_[pending.action->number] = nullptr;
  pending.action = nullptr;
  free_.push_back(&pending);
}

void Run::State::watch(Guarded& buffer) {
  buffer.fill();
  watched_.push_back(buffer);
  buffer = {};
}

}  // namespace ibcoll::lockstep
