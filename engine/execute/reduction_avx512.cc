// Compiled with instructions that not every processor has: see CMakeLists.txt.
#ifdef __AVX512F__

#include "engine/execute/reduction_loops.h"

namespace ibcoll {

constinit const KernelTable kAvx512Kernels = make_table("avx512");

}  // namespace ibcoll

#endif
