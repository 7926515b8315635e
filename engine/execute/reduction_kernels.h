#pragma once
/// Which instructions elements are combined with.

#include "engine/execute/element_types.h"

namespace ibcoll {

/// What one operator does with one type; null: it is not for that.
struct ReductionKernels {
  Combine combine = nullptr;           ///< target <- target (operator) source
  Combine combine_reversed = nullptr;  ///< target <- source (operator) target
};

/// All of them, compiled for one kind of processor. Each gives the same bits (but for the bits of a
/// NaN).
struct KernelTable {
  const char* name;
  ReductionKernels of[kElementTypes][kOperators];
};

/// For any processor of the architecture.
extern const KernelTable kPortableKernels;
#ifdef __x86_64__
extern const KernelTable kAvx2Kernels;    ///< AVX2 and F16C
extern const KernelTable kAvx512Kernels;  ///< AVX-512 F, BW, DQ and VL
#endif

/// Those that this processor can carry out, the fastest first; at least the portable ones.
/// Null after the last one.
const KernelTable* const* usable_kernels();

}  // namespace ibcoll
