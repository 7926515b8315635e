// Every algorithm between emulated servers that UCX joins over TCP.

#include "tests/strided_sweep.h"
#include "tests/sweep.h"
#include "tests/ucx/ucx_lo.h"
#include "tests/ucx/ucx_shim.h"

namespace ibcoll {
namespace {

using testing::all_by_puts;
using testing::all_by_rendezvous;
using testing::all_in_parts;
using testing::LongRuns;
using testing::open_ucx_with;
using testing::strided_sweep;
using testing::sweep;
using testing::ucx_job;
using testing::UcxShim;
using ExecuteSweepUcx = testing::UcxOnLo;

TEST_F(ExecuteSweepUcx, TwoServersOfOne) { sweep(ucx_job({1, 1}), {0, 7, 20000}); }
TEST_F(ExecuteSweepUcx, TwoServersOfTwo) { sweep(ucx_job({2, 2}), {1, 4096}); }
TEST_F(ExecuteSweepUcx, ThreeOneTwoDealtCyclically) {
  sweep(ucx_job({3, 1, 2}, Placement::kCyclic), {7, 20000});
}
TEST_F(ExecuteSweepUcx, StridedBlocks) {
  strided_sweep(ucx_job({1, 2, 1}), {24});
  strided_sweep(ucx_job({1, 2, 1}), {6 * 4096}, 5, LongRuns::kSome);
}

TEST_F(ExecuteSweepUcx, DataByRendezvous) {
  open_ucx_with(all_by_rendezvous());
  sweep(ucx_job({2, 1}), {7, 20000});
}
TEST_F(ExecuteSweepUcx, DataByPuts) {
  open_ucx_with(all_by_puts());
  sweep(ucx_job({2, 1}), {7, 20000});
}

/// Messages overtake each other, what is sent is read late, completions come late.
TEST_F(ExecuteSweepUcx, MessagesInAnyOrder) {
  for (const auto& options : {all_in_parts(), all_by_rendezvous(), all_by_puts()}) {
    open_ucx_with(options, [](Rank me) { UcxShim::reorder(1 + static_cast<uint64_t>(me)); });
    sweep(ucx_job({1, 2}), {7, 5000});
  }
}

using ExecuteSweepUcxFull = ExecuteSweepUcx;
const std::vector<size_t> kEverySize = {0, 1, 8, 4096, 65536, 1 << 20};

TEST_F(ExecuteSweepUcxFull, FourServersOfTwo) { sweep(ucx_job({2, 2, 2, 2}), kEverySize); }
// What runs in the user's memory above runs in the engine's own here, and the other way round.
TEST_F(ExecuteSweepUcxFull, FourServersOfTwoDealtCyclically) {
  sweep(ucx_job({2, 2, 2, 2}, Placement::kCyclic), kEverySize, 1);
}
TEST_F(ExecuteSweepUcxFull, ThreeOneTwo) { sweep(ucx_job({3, 1, 2}), kEverySize); }
TEST_F(ExecuteSweepUcxFull, ThreeOneTwoDealtCyclically) {
  sweep(ucx_job({3, 1, 2}, Placement::kCyclic), kEverySize, 1);
}
TEST_F(ExecuteSweepUcxFull, MessagesInAnyOrderManySeeds) {
  static uint64_t seed;
  for (seed = 10; seed < 22; ++seed) {
    open_ucx_with(seed % 3 == 0   ? all_by_puts()
                  : seed % 3 == 1 ? all_by_rendezvous()
                                  : all_in_parts(),
                  [](Rank me) { UcxShim::reorder(seed * 100 + static_cast<uint64_t>(me)); });
    sweep(ucx_job(seed % 2 == 0 ? std::vector<int>{2, 2} : std::vector<int>{3, 1, 2}),
          {0, 7, 4096, 20000});
  }
}

}  // namespace
}  // namespace ibcoll
