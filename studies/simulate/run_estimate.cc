#include "studies/simulate/run_estimate.h"

#include <algorithm>
#include <set>

#include "studies/simulate/planning_costs.h"

namespace ibcoll::sim {

namespace {

/// Of an item of a program, with its part of a message (ib_sim alltoall --level flow --layout
/// 512x8: 0.31 us with ring, 0.44 us with two_level_ring on a core at 2.6 GHz).
constexpr double kItemSeconds = 0.35e-6;
/// Of a rank beside its program, and of the tool itself.
constexpr uint64_t kRankBytes = 1500, kToolBytes = 30 << 20;
/// Of a page of peers (PairTable), and of a route.
constexpr uint64_t kPeersOfPage = 64, kPageBytes = kPeersOfPage * 6, kRouteBytes = 50;

/// Of some ranks that are alike.
struct Sample {
  uint64_t bytes = 0, pages = 0, servers = 0, items = 0, puts_at_once = 0, ranks = 0;
};

/// How many puts a rank may start, at most, before it waits for something: data, a token, others of
/// its server, or that earlier puts are complete.
uint64_t puts_at_once(const RankProgram& program, const Shape& shape) {
  uint64_t most = 0, now = 0;
  uint32_t after_sends = 0, after_receives = 0;
  for (const Op& op : program.lane(Lane::kSend)) {
    const uint32_t sends = op.after[static_cast<int>(Lane::kSend)];
    const uint32_t receives = op.after[static_cast<int>(Lane::kRecv)];
    const bool waits = op.kind == OpKind::kWait || op.kind == OpKind::kGateWait;
    if (waits || sends > after_sends || receives > after_receives) now = 0;
    after_sends = std::max(after_sends, sends);
    after_receives = std::max(after_receives, receives);
    if (op.kind == OpKind::kPut && !shape.same_server(program.me, op.peer)) ++now;
    most = std::max(most, now);
  }
  return most;
}

void add(const RankProgram& program, const Shape& shape, Packer& packer, Sample& sample) {
  const PackedProgram packed = packer.pack(program);
  std::set<uint64_t> pages;
  std::set<int> servers;
  for (const auto& lane : program.lanes) {
    for (const Op& op : lane) {
      const int server = op.to_server || op.kind == OpKind::kWaitExposed ? op.peer
                         : op.peer >= 0                                  ? shape.server_of(op.peer)
                                        : shape.server_of(program.me);
      if (server == shape.server_of(program.me)) continue;
      servers.insert(server);
      for (const Rank peer : shape.members(server)) {
        pages.insert(static_cast<uint64_t>(peer) / kPeersOfPage);
      }
    }
  }
  ++sample.ranks;
  sample.bytes += packed.memory_bytes();
  sample.items += packed.items();
  sample.pages += pages.size();
  sample.servers += servers.size();
  sample.puts_at_once += puts_at_once(program, shape);
}

/// `sample` stands for so many ranks.
void extend(const Sample& sample, uint64_t ranks, Sample& all) {
  if (sample.ranks == 0) return;
  const auto share = [&](uint64_t sum) { return sum * ranks / sample.ranks; };
  all.bytes += share(sample.bytes);
  all.items += share(sample.items);
  all.pages += share(sample.pages);
  all.servers += share(sample.servers);
  all.puts_at_once += share(sample.puts_at_once);
}

/// Of programs that can't be built before there is a plan: three items a message of a rank.
Sample planned_programs(Collective collective, const Shape& shape) {
  const auto ranks = static_cast<uint64_t>(shape.ranks());
  const auto servers = static_cast<uint64_t>(shape.servers());
  const bool pairs = is_alltoall(collective);
  Sample all;
  all.items = 3 * ranks * (pairs ? ranks : servers);
  all.bytes = all.items * 8;  // in no pattern
  all.pages = ranks * (ranks + kPeersOfPage - 1) / kPeersOfPage;
  all.servers = ranks * servers;
  return all;
}

}  // namespace

RunEstimate estimate_run(const Algorithm& algorithm, const Shape& shape,
                         const topology::Fabric& fabric, const CollectiveOptions& options) {
  const auto ranks = static_cast<uint64_t>(shape.ranks());
  const auto servers = static_cast<uint64_t>(shape.servers());
  RunEstimate estimate;
  Sample all;
  if (algorithm.spec->planned) {
    all = planned_programs(algorithm.collective, shape);
    estimate.bytes += planning_bytes(algorithm.collective, shape.servers());
    estimate.seconds += planning_seconds(algorithm.collective, shape.servers(), fabric);
  } else {
    // The root, those that go first on their servers, and the others may have much to do, or
    // little.
    constexpr int kSampled = 6;
    AlgorithmOptions how = options.algorithm;
    if (options.mode != Mode::kPaced) how.pacing = Pacing::kFree, how.window = 0;
    Packer packer({options.run.block_bytes, {}}, std::max(options.run.pieces, 1u));
    Sample root, leaders, others;
    const auto one = [&](Rank rank, Sample& sample) {
      add(*algorithm.build(shape, rank, how), shape, packer, sample);
    };
    one(how.root, root);
    for (int i = 0; i < kSampled; ++i) {
      const auto members = shape.members(static_cast<int>(i * (servers - 1) / (kSampled - 1)));
      one(members.front(), leaders);
      if (members.size() > 1) one(members[1 + i % (members.size() - 1)], others);
    }
    extend(root, 1, all);
    extend(leaders, servers - 1, all);
    extend(others, ranks - servers, all);
  }
  constexpr uint64_t kUnequalBytes = 4;  // of an item whose bytes follow from no others
  if (is_unequal(algorithm.collective)) all.bytes += all.items * kUnequalBytes;
  const uint64_t routes = std::min(all.servers, servers * servers);
  estimate.bytes += kToolBytes + ranks * kRankBytes + all.bytes + all.pages * kPageBytes +
                    ranks * ranks / kPeersOfPage * sizeof(uint32_t) +
                    ranks * static_cast<uint64_t>(shape.max_server_size()) * 2 * sizeof(uint64_t) +
                    routes * kRouteBytes +
                    servers * static_cast<uint64_t>(fabric.hosts()) * sizeof(uint32_t);
  estimate.flight_bytes = all.puts_at_once * kFlightBytes;
  estimate.seconds += static_cast<double>(all.items) * kItemSeconds;
  return estimate;
}

}  // namespace ibcoll::sim
