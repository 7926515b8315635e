#include "engine/bootstrap/start_memory.h"

#include <algorithm>

#include "engine/bootstrap/control.h"
#include "engine/bootstrap/control_agent.h"
#include "engine/bootstrap/machine.h"
#include "engine/bootstrap/machine_watch.h"
#include "engine/bootstrap/shared_region.h"

namespace ibcoll {

MemoryItems bootstrap_memory(const JobSize& job, const StartRecords& records) {
  const auto here = static_cast<uint64_t>(job.ranks_here);
  const uint64_t longest =
      std::max<uint64_t>({records.first, SharedRegion::longest_record(records.regions),
                          records.of_transport / static_cast<uint64_t>(job.ranks)});
  const uint64_t meeting = ControlBlock::bytes_for(job.ranks_here, job.ranks);
  const uint64_t touched =
      std::min<uint64_t>(meeting, ControlBlock::touched_bytes(job.ranks_here, job.ranks, longest));
  return {{.part = MemoryPart::kShared,
           .what = "where the ranks of the machine meet",
           .bytes = touched / here,
           .reserved = (meeting - touched) / here,
           .each_rank = static_cast<double>(sizeof(Presence)) / static_cast<double>(here),
           .why = "who has left is looked up by rank"},
          {.part = MemoryPart::kTables,
           .what = "processes of the machine",
           .bytes = here * MachineWatch::bytes_each_peer()}};
}

/// Of the first records a machine's number is kept of each; to number them, their names are put
/// together.
uint64_t start_bytes(const JobSize& job, const StartRecords& records, uint64_t of_transport) {
  constexpr uint64_t kThroughout = sizeof(int);
  const uint64_t first = records.first + sizeof(MachineId);
  const uint64_t regions = SharedRegion::start_bytes_each_rank(records.regions);
  const auto ranks = static_cast<uint64_t>(job.ranks);
  return ranks * kThroughout + std::max<uint64_t>({ranks * first, ranks * regions, of_transport});
}

uint64_t start_root_bytes(const JobSize& job, const StartRecords& records) {
  const auto ranks = static_cast<uint64_t>(job.ranks);
  const uint64_t most = std::max<uint64_t>({ranks * records.first,
                                            ranks * SharedRegion::longest_record(records.regions),
                                            records.of_transport});
  return ControlAgent::root_bytes(job.ranks, job.machines, job.ranks_here, most);
}

}  // namespace ibcoll
