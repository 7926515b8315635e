#include "engine/core/context_memory.h"

#include "engine/core/call.h"
#include "engine/core/context.h"

namespace ibcoll {

MemoryItems context_memory(const Shape& shape, int collectives) {
  const auto ranks = static_cast<uint64_t>(shape.ranks());
  const uint64_t tables = shape.memory_bytes();
  const auto each = static_cast<double>(tables) / static_cast<double>(ranks);
  return {
      {.part = MemoryPart::kTables,
       .what = "context, and its group of all ranks",
       .bytes = sizeof(Context) + sizeof(OpenedJob) + sizeof(ServerPlacement) +
                sizeof(shm::Transport) + sizeof(shm::Heap) + sizeof(Multicasts) + sizeof(Group) +
                sizeof(Call) + static_cast<uint64_t>(collectives) * CallPlans::bytes_each()},
      {.part = MemoryPart::kTables,
       .what = "Shape of the job",
       .bytes = tables,
       .each_rank = each,
       .why = "which rank is on which server: algorithms and transports look it up by rank. Groups "
              "of all ranks share it"},
      {.part = MemoryPart::kShared, .what = "bell", .bytes = sizeof(Bell)},
      {.part = MemoryPart::kShared, .what = "place on the machine", .bytes = sizeof(ProcessPlace)},
      {.part = MemoryPart::kShared, .what = "notes of calls", .bytes = CallBoard::bytes(1)},
  };
}

}  // namespace ibcoll
