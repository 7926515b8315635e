// Compiled with instructions that not every processor has: see CMakeLists.txt.
#ifdef __AVX2__

#include "engine/execute/reduction_loops.h"

namespace ibcoll {

constinit const KernelTable kAvx2Kernels = make_table("avx2");

}  // namespace ibcoll

#endif
