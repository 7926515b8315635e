#pragma once
/// What it takes of memory that the ranks of a job find each other.

#include <cstdint>

#include "engine/base/memory_item.h"

namespace ibcoll {

/// The job as the bootstrap sees it.
struct JobSize {
  int ranks = 1, machines = 1;
  int ranks_here = 1;  ///< on the machine in question
};

/// What a rank keeps.
MemoryItems bootstrap_memory(const JobSize& job);

/// What it holds while it starts, and malloc may keep. `of_transport`: bytes for each rank of the
/// job that the transport holds meanwhile.
uint64_t start_bytes(const JobSize& job, uint64_t of_transport);

/// What rank 0 holds on top, in a job that a launcher has started on several machines: what it
/// passes on between these. `of_transport`: the longest record of the transport's.
uint64_t start_root_bytes(const JobSize& job, uint64_t of_transport);

}  // namespace ibcoll
