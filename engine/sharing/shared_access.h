#pragma once
/// Words of memory that ranks, or threads of one, share: each of them is reached through here.
///
/// In the product a Shared is a std::atomic and shared_fence() its fence. A build that names a
/// header of its own in IBCOLL_SHARED_ACCESS has it stand in for both: tests/lockstep decides
/// between any two accesses who runs next, and when others see a store.

#ifdef IBCOLL_NO_SHARED_ACCESS
#error "a folder that is plain by folders.txt must not see shared memory"
#endif

#ifdef IBCOLL_SHARED_ACCESS
#include IBCOLL_SHARED_ACCESS
#else

#include <atomic>

namespace ibcoll {

template <class T>
using Shared = std::atomic<T>;

inline void shared_fence(std::memory_order order) { std::atomic_thread_fence(order); }

}  // namespace ibcoll

#endif
