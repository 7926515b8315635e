#include "engine/execute/reduction_loops.h"

namespace ibcoll {

constinit const KernelTable kPortableKernels = make_table("portable");

}  // namespace ibcoll
