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

/// What its ranks give to exchanges while it starts.
struct StartRecords {
  size_t first = 0;           ///< bytes of the first record
  size_t regions = 0;         ///< that are made at a time
  uint64_t of_transport = 0;  ///< bytes that all give to one of the transport's, at most
};

/// What a rank keeps.
MemoryItems bootstrap_memory(const JobSize& job, const StartRecords& records);

/// What it holds while it starts, and malloc may keep. `of_transport`: bytes that the transport
/// holds meanwhile.
uint64_t start_bytes(const JobSize& job, const StartRecords& records, uint64_t of_transport);

/// What rank 0 holds on top, in a job that a launcher has started on several machines: what it
/// passes on between these.
uint64_t start_root_bytes(const JobSize& job, const StartRecords& records);

}  // namespace ibcoll
