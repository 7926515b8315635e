// The C interface: collective calls, from arguments to Calls.

#include <memory>

#include "engine/core/c_api.h"
#include "engine/core/c_api_arguments.h"
#include "engine/core/exchange_counts.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

namespace {

enum class Mode { kBlocking, kNonblocking, kPersistent };

ibcoll_status run_blocking(ibcoll_group& handle, const CallArguments& arguments) {
  if (!handle.blocking) handle.blocking = std::make_unique<Call>(*handle.group);
  Call& call = *handle.blocking;
  Status done = call.prepare(arguments);
  if (done) done = call.start();
  if (done) done = call.wait();
  call.release();  // its memory serves other groups, too
  return give(done);
}

ibcoll_status make_request(ibcoll_group& handle, const CallArguments& arguments, Mode mode,
                           ibcoll_request** request) {
  ibcoll_request& made = handle.context->requests.take();
  made.context = handle.context;
  made.persistent = mode == Mode::kPersistent;
  made.call.emplace(*handle.group);
  Status done = made.call->prepare(arguments);
  if (done && mode == Mode::kNonblocking) done = made.call->start();
  if (done) {
    *request = &made;
  } else {
    drop(made);
  }
  return give(done);
}

/// `arguments_of_call` gives the Result<CallArguments>.
template <class ArgumentsOfCall>
ibcoll_status run_call(ibcoll_group* handle, ArgumentsOfCall&& arguments_of_call, Mode mode,
                       ibcoll_request** request) {
  if (!is_live(handle)) return refuse_handle("group", handle);
  return inside_job(*handle->context, [&]() -> ibcoll_status {
    const Result<CallArguments> arguments = arguments_of_call();
    if (!arguments) return report(arguments.error());
    if (mode == Mode::kBlocking) return run_blocking(*handle, *arguments);
    if (request == nullptr) return refuse("there is no place for the request: it is null");
    return make_request(*handle, *arguments, mode, request);
  });
}

}  // namespace

ibcoll_status ibcoll_alltoall(ibcoll_group* group, const void* send, void* recv, size_t block_bytes,
                              const ibcoll_options* options) {
  return run_call(
      group, [&] { return arguments_of(Collective::kAlltoall, send, recv, block_bytes, options); },
      Mode::kBlocking, nullptr);
}

ibcoll_status ibcoll_ialltoall(ibcoll_group* group, const void* send, void* recv,
                               size_t block_bytes, const ibcoll_options* options,
                               ibcoll_request** request) {
  return run_call(
      group, [&] { return arguments_of(Collective::kAlltoall, send, recv, block_bytes, options); },
      Mode::kNonblocking, request);
}

ibcoll_status ibcoll_alltoall_init(ibcoll_group* group, const void* send, void* recv,
                                   size_t block_bytes, const ibcoll_options* options,
                                   ibcoll_request** request) {
  return run_call(
      group, [&] { return arguments_of(Collective::kAlltoall, send, recv, block_bytes, options); },
      Mode::kPersistent, request);
}

ibcoll_status ibcoll_alltoallv(ibcoll_group* group, const void* send, const int64_t* send_counts,
                               const int64_t* send_displacements, void* recv,
                               const int64_t* recv_counts, const int64_t* recv_displacements,
                               const ibcoll_options* options) {
  return run_call(
      group,
      [&] {
        return arguments_v(send, send_counts, send_displacements, recv, recv_counts,
                           recv_displacements, options);
      },
      Mode::kBlocking, nullptr);
}

ibcoll_status ibcoll_ialltoallv(ibcoll_group* group, const void* send, const int64_t* send_counts,
                                const int64_t* send_displacements, void* recv,
                                const int64_t* recv_counts, const int64_t* recv_displacements,
                                const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group,
      [&] {
        return arguments_v(send, send_counts, send_displacements, recv, recv_counts,
                           recv_displacements, options);
      },
      Mode::kNonblocking, request);
}

ibcoll_status ibcoll_alltoallv_init(ibcoll_group* group, const void* send,
                                    const int64_t* send_counts, const int64_t* send_displacements,
                                    void* recv, const int64_t* recv_counts,
                                    const int64_t* recv_displacements,
                                    const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group,
      [&] {
        return arguments_v(send, send_counts, send_displacements, recv, recv_counts,
                           recv_displacements, options);
      },
      Mode::kPersistent, request);
}

ibcoll_status ibcoll_allgather(ibcoll_group* group, const void* send, void* recv,
                               size_t block_bytes, const ibcoll_options* options) {
  return run_call(
      group, [&] { return arguments_of(Collective::kAllgather, send, recv, block_bytes, options); },
      Mode::kBlocking, nullptr);
}

ibcoll_status ibcoll_iallgather(ibcoll_group* group, const void* send, void* recv,
                                size_t block_bytes, const ibcoll_options* options,
                                ibcoll_request** request) {
  return run_call(
      group, [&] { return arguments_of(Collective::kAllgather, send, recv, block_bytes, options); },
      Mode::kNonblocking, request);
}

ibcoll_status ibcoll_allgather_init(ibcoll_group* group, const void* send, void* recv,
                                    size_t block_bytes, const ibcoll_options* options,
                                    ibcoll_request** request) {
  return run_call(
      group, [&] { return arguments_of(Collective::kAllgather, send, recv, block_bytes, options); },
      Mode::kPersistent, request);
}

ibcoll_status ibcoll_allgatherv(ibcoll_group* group, const void* send, int64_t send_count,
                                void* recv, const int64_t* recv_counts,
                                const int64_t* recv_displacements, const ibcoll_options* options) {
  return run_call(
      group,
      [&] {
        return arguments_gatherv(Collective::kAllgatherv, send, send_count, recv, recv_counts,
                                 recv_displacements, 0, options);
      },
      Mode::kBlocking, nullptr);
}

ibcoll_status ibcoll_iallgatherv(ibcoll_group* group, const void* send, int64_t send_count,
                                 void* recv, const int64_t* recv_counts,
                                 const int64_t* recv_displacements, const ibcoll_options* options,
                                 ibcoll_request** request) {
  return run_call(
      group,
      [&] {
        return arguments_gatherv(Collective::kAllgatherv, send, send_count, recv, recv_counts,
                                 recv_displacements, 0, options);
      },
      Mode::kNonblocking, request);
}

ibcoll_status ibcoll_allgatherv_init(ibcoll_group* group, const void* send, int64_t send_count,
                                     void* recv, const int64_t* recv_counts,
                                     const int64_t* recv_displacements,
                                     const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group,
      [&] {
        return arguments_gatherv(Collective::kAllgatherv, send, send_count, recv, recv_counts,
                                 recv_displacements, 0, options);
      },
      Mode::kPersistent, request);
}

ibcoll_status ibcoll_gather(ibcoll_group* group, const void* send, void* recv, size_t block_bytes,
                            int root, const ibcoll_options* options) {
  return run_call(
      group,
      [&] { return arguments_of(Collective::kGather, send, recv, block_bytes, options, root); },
      Mode::kBlocking, nullptr);
}

ibcoll_status ibcoll_igather(ibcoll_group* group, const void* send, void* recv, size_t block_bytes,
                             int root, const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group,
      [&] { return arguments_of(Collective::kGather, send, recv, block_bytes, options, root); },
      Mode::kNonblocking, request);
}

ibcoll_status ibcoll_gather_init(ibcoll_group* group, const void* send, void* recv,
                                 size_t block_bytes, int root, const ibcoll_options* options,
                                 ibcoll_request** request) {
  return run_call(
      group,
      [&] { return arguments_of(Collective::kGather, send, recv, block_bytes, options, root); },
      Mode::kPersistent, request);
}

ibcoll_status ibcoll_gatherv(ibcoll_group* group, const void* send, int64_t send_count, void* recv,
                             const int64_t* recv_counts, const int64_t* recv_displacements,
                             int root, const ibcoll_options* options) {
  return run_call(
      group,
      [&] {
        return arguments_gatherv(Collective::kGatherv, send, send_count, recv, recv_counts,
                                 recv_displacements, root, options);
      },
      Mode::kBlocking, nullptr);
}

ibcoll_status ibcoll_igatherv(ibcoll_group* group, const void* send, int64_t send_count, void* recv,
                              const int64_t* recv_counts, const int64_t* recv_displacements,
                              int root, const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group,
      [&] {
        return arguments_gatherv(Collective::kGatherv, send, send_count, recv, recv_counts,
                                 recv_displacements, root, options);
      },
      Mode::kNonblocking, request);
}

ibcoll_status ibcoll_gatherv_init(ibcoll_group* group, const void* send, int64_t send_count,
                                  void* recv, const int64_t* recv_counts,
                                  const int64_t* recv_displacements, int root,
                                  const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group,
      [&] {
        return arguments_gatherv(Collective::kGatherv, send, send_count, recv, recv_counts,
                                 recv_displacements, root, options);
      },
      Mode::kPersistent, request);
}

ibcoll_status ibcoll_scatter(ibcoll_group* group, const void* send, void* recv, size_t block_bytes,
                             int root, const ibcoll_options* options) {
  return run_call(
      group,
      [&] { return arguments_of(Collective::kScatter, send, recv, block_bytes, options, root); },
      Mode::kBlocking, nullptr);
}

ibcoll_status ibcoll_iscatter(ibcoll_group* group, const void* send, void* recv, size_t block_bytes,
                              int root, const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group,
      [&] { return arguments_of(Collective::kScatter, send, recv, block_bytes, options, root); },
      Mode::kNonblocking, request);
}

ibcoll_status ibcoll_scatter_init(ibcoll_group* group, const void* send, void* recv,
                                  size_t block_bytes, int root, const ibcoll_options* options,
                                  ibcoll_request** request) {
  return run_call(
      group,
      [&] { return arguments_of(Collective::kScatter, send, recv, block_bytes, options, root); },
      Mode::kPersistent, request);
}

ibcoll_status ibcoll_scatterv(ibcoll_group* group, const void* send, const int64_t* send_counts,
                              const int64_t* send_displacements, void* recv, int64_t recv_count,
                              int root, const ibcoll_options* options) {
  return run_call(
      group,
      [&] {
        return arguments_scatterv(send, send_counts, send_displacements, recv, recv_count, root,
                                  options);
      },
      Mode::kBlocking, nullptr);
}

ibcoll_status ibcoll_iscatterv(ibcoll_group* group, const void* send, const int64_t* send_counts,
                               const int64_t* send_displacements, void* recv, int64_t recv_count,
                               int root, const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group,
      [&] {
        return arguments_scatterv(send, send_counts, send_displacements, recv, recv_count, root,
                                  options);
      },
      Mode::kNonblocking, request);
}

ibcoll_status ibcoll_scatterv_init(ibcoll_group* group, const void* send,
                                   const int64_t* send_counts, const int64_t* send_displacements,
                                   void* recv, int64_t recv_count, int root,
                                   const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group,
      [&] {
        return arguments_scatterv(send, send_counts, send_displacements, recv, recv_count, root,
                                  options);
      },
      Mode::kPersistent, request);
}

ibcoll_status ibcoll_bcast(ibcoll_group* group, void* buffer, size_t bytes, int root,
                           const ibcoll_options* options) {
  return run_call(
      group, [&] { return arguments_of(Collective::kBcast, buffer, buffer, bytes, options, root); },
      Mode::kBlocking, nullptr);
}

ibcoll_status ibcoll_ibcast(ibcoll_group* group, void* buffer, size_t bytes, int root,
                            const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group, [&] { return arguments_of(Collective::kBcast, buffer, buffer, bytes, options, root); },
      Mode::kNonblocking, request);
}

ibcoll_status ibcoll_bcast_init(ibcoll_group* group, void* buffer, size_t bytes, int root,
                                const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group, [&] { return arguments_of(Collective::kBcast, buffer, buffer, bytes, options, root); },
      Mode::kPersistent, request);
}

ibcoll_status ibcoll_reduce(ibcoll_group* group, const void* send, void* recv, size_t elements,
                            ibcoll_type type, ibcoll_operator op, int root,
                            const ibcoll_options* options) {
  return run_call(
      group, [&] { return arguments_reduce(send, recv, elements, type, op, root, options); },
      Mode::kBlocking, nullptr);
}

ibcoll_status ibcoll_ireduce(ibcoll_group* group, const void* send, void* recv, size_t elements,
                             ibcoll_type type, ibcoll_operator op, int root,
                             const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group, [&] { return arguments_reduce(send, recv, elements, type, op, root, options); },
      Mode::kNonblocking, request);
}

ibcoll_status ibcoll_reduce_init(ibcoll_group* group, const void* send, void* recv, size_t elements,
                                 ibcoll_type type, ibcoll_operator op, int root,
                                 const ibcoll_options* options, ibcoll_request** request) {
  return run_call(
      group, [&] { return arguments_reduce(send, recv, elements, type, op, root, options); },
      Mode::kPersistent, request);
}

ibcoll_status ibcoll_barrier(ibcoll_group* group, const ibcoll_options* options) {
  return run_call(
      group, [&] { return arguments_of(Collective::kBarrier, nullptr, nullptr, 0, options); },
      Mode::kBlocking, nullptr);
}

ibcoll_status ibcoll_ibarrier(ibcoll_group* group, const ibcoll_options* options,
                              ibcoll_request** request) {
  return run_call(
      group, [&] { return arguments_of(Collective::kBarrier, nullptr, nullptr, 0, options); },
      Mode::kNonblocking, request);
}

ibcoll_status ibcoll_barrier_init(ibcoll_group* group, const ibcoll_options* options,
                                  ibcoll_request** request) {
  return run_call(
      group, [&] { return arguments_of(Collective::kBarrier, nullptr, nullptr, 0, options); },
      Mode::kPersistent, request);
}

ibcoll_status ibcoll_exchange_counts(ibcoll_group* group, int64_t* send_counts,
                                     int64_t* recv_counts) {
  if (send_counts == nullptr || recv_counts == nullptr) return refuse("the counts are null");
  if (!is_live(group)) return refuse_handle("group", group);
  return inside_job(*group->context,
                    [&] { return give(exchange_counts(*group->group, send_counts, recv_counts)); });
}

ibcoll_status ibcoll_exchange_root_counts(ibcoll_group* group, int64_t* own_count, int64_t* counts,
                                          int root) {
  if (own_count == nullptr) return refuse("the place for the rank's own count is null");
  if (!is_live(group)) return refuse_handle("group", group);
  return inside_job(*group->context, [&] {
    return give(exchange_root_counts(*group->group, own_count, counts, root));
  });
}
