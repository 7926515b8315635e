#pragma once
/// From the arguments of the C interface to those of a Call. Only what can't be passed on is
/// refused.

#include "engine/core/call_arguments.h"
#include "ibcoll/ibcoll.h"

namespace ibcoll::c_api {

/// Equal blocks.
Result<CallArguments> arguments_of(Collective collective, const void* send, void* recv,
                                   size_t block_bytes, const ibcoll_options* options, int root = 0);
Result<CallArguments> arguments_v(const void* send, const int64_t* send_counts,
                                  const int64_t* send_displacements, void* recv,
                                  const int64_t* recv_counts, const int64_t* recv_displacements,
                                  const ibcoll_options* options);
Result<CallArguments> arguments_gatherv(Collective collective, const void* send, int64_t send_count,
                                        void* recv, const int64_t* recv_counts,
                                        const int64_t* recv_displacements, int root,
                                        const ibcoll_options* options);
Result<CallArguments> arguments_scatterv(const void* send, const int64_t* send_counts,
                                         const int64_t* send_displacements, void* recv,
                                         int64_t recv_count, int root,
                                         const ibcoll_options* options);
Result<CallArguments> arguments_reduce(const void* send, void* recv, size_t elements,
                                       ibcoll_type type, ibcoll_operator op, int root,
                                       const ibcoll_options* options);

}  // namespace ibcoll::c_api
