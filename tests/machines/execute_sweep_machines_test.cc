// Every algorithm between namespaces that look like machines, over UCX and TCP.

#include "tests/machines/machines_job.h"
#include "tests/sweep.h"

namespace ibcoll::testing {
namespace {

class ExecuteSweepMachines : public MachinesTest {
 protected:
  /// `first`: number of the first case; memory alternates between private and shared from there.
  static void sweep_between(const std::string& layout, const std::vector<size_t>& sizes,
                            uint32_t first = 0) {
    if (!on_head()) return run_on_head(layout, 1500);
    EXPECT_EQ(run_between_machines(all_cases(sizes, first)), "");
  }
};

TEST_F(ExecuteSweepMachines, TwoOfTwo) { sweep_between("2x2", {7, 20000}); }
TEST_F(ExecuteSweepMachines, ThreeOneTwo) { sweep_between("3,1,2", {4096}); }

using ExecuteSweepMachinesFull = ExecuteSweepMachines;
const std::vector<size_t> kEverySize = {0, 1, 7, 4096, 20000, 300000};

TEST_F(ExecuteSweepMachinesFull, TwoOfTwo) { sweep_between("2x2", kEverySize); }
// What runs in the user's memory above runs in the engine's own here, and the other way round.
TEST_F(ExecuteSweepMachinesFull, TwoOfTwoInOtherMemory) { sweep_between("2x2", kEverySize, 1); }
TEST_F(ExecuteSweepMachinesFull, ThreeOneTwo) { sweep_between("3,1,2", kEverySize); }
TEST_F(ExecuteSweepMachinesFull, ThreeOneTwoInOtherMemory) {
  sweep_between("3,1,2", kEverySize, 1);
}

}  // namespace
}  // namespace ibcoll::testing
