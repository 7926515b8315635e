// What is chosen for large blocks on several servers of several ranks, in simulation.

#include <gtest/gtest.h>

#include "engine/schedule/layout.h"
#include "engine/tuner/choose.h"
#include "studies/simulate/collective.h"
#include "topology/spec.h"

namespace ibcoll {
namespace {

/// Hosts of 300 ns a message at either end; `copy_rate` of each rank, 0: copies cost nothing.
double simulated_us(const topology::Fabric& fabric, Collective collective, const Shape& shape,
                    const Choice& choice, int64_t bytes, uint32_t ports = 1, double copy_rate = 0) {
  sim::CollectiveOptions options;
  options.network.mtu_bytes = 4096;
  options.run.block_bytes = static_cast<uint64_t>(bytes);
  options.run.pieces = choice.pieces;
  options.ports = ports;
  options.run.copy_bytes_per_second = copy_rate;
  options.run.send_overhead_ns = options.run.recv_overhead_ns = 300;
  const Algorithm* how = *find_algorithm(collective, choice.algorithm);
  return sim::simulate(*how, shape, fabric, options).value().time_us;
}

// 2 (Ns - 1) / Ns of the block out of each port, and in.
TEST(LargeBlocks, AllreducesTakeWhatPortsTake) {
  constexpr int64_t kBytes = 64 << 20;
  for (const char* spec : {"single-switch:24", "fat-tree:3,3", "fat-tree:5,2", "fat-tree:4,3"}) {
    const topology::Fabric fabric = topology::open_fabric(spec).value();  // 2000 MB/s
    for (const char* layout : {"24x8", "24x1", "8,3,5,1,8,2,7,4,6,8,1,3"}) {
      const Shape shape = parse_layout(layout).value();
      const Choice choice = choose({Collective::kAllreduce, shape, kBytes});
      const double bound_us = 2.0 * (shape.servers() - 1) / shape.servers() * kBytes / 2000;
      const double time = simulated_us(fabric, Collective::kAllreduce, shape, choice, kBytes);
      EXPECT_GE(time, bound_us) << spec << ", " << layout;
      // Where servers are unequal their ranks have unequal parts of a port that serves them alike.
      EXPECT_LE(time, (shape.equal_servers() ? 1.05 : 1.1) * bound_us)
          << spec << ", " << layout << ": " << choice.algorithm;
    }
  }
}

constexpr double kCopyRate = 8e9;

/// On links of 12.5 GB/s: the choice against another algorithm, with a port for each server and
/// with one for each rank.
void expect_gain(Collective collective, const Shape& shape, int64_t bytes, const Choice& before,
                 double least_of_ports) {
  const topology::Fabric fabric =
      topology::open_fabric("single-switch:128,bandwidth=12.5GB/s").value();
  const Choice now = choose({collective, shape, bytes});
  const std::string what = std::string(now.algorithm) + " on " + shape.describe() + ", " +
                           std::to_string(bytes) + " bytes";
  const auto gain = [&](uint32_t ports, double copy_rate) {
    return simulated_us(fabric, collective, shape, before, bytes, ports, copy_rate) /
           simulated_us(fabric, collective, shape, now, bytes, ports, copy_rate);
  };
  EXPECT_TRUE(now.algorithm.starts_with("two_level")) << what;
  EXPECT_GE(gain(1, 0), 0.98) << what;  // pieces of one slice come among those of the others
  EXPECT_GE(gain(1, kCopyRate), 1) << what;
  const auto ports = static_cast<uint32_t>(shape.max_server_size());
  EXPECT_GE(gain(ports, 0), least_of_ports) << what;
}

TEST(LargeBlocks, BcastsUseThePortsOfAllRanks) {
  for (const char* layout : {"2x2", "4x2", "8x4", "3,2,3,2", "16x8"}) {
    const Shape shape = parse_layout(layout).value();
    for (const int64_t megabytes : {16, 64}) {
      const int64_t bytes = megabytes << 20;
      const Choice chain = choose({Collective::kBcast, shape, bytes}, {.named = {"chain"}});
      // The smallest server's.
      const int ports = shape.equal_servers() ? shape.max_server_size() : 2;
      const double least = shape.equal_servers() ? 0.8 * ports : 0.7 * ports;
      expect_gain(Collective::kBcast, shape, bytes, chain, least);
    }
  }
}

TEST(LargeBlocks, AllgathersUseThePortsOfAllRanks) {
  for (const char* layout : {"2x2", "4x2", "8x4", "3,2,3,2", "5,3,3"}) {
    const Shape shape = parse_layout(layout).value();
    for (const int64_t kilobytes : {64, 1024}) {
      if (kilobytes < 1024 && !shape.equal_servers()) continue;
      const int64_t bytes = kilobytes << 10;
      const Choice ring{.algorithm = "ring", .options = {}, .pieces = relayed_pieces(bytes)};
      expect_gain(Collective::kAllgather, shape, bytes, ring, shape.equal_servers() ? 1.5 : 1);
    }
  }
}

TEST(LargeBlocks, EachByteComesIntoAServerOnce) {
  for (const char* layout : {"3x3", "1,4,2", "5,2,3,3"}) {
    for (const Placement placement : {Placement::kBlock, Placement::kCyclic}) {
      const Shape shape = parse_layout(layout, placement).value();
      for (const auto& [collective, name] : {std::pair(Collective::kBcast, "two_level"),
                                             std::pair(Collective::kAllgather, "two_level_ring")}) {
        std::vector<uint32_t> in(static_cast<size_t>(shape.servers()));
        const auto programs = build_all(**find_algorithm(collective, name), shape);
        for (const auto& program : programs) {
          for (const Op& op : program->lane(Lane::kSend)) {
            if (op.kind == OpKind::kPut)
              in[static_cast<size_t>(shape.server_of(op.peer))] += op.count;
          }
        }
        for (int server = 0; server < shape.servers(); ++server) {
          const uint32_t block = server == shape.server_of(0) ? 0 : programs[0]->cut;
          const auto others = static_cast<uint32_t>(shape.ranks() - shape.server_size(server));
          EXPECT_EQ(in[static_cast<size_t>(server)],
                    collective == Collective::kBcast ? block : others)
              << name << " on " << shape.describe();
        }
      }
    }
  }
}

}  // namespace
}  // namespace ibcoll
