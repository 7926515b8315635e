// What the tuner takes for broadcasts, against simulated times of what was taken before it knew
// parts and fine pieces: a binomial tree up to 512 KB, a chain of 16 pieces at most from there.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "engine/tuner/choose.h"
#include "studies/simulate/collective.h"
#include "topology/spec.h"

namespace ibcoll {
namespace {

/// Hosts of 300 ns a message at either end.
double time_us(const topology::Fabric& fabric, const Shape& shape, std::string_view algorithm,
               uint32_t pieces, int64_t bytes) {
  sim::CollectiveOptions options;
  options.network.level = sim::Level::kPacket;
  options.run.block_bytes = static_cast<uint64_t>(bytes);
  options.run.pieces = pieces;
  options.run.send_overhead_ns = options.run.recv_overhead_ns = 300;
  const Algorithm* how = *find_algorithm(Collective::kBcast, algorithm);
  how->set_pieces(pieces, options.algorithm);
  return sim::simulate(*how, shape, fabric, options).value().time_us;
}

/// How many times as fast as the rule before, where the two differ.
std::vector<double> gains(std::initializer_list<int> servers,
                          std::initializer_list<int64_t> sizes) {
  std::vector<double> result;
  for (const char* spec :
       {"single-switch:128,bandwidth=12.5GB/s", "fat-tree:8,3,taper=2,bandwidth=12.5GB/s",
        "dragonfly:4,8,4,groups=8,bandwidth=12.5GB/s"}) {
    const topology::Fabric fabric = topology::open_fabric(spec).value();
    for (const int count : servers) {
      const Shape shape = Shape::from_layout(std::vector<int>(count, 1), Placement::kBlock).value();
      for (const int64_t bytes : sizes) {
        const bool tree = bytes <= 512 * 1024;
        uint32_t pieces = 1;
        while (pieces < 16 && bytes / (2 * pieces) >= 64 * 1024) pieces *= 2;
        const Choice choice = choose({Collective::kBcast, shape, bytes});
        if (choice.algorithm == (tree ? "binomial" : "chain") && choice.pieces == pieces) continue;
        const double before = time_us(fabric, shape, tree ? "binomial" : "chain", pieces, bytes);
        const double now = time_us(fabric, shape, choice.algorithm, choice.pieces, bytes);
        EXPECT_LE(now, before) << spec << ", " << count << " servers, " << bytes
                               << " bytes: " << choice.algorithm << " in " << choice.pieces;
        result.push_back(before / now);
      }
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

TEST(BcastChoice, IsNeverSlowerThanTreeAndChainOfFewPieces) {
  const auto all = gains({2, 3, 4, 8, 17}, {1024, 16384, 32768, 81920, 524288, 1 << 20});
  ASSERT_FALSE(all.empty());
  EXPECT_GE(all[all.size() / 2], 1.1);
}

TEST(BcastChoice, FullGridIsNeverSlowerThanTreeAndChainOfFewPieces) {
  const auto all = gains({2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 100, 128},
                         {1 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10,
                          512 << 10, 1 << 20, 4 << 20, 8 << 20});
  ASSERT_FALSE(all.empty());
  std::printf("%zu choices differ: median gain %.2f, largest %.2f\n", all.size(),
              all[all.size() / 2], all.back());
  EXPECT_GE(all[all.size() / 2], 1.4);
}

}  // namespace
}  // namespace ibcoll
