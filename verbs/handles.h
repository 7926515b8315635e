#pragma once
/// libibverbs objects that destroy themselves. Members of a class are to be declared in the order
/// context, protection domain, memory, completion queues, receive queue, queue pairs: they are
/// destroyed the other way round.

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>

namespace ibcoll::verbs {

template <auto Destroy>
struct Destroyer {
  template <class T>
  void operator()(T* object) const {
    Destroy(object);
  }
};

using ContextHandle = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;
using DomainHandle = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using MemoryHandle = std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>>;
using ChannelHandle = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
using CompletionQueueHandle = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using SharedReceiveHandle = std::unique_ptr<ibv_srq, Destroyer<ibv_destroy_srq>>;
using QueuePairHandle = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;
using AddressHandle = std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>>;

/// `access`: IBV_ACCESS_* bits. Null with errno set where the memory can't be registered.
inline MemoryHandle register_region(ibv_pd* domain, void* base, size_t bytes, int access) {
  return MemoryHandle(ibv_reg_mr(domain, base, bytes, access));
}

}  // namespace ibcoll::verbs
