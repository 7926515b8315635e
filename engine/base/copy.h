#pragma once
/// The copy kernels there are. Which one is fastest depends on how many bytes *all* ranks of the
/// machine move in one call, not on the length of one copy: perf/copy_bench.cc measures it.

#include <cstddef>
#include <cstdint>

namespace ibcoll {

/// memcpy of the C library. Leaves what it wrote in the caches, so the reader finds it there.
void copy_plain(void* to, const void* from, size_t bytes);

/// Copies with non-temporal stores: the destination goes to memory past the caches, which saves
/// reading it first. Pays when source and destination don't stay in the last-level cache, loses
/// several times over when they would. Ordered: stores that follow (a flag, say) are seen after the
/// data; x86's release order doesn't give that for non-temporal stores, so this ends with `sfence`.
/// Under 256 bytes it is copy_plain.
void copy_streaming(void* to, const void* from, size_t bytes);

/// Copies with the `rep movsb` instruction, whose microcode picks its own way by length.
/// copy_plain where the processor isn't an x86.
void copy_rep_movsb(void* to, const void* from, size_t bytes);

/// Bytes of the last-level cache this machine's cores share; 32 MB where the system doesn't say.
size_t last_level_cache_bytes();

using CopyKernel = void (*)(void* to, const void* from, size_t bytes);

/// copy_streaming when the footprint is over one and a half times the last-level cache, else
/// copy_plain. `footprint_bytes`: what all ranks of the machine read plus what they write between
/// one use of a buffer and the next (an alltoall of n ranks with blocks of B bytes: 2 n^2 B).
///
/// Measured with perf/copy_bench on 2 cores with a 32 MB cache, 2 to 8 processes that copy the
/// blocks of an alltoall, GB/s plain / streaming: footprint 8 MB 95/30, 25 MB 73/28, 42 MB 45/40,
/// 50 MB 32/32, 64 MB 24/29, 100 MB 22/27, 256 MB 18/28. The block's own length, from 4 KB to 6 MB,
/// made no difference; `rep movsb` was never more than 5 % ahead of the better of the two.
CopyKernel copy_kernel_for(size_t footprint_bytes);

}  // namespace ibcoll
