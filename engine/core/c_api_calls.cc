// The C interface: collective calls and requests. All are an ibcoll_call first.

#include <cstring>
#include <memory>

#include "engine/core/c_api.h"
#include "engine/core/c_api_arguments.h"
#include "engine/core/c_api_structs.h"
#include "engine/core/exchange_counts.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

namespace {

/// Runs a body that may wait, inside the group's job.
template <class Body>
ibcoll_status in_turn(ibcoll_group& group, Body&& body) {
  return inside_job(*group.context, [&]() -> ibcoll_status {
    if (group.busy) [[unlikely]]
      return refuse("another thread is in a blocking call on this group");
    const Busy busy(group);
    return body();
  });
}

/// Why a call on the request has to be refused, while another thread waits for it.
ibcoll_status refuse_busy() { return refuse("another thread waits for this request"); }

/// Whether it is under way. Nothing of a job that has ended is.
bool under_way(const ibcoll_request& request) {
  if (request.context->context->executor().has_ended()) return false;
  return request.multicast ? !request.multicast->completion.done : request.call->under_way();
}

Status check_graph(const ibcoll_call& call, const CallArguments& arguments, const Group& group) {
  if (!has_graph(arguments.collective) || call.graph->group.get() == &group) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: the graph is one of another group",
              to_string(arguments.collective));
}

Status copy_counts(CallArguments& arguments, const Group& group, CountCopies& counts) {
  // Only what is known to be right may be read.
  IBCOLL_TRY(check_arguments(group.shape(), group.rank(), arguments));
  counts.copy(arguments, group);
  return {};
}

/// Checks `flags` and takes what a request, which has a call of the group, is given. Counts and
/// places that are looked at more than once are copied.
Status prepare(ibcoll_request& request, const ibcoll_call& call) {
  Group& group = request.call->group();
  if ((call.flags & ~IBCOLL_PERSISTENT) != 0) {
    return fail(ErrorCode::kInvalidArgument, "there are no flags {:#x}",
                call.flags & ~IBCOLL_PERSISTENT);
  }
  request.persistent = (call.flags & IBCOLL_PERSISTENT) != 0;
  IBCOLL_ASSIGN(CallArguments arguments,
                arguments_of(call, request.context->context->own_operators()));
  IBCOLL_TRY(check_graph(call, arguments, group));
  if (request.persistent) IBCOLL_TRY(copy_counts(arguments, group, request.counts));
  request.description.take(call);
  return request.call->prepare(arguments);
}

/// A call that was started once, and has ended, needs its memory no longer.
void end_if_done(ibcoll_request& request, bool done) {
  if (done && !request.persistent && request.started) request.call->rest();
}

}  // namespace

ibcoll_status ibcoll::c_api::run(ibcoll_group* handle, const ibcoll_call& call) {
  if (!is_live(handle)) return refuse_handle("group", handle);
  return in_turn(*handle, [&]() -> ibcoll_status {
    if (handle->set) [[unlikely]] {
      return give(on_group(*handle, [&](Group& group) {
        Call once(group);
        return carry_out(*handle->context, once, call);
      }));
    }
    if (!handle->blocking) handle->blocking = std::make_unique<BlockingCalls>();
    return give(handle->blocking->carry_out(*handle->context, handle->group, call));
  });
}

ibcoll_status ibcoll_group_call(ibcoll_group* group, const ibcoll_call* call) {
  if (call == nullptr) [[unlikely]]
    return refuse("the call is null");
  return caught([&]() -> ibcoll_status {
    ibcoll_call copy;
    const Result<const ibcoll_call*> blocking = blocking_call(call, copy);
    return blocking ? run(group, **blocking) : report(blocking.error());
  });
}

int ibcoll_may_be_done(const ibcoll_request* request) {
  return is_live(request) && request->call.has_value() && !under_way(*request) ? 1 : 0;
}
static_assert(IBCOLL_CALLS_UNDER_WAY == LocalTransport::kGateBanks);

Result<const ibcoll_call*> ibcoll::c_api::blocking_call(const ibcoll_call* given,
                                                        ibcoll_call& copy) {
  IBCOLL_ASSIGN(const ibcoll_call* const call, of_this_version("ibcoll_call", given, copy));
  if (call->flags == 0) return call;
  return fail(ErrorCode::kInvalidArgument, "flags are {:#x}: a blocking call has none",
              call->flags);
}

Status ibcoll::c_api::carry_out(ibcoll_context& context, Call& call, const ibcoll_call& given,
                                CountCopies* counts) {
  Result<CallArguments> arguments = arguments_of(given, context.context->own_operators());
  if (!arguments) return tl::unexpected<Error>(arguments.error());
  IBCOLL_TRY(check_graph(given, *arguments, call.group()));
  if (counts != nullptr) IBCOLL_TRY(copy_counts(*arguments, call.group(), *counts));
  IBCOLL_TRY(call.prepare(*arguments));
  IBCOLL_TRY(call.start(/*waits=*/true));
  return call.wait();
}

Status ibcoll::c_api::make_request(ibcoll_context& context, Group& group, const ibcoll_call& call,
                                   ibcoll_request** request) {
  ibcoll_call copy;
  IBCOLL_ASSIGN(const ibcoll_call* whole, of_this_version("ibcoll_call", &call, copy));
  ibcoll_request& made = context.requests.take();
  made.context = &context;
  made.started = false;
  Status prepared;
  try {
    made.call.emplace(group);
    prepared = prepare(made, *whole);
  } catch (...) {
    drop(made);
    throw;
  }
  if (prepared) {
    *request = &made;
  } else {
    drop(made);
  }
  return prepared;
}

ibcoll_status ibcoll_alltoall(ibcoll_group* group, const void* send, void* recv, size_t block_bytes,
                              const ibcoll_options* options) {
  return run(group, ibcoll_call_alltoall(send, recv, block_bytes, options));
}

ibcoll_status ibcoll_alltoallv(ibcoll_group* group, const void* send, const int64_t* send_counts,
                               const int64_t* send_displacements, void* recv,
                               const int64_t* recv_counts, const int64_t* recv_displacements,
                               const ibcoll_options* options) {
  return run(group, ibcoll_call_alltoallv(send, send_counts, send_displacements, recv, recv_counts,
                                          recv_displacements, options));
}

ibcoll_status ibcoll_alltoallw(ibcoll_group* group, const void* send,
                               const ibcoll_block* send_blocks, void* recv,
                               const ibcoll_block* recv_blocks, const ibcoll_options* options) {
  return run(group, ibcoll_call_alltoallw(send, send_blocks, recv, recv_blocks, options));
}

ibcoll_status ibcoll_allgather(ibcoll_group* group, const void* send, void* recv,
                               size_t block_bytes, const ibcoll_options* options) {
  return run(group, ibcoll_call_allgather(send, recv, block_bytes, options));
}

ibcoll_status ibcoll_allgatherv(ibcoll_group* group, const void* send, int64_t send_count,
                                void* recv, const int64_t* recv_counts,
                                const int64_t* recv_displacements, const ibcoll_options* options) {
  return run(group, ibcoll_call_allgatherv(send, send_count, recv, recv_counts, recv_displacements,
                                           options));
}

ibcoll_status ibcoll_gather(ibcoll_group* group, const void* send, void* recv, size_t block_bytes,
                            int root, const ibcoll_options* options) {
  return run(group, ibcoll_call_gather(send, recv, block_bytes, root, options));
}

ibcoll_status ibcoll_gatherv(ibcoll_group* group, const void* send, int64_t send_count, void* recv,
                             const int64_t* recv_counts, const int64_t* recv_displacements,
                             int root, const ibcoll_options* options) {
  return run(group, ibcoll_call_gatherv(send, send_count, recv, recv_counts, recv_displacements,
                                        root, options));
}

ibcoll_status ibcoll_scatter(ibcoll_group* group, const void* send, void* recv, size_t block_bytes,
                             int root, const ibcoll_options* options) {
  return run(group, ibcoll_call_scatter(send, recv, block_bytes, root, options));
}

ibcoll_status ibcoll_scatterv(ibcoll_group* group, const void* send, const int64_t* send_counts,
                              const int64_t* send_displacements, void* recv, int64_t recv_count,
                              int root, const ibcoll_options* options) {
  return run(group, ibcoll_call_scatterv(send, send_counts, send_displacements, recv, recv_count,
                                         root, options));
}

ibcoll_status ibcoll_bcast(ibcoll_group* group, void* buffer, size_t bytes, int root,
                           const ibcoll_options* options) {
  return run(group, ibcoll_call_bcast(buffer, bytes, root, options));
}

ibcoll_status ibcoll_reduce(ibcoll_group* group, const void* send, void* recv, size_t elements,
                            ibcoll_type type, ibcoll_operator op, int root,
                            const ibcoll_options* options) {
  return run(group, ibcoll_call_reduce(send, recv, elements, type, op, root, options));
}

ibcoll_status ibcoll_allreduce(ibcoll_group* group, const void* send, void* recv, size_t elements,
                               ibcoll_type type, ibcoll_operator op,
                               const ibcoll_options* options) {
  return run(group, ibcoll_call_allreduce(send, recv, elements, type, op, options));
}

ibcoll_status ibcoll_reduce_scatter(ibcoll_group* group, const void* send, void* recv,
                                    const int64_t* counts, ibcoll_type type, ibcoll_operator op,
                                    const ibcoll_options* options) {
  return run(group, ibcoll_call_reduce_scatter(send, recv, counts, type, op, options));
}

ibcoll_status ibcoll_reduce_scatter_block(ibcoll_group* group, const void* send, void* recv,
                                          size_t elements, ibcoll_type type, ibcoll_operator op,
                                          const ibcoll_options* options) {
  return run(group, ibcoll_call_reduce_scatter_block(send, recv, elements, type, op, options));
}

ibcoll_status ibcoll_scan(ibcoll_group* group, const void* send, void* recv, size_t elements,
                          ibcoll_type type, ibcoll_operator op, const ibcoll_options* options) {
  return run(group, ibcoll_call_scan(send, recv, elements, type, op, options));
}

ibcoll_status ibcoll_exscan(ibcoll_group* group, const void* send, void* recv, size_t elements,
                            ibcoll_type type, ibcoll_operator op, const ibcoll_options* options) {
  return run(group, ibcoll_call_exscan(send, recv, elements, type, op, options));
}

ibcoll_status ibcoll_barrier(ibcoll_group* group, const ibcoll_options* options) {
  return run(group, ibcoll_call_barrier(options));
}

ibcoll_status ibcoll_exchange_counts(ibcoll_group* group, int64_t* send_counts,
                                     int64_t* recv_counts) {
  if (send_counts == nullptr || recv_counts == nullptr) return refuse("the counts are null");
  if (!is_live(group)) return refuse_handle("group", group);
  return in_turn(*group, [&] {
    return give(on_group(*group, [&](Group& of_call) {
      return exchange_counts(of_call, send_counts, recv_counts);
    }));
  });
}

ibcoll_status ibcoll_exchange_root_counts(ibcoll_group* group, int64_t* own_count, int64_t* counts,
                                          int root) {
  if (own_count == nullptr) return refuse("the place for the rank's own count is null");
  if (!is_live(group)) return refuse_handle("group", group);
  return in_turn(*group, [&] {
    return give(on_group(*group, [&](Group& of_call) {
      return exchange_root_counts(of_call, own_count, counts, root);
    }));
  });
}

ibcoll_status ibcoll_call_init(ibcoll_group* group, const ibcoll_call* call,
                               ibcoll_request** request) {
  if (!is_live(group)) return refuse_handle("group", group);
  if (call == nullptr || request == nullptr)
    return refuse("the call or the place for the request is null");
  return inside_job(*group->context, [&] {
    return give(on_group(*group, [&](Group& of_call) {
      return make_request(*group->context, of_call, *call, request);
    }));
  });
}

ibcoll_status ibcoll_call_renew(ibcoll_request* request, const ibcoll_call* call) {
  if (!is_live(request)) return refuse_handle("request", request);
  if (call == nullptr) return refuse("the call is null");
  return inside_job(*request->context, [&]() -> ibcoll_status {
    if (request->multicast) return refuse("a multicast can't be renewed");
    if (request->call->group().identity().of_set)
      return refuse("a call on a set can't be renewed: it is a group of its own");
    if (request->busy) [[unlikely]]
      return refuse_busy();
    if (request->call->under_way())
      return refuse("the call is under way: wait for it before it is renewed");
    request->started = false;
    if (request->description.is(*call) && request->call->is_prepared()) return IBCOLL_OK;
    request->call->release();  // else what is refused would leave the former call
    ibcoll_call copy;
    const Result<const ibcoll_call*> whole = of_this_version("ibcoll_call", call, copy);
    return whole ? give(prepare(*request, **whole)) : report(whole.error());
  });
}

ibcoll_status ibcoll_start(ibcoll_request* request) {
  if (!is_live(request)) return refuse_handle("request", request);
  return inside_job(*request->context, [&]() -> ibcoll_status {
    if (request->multicast) return refuse("a multicast is under way from the start");
    if (request->started && !request->persistent)
      return refuse("the call was started before: only those with IBCOLL_PERSISTENT are again");
    if (request->busy) [[unlikely]]
      return refuse_busy();
    request->started = true;
    const ibcoll_status started = give(request->call->start());
    request->context->context->threads().note_started();
    return started;
  });
}

ibcoll_status ibcoll_test(ibcoll_request* request, int* done) {
  if (done == nullptr) return refuse("the place for the answer is null");
  *done = is_live(request) ? 0 : 1;
  if (*done != 0) return refuse_handle("request", request);
  return inside_call(*request->context, [&] {
    if (request->busy) [[unlikely]]
      return refuse_busy();
    if (request->multicast) return test(*request->context, *request->multicast, *done);
    const Result<bool> finished = request->call->test();
    *done = !finished || *finished ? 1 : 0;
    end_if_done(*request, *done != 0);
    return give(finished);
  });
}

ibcoll_status ibcoll_wait(ibcoll_request* request) {
  if (!is_live(request)) return refuse_handle("request", request);
  return inside_call(*request->context, [&] {
    if (request->busy) [[unlikely]]
      return refuse_busy();
    const Busy busy(*request);
    if (request->multicast) return wait(*request->context, *request->multicast);
    const Status waited = request->call->wait();
    end_if_done(*request, true);
    return give(waited);
  });
}

ibcoll_status ibcoll_wait_all(int count, ibcoll_request* const* requests) {
  if (count < 0 || (count > 0 && requests == nullptr))
    return refuse("the requests are null or their number is negative");
  ibcoll_status first = IBCOLL_OK;
  LastError error;
  for (int i = 0; i < count; ++i) {
    if (requests[i] == nullptr) continue;
    const ibcoll_status status = ibcoll_wait(requests[i]);
    if (first != IBCOLL_OK || status == IBCOLL_OK) continue;
    first = status;
    error = std::move(last_error());
  }
  if (first != IBCOLL_OK) last_error() = std::move(error);
  return first;
}

ibcoll_status ibcoll_cancel(ibcoll_request* request) {
  if (!is_live(request)) return refuse_handle("request", request);
  return inside_job(*request->context, [&] {
    if (request->multicast) {
      request->context->context->multicasts().cancel(*request->multicast);
    } else if (request->call->under_way()) {
      cancel(request->call->group(), to_string(request->call->collective()));
    }
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_call_free(ibcoll_request* request) {
  if (request == nullptr) return IBCOLL_OK;
  if (!is_live(request)) return refuse_handle("request", request);
  return inside(*request->context, [&]() -> ibcoll_status {
    if (request->busy) [[unlikely]]
      return refuse_busy();
    if (under_way(*request)) return refuse("the call is under way: wait for it before it is freed");
    drop(*request);
    return IBCOLL_OK;
  });
}
