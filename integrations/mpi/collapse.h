#pragma once
/// Private buffers that come again are moved to huge pages, in their place: the kernel then copies
/// them faster between processes, and the program reaches them faster, too.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "integrations/mpi/job.h"

namespace ibcoll::mpi {

/// Shorter buffers are left alone.
inline constexpr size_t kLeastCollapsed = 64 << 10;

/// In MPI_Init: whether it is done at all (IBCOLL_MPI_COLLAPSE).
void begin_collapse(bool wanted);

namespace detail {
inline constinit std::atomic<bool> g_collapses{false};
}
inline bool collapses() { return detail::g_collapses.load(std::memory_order_relaxed); }

/// The buffers of a call that is made by `ranks`. The second time that one comes its pages are
/// collapsed, a part of it now and the rest as it comes again; none more than once. `sent`: bytes
/// of this rank's.
void note_buffers(const Job& job, const ibcoll_call& call, size_t sent, int ranks);

}  // namespace ibcoll::mpi
