#include "perf/compare/machines.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "engine/base/units.h"

namespace ibcoll::compare {

Result<Shape> machines_here() {
  const char* list = std::getenv("MACHINES");
  std::vector<int> ranks;
  for (const std::string_view machine : split(list != nullptr ? list : "", ' ')) {
    // NAME:PROCESS:RANKS
    IBCOLL_ASSIGN(const int64_t count, parse_integer(machine.substr(machine.rfind(':') + 1), 1,
                                                     1'000'000, "the ranks in MACHINES"));
    ranks.push_back(static_cast<int>(count));
  }
  if (ranks.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--machines: there are none; ./run machines LAYOUT --launcher none compare_mpi "
                "--machines makes them");
  }
  return Shape::from_layout(ranks, Placement::kBlock);
}

uint64_t sent_between_machines() {
  uint64_t sum = 0;
  std::error_code none;
  for (const auto& link : std::filesystem::directory_iterator("/sys/class/net", none)) {
    // The bridge's port to machine I is vI: what it has received the machine has sent.
    if (!link.path().filename().string().starts_with("v")) continue;
    uint64_t bytes = 0;
    std::ifstream(link.path() / "statistics" / "rx_bytes") >> bytes;
    sum += bytes;
  }
  return sum;
}

}  // namespace ibcoll::compare
