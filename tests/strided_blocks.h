#pragma once
/// Blocks with layouts of all kinds, and what they mean, byte by byte.

#include <random>
#include <vector>

#include "ibcoll/blocks.h"

namespace ibcoll::testing {

/// Calls use(begin) for each run of a block's, in order, from the base: the definition, as a loop.
template <class Use>
void for_each_run(const ibcoll_block& block, Use&& use) {
  for (int64_t outer = 0; outer < block.outer_count; ++outer) {
    for (int64_t run = 0; run < block.count; ++run)
      use(block.offset + outer * block.outer_stride + run * block.stride);
  }
}

/// Where each byte of a block lies.
inline std::vector<int64_t> places_of(const ibcoll_block& block) {
  std::vector<int64_t> places;
  for_each_run(block, [&](int64_t begin) {
    for (int64_t byte = 0; byte < block.bytes; ++byte) places.push_back(begin + byte);
  });
  return places;
}

/// Some layout for `bytes` bytes, which overlaps itself nowhere: nested or not, with strides of
/// either sign, gaps or none.
template <class Random>
ibcoll_block any_layout(int64_t bytes, Random& random) {
  const auto one_of = [&](int64_t most) { return static_cast<int64_t>(random() % (most + 1)); };
  const auto divisor = [&](int64_t of) {
    if (of == 0) return int64_t{1};
    for (int tries = 0; tries < 8; ++tries) {
      constexpr int64_t kLikely[] = {1, 2, 3, 4, 8, 12, 16, 20, 64, 100, 500, 1000, 2048, 5000};
      const int64_t drawn = kLikely[random() % std::size(kLikely)];
      if (of % drawn == 0) return drawn;
    }
    return of;
  };
  ibcoll_block block{0, divisor(bytes), 1, 0, 1, 0};
  if (bytes == 0) {
    (random() % 2 == 0 ? block.bytes : block.outer_count) = 0;
    return block;
  }
  // Long ones, where there can be some.
  if (bytes % 4096 == 0 && random() % 2 == 0) block.bytes = 4096;
  const int64_t runs = bytes / block.bytes;
  block.count = divisor(runs);
  block.outer_count = runs / block.count;
  const auto sign = [&] { return random() % 3 == 0 ? -1 : 1; };
  // Not so wide between many runs that blocks take hundreds of megabytes.
  constexpr int64_t kAllGaps = int64_t{2} << 20;
  const int64_t widest = std::min<int64_t>(random() % 8 == 0 ? 3000 : 40, 1 + kAllGaps / runs);
  const auto gap = [&] { return random() % 3 == 0 ? 0 : one_of(widest); };
  block.stride = sign() * (block.bytes + gap());
  const int64_t extent = std::abs(block.stride) * (block.count - 1) + block.bytes;
  // Elements behind each other, or the runs of one between those of another.
  if (random() % 4 == 0) {
    block.outer_stride = sign() * block.bytes;
    block.stride = sign() * (block.bytes * block.outer_count + gap());
  } else {
    block.outer_stride = sign() * (extent + gap());
  }
  return block;
}

/// One buffer's blocks, beside each other in memory of `bytes` bytes, from any place in it.
struct StridedSide {
  std::vector<ibcoll_block> blocks;
  int64_t base = 0;  ///< where offsets count from
  size_t bytes = 0;

  template <class Random>
  StridedSide(const std::vector<int64_t>& lengths, bool strided, bool gaps, Random& random) {
    for (const int64_t length : lengths) {
      ibcoll_block block =
          strided ? any_layout(length, random) : ibcoll_block_contiguous(0, length);
      int64_t begin = 0, end = 0;
      for_each_run(block, [&](int64_t run) {
        begin = std::min(begin, run);
        end = std::max(end, run + block.bytes);
      });
      block.offset = static_cast<int64_t>(bytes) - begin;
      bytes += static_cast<size_t>(end - begin) + (gaps ? random() % 7 : 0);
      blocks.push_back(block);
    }
    if (!strided || bytes == 0) return;
    base = static_cast<int64_t>(random() % bytes);
    for (ibcoll_block& block : blocks) block.offset -= base;
  }
};

}  // namespace ibcoll::testing
