// What the ranks of a machine tell each other in memory that they share.

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "engine/core/machine_board.h"
#include "tests/launched.h"

namespace ibcoll {
namespace {

/// What is wrong with the board of this rank, where the ranks are on such machines.
std::string board_fault(Bootstrap& bootstrap, const std::vector<int>& machines) {
  const Rank me = bootstrap.rank();
  auto region = SharedRegion::create(bootstrap, MachineBoard::request(me, machines));
  if (!region) return region.error().message;
  const MachineBoard board(std::move(*region), me, machines);
  std::vector<Rank> expected, found;
  for (Rank rank = 0; rank < bootstrap.size(); ++rank)
    if (machines[static_cast<size_t>(rank)] == machines[static_cast<size_t>(me)])
      expected.push_back(rank);
  for (const ProcessPlace& place : board.places()) {
    const WatchedProcess& process = place.process;
    found.push_back(process.rank);
    if ((process.pid == getpid()) != (process.rank == me || bootstrap.shares_address_space()))
      return "wrong process";
    if (process.start != process_start(process.pid)) return "wrong start of a process";
    if (CPU_COUNT(&place.processors) == 0) return "no processors";
  }
  if (found != expected) return "wrong ranks";
  const std::span<Bell> bells = board.bells().all();
  if (bells.size() != expected.size()) return "wrong number of bells";
  for (size_t place = 0; place < expected.size(); ++place)
    if (&board.bells().of(expected[place]) != &bells[place]) return "wrong bell";
  const auto* const bells_end = reinterpret_cast<const std::byte*>(bells.data() + bells.size());
  if (reinterpret_cast<const std::byte*>(board.places().data()) < bells_end)
    return "places among the bells";
  if (oversubscribed(board.places()) && expected.size() == 1) return "too few processors";
  return bootstrap.barrier() ? "" : "no barrier";  // until then all processes are there
}

int look_at_board(Bootstrap& bootstrap, const std::vector<int>& machines) {
  const std::string fault = board_fault(bootstrap, machines);
  if (fault.empty()) return kGood;
  bootstrap.abort({bootstrap.rank(), ErrorCode::kInternal, fault});
  return kWrong;
}

const std::vector<std::vector<int>> kUnequalMachines{
    {0}, {0, 0, 0, 0}, {0, 1, 2}, {0, 1, 0, 2, 0, 1}, {0, 0, 0, 1, 0}};

TEST(MachineBoard, HoldsThePlacesOfTheProcessesOfItsMachine) {
  for (const std::vector<int>& machines : kUnequalMachines) {
    const auto result =
        launch_processes(quiet(static_cast<int>(machines.size())),
                         [&](Bootstrap& bootstrap) { return look_at_board(bootstrap, machines); });
    EXPECT_EQ(result.value(), kGood) << ::testing::PrintToString(machines);
  }
}

TEST(MachineBoard, HoldsThePlacesOfTheThreadsOfItsMachine) {
  for (const std::vector<int>& machines : kUnequalMachines) {
    const auto result =
        launch_threads(static_cast<int>(machines.size()),
                       [&](Bootstrap& bootstrap) { return look_at_board(bootstrap, machines); });
    EXPECT_EQ(result.value(), kGood) << ::testing::PrintToString(machines);
  }
}

}  // namespace
}  // namespace ibcoll
