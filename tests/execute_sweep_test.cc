// Every registered algorithm is executed, on awkward shapes, with poisoned buffers, and its result
// checked byte for byte.

#include <gtest/gtest.h>

#include <numeric>

#include "tests/job.h"
#ifdef IBCOLL_HAVE_VERBS
#include "verbs/device.h"
#endif

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::kPoison;
using testing::pattern;
using testing::RankView;

/// One call: what, how, how large.
struct Case {
  const Algorithm* algorithm;
  Pacing pacing;
  size_t block_bytes;
  bool in_place;
  bool shared_memory;  ///< the engine's own buffers
  uint32_t pieces;
  uint32_t number;

  std::string name() const {
    return fmt::format("{} {} ({}), {} bytes, {}{} memory, {} pieces",
                       to_string(algorithm->collective), algorithm->name, to_string(pacing),
                       block_bytes, in_place ? "in place, " : "",
                       shared_memory ? "shared" : "private", pieces);
  }
};

/// A buffer of either kind.
class Memory {
 public:
  Memory(Context& context, size_t bytes, bool shared) : context_(context) {
    if (shared) {
      shared_ = static_cast<std::byte*>(context.allocate(bytes).value());
    } else {
      private_.resize(bytes + 1);
    }
    std::fill_n(data(), bytes, kPoison);
  }
  ~Memory() {
    if (shared_ != nullptr) (void)context_.free(shared_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() { return shared_ != nullptr ? shared_ : private_.data(); }

 private:
  Context& context_;
  std::byte* shared_ = nullptr;
  std::vector<std::byte> private_;
};

/// Length of the block `origin` has for `target` in the alltoallv of that number: many are 0, some
/// large.
size_t unequal_length(Rank origin, Rank target, const Case& c) {
  const uint32_t x = static_cast<uint32_t>(origin * 31 + target * 17 + c.number) * 2654435761u;
  return (x >> 28) < 5 ? 0 : c.block_bytes * (1 + (x >> 27) % 3) / 2;
}

void run_equal(const RankView& rank, Group& group, const Case& c) {
  const Collective collective = c.algorithm->collective;
  const auto ranks = static_cast<size_t>(group.size());
  const size_t recv_bytes = collective == Collective::kBarrier ? 0 : c.block_bytes * ranks;
  const size_t send_bytes = collective == Collective::kAllgather ? c.block_bytes : recv_bytes;
  const Rank me = group.rank();
  Memory send(rank.context, send_bytes, c.shared_memory),
      recv(rank.context, recv_bytes, c.shared_memory);
  std::byte* source = send.data();
  if (c.in_place)
    source = recv.data() + (collective == Collective::kAllgather ? me * c.block_bytes : 0);
  const auto target_of = [&](size_t block) {
    return collective == Collective::kAllgather ? Block::kEveryone : static_cast<Rank>(block);
  };
  for (size_t i = 0; i < send_bytes; ++i) {
    source[i] = pattern(me, target_of(i / c.block_bytes), i % c.block_bytes, c.number);
  }
  CallArguments arguments;
  arguments.collective = collective;
  arguments.send = c.in_place ? nullptr : send.data();
  arguments.in_place = c.in_place;
  arguments.recv = recv.data();
  arguments.block_bytes = c.block_bytes;
  arguments.options = {c.algorithm->name, c.pacing, c.pieces};
  Call call(group);
  if (!rank.good(call.prepare(arguments), c.name()) || !rank.good(call.start(), c.name()) ||
      !rank.good(call.wait(), c.name())) {
    return;
  }
  for (size_t i = 0; i < recv_bytes; ++i) {
    const Rank target = collective == Collective::kAllgather ? Block::kEveryone : me;
    if (recv.data()[i] !=
        pattern(static_cast<Rank>(i / c.block_bytes), target, i % c.block_bytes, c.number)) {
      rank.complain(fmt::format("{}: byte {} of the block from rank {} is wrong", c.name(),
                                i % c.block_bytes, i / c.block_bytes));
      return;
    }
  }
}

void run_unequal(const RankView& rank, Group& group, const Case& c) {
  const auto ranks = static_cast<size_t>(group.size());
  const Rank me = group.rank();
  std::vector<int64_t> send_counts(ranks), send_places(ranks), recv_counts(ranks),
      recv_places(ranks);
  // Blocks in falling order with gaps between them: displacements may be anything.
  size_t send_bytes = 3, recv_bytes = 1;
  for (size_t i = ranks; i-- > 0;) {
    const auto peer = static_cast<Rank>(i);
    // In place sends to a rank what it receives from it, so the lengths must be symmetric.
    const size_t out = c.in_place ? unequal_length(std::min(me, peer), std::max(me, peer), c)
                                  : unequal_length(me, peer, c);
    const size_t in = c.in_place ? out : unequal_length(peer, me, c);
    send_counts[i] = static_cast<int64_t>(out);
    send_places[i] = static_cast<int64_t>(send_bytes);
    send_bytes += out + 5;
    recv_counts[i] = static_cast<int64_t>(in);
    recv_places[i] = static_cast<int64_t>(recv_bytes);
    recv_bytes += in + 2;
  }
  Memory send(rank.context, send_bytes, c.shared_memory),
      recv(rank.context, recv_bytes, c.shared_memory);
  for (size_t i = 0; i < ranks; ++i) {
    std::byte* block = c.in_place ? recv.data() + recv_places[i] : send.data() + send_places[i];
    for (int64_t k = 0; k < send_counts[i]; ++k)
      block[k] = pattern(me, static_cast<Rank>(i), k, c.number);
  }
  CallArguments arguments;
  arguments.collective = Collective::kAlltoallv;
  arguments.in_place = c.in_place;
  arguments.send = c.in_place ? nullptr : send.data();
  arguments.recv = recv.data();
  arguments.send_counts = send_counts.data();
  arguments.send_displacements = send_places.data();
  arguments.recv_counts = recv_counts.data();
  arguments.recv_displacements = recv_places.data();
  arguments.options = {c.algorithm->name, c.pacing, c.pieces};
  Call call(group);
  if (!rank.good(call.prepare(arguments), c.name()) || !rank.good(call.start(), c.name()) ||
      !rank.good(call.wait(), c.name())) {
    return;
  }
  std::vector<std::byte> expected(recv_bytes, kPoison);
  for (size_t i = 0; i < ranks; ++i) {
    for (int64_t k = 0; k < recv_counts[i]; ++k) {
      expected[recv_places[i] + k] = pattern(static_cast<Rank>(i), me, k, c.number);
    }
  }
  for (size_t i = 0; i < recv_bytes; ++i) {
    if (recv.data()[i] != expected[i]) {
      rank.complain(fmt::format("{}: byte {} of the receive buffer is wrong", c.name(), i));
      return;
    }
  }
}

/// All algorithms, with every pacing they heed, at these sizes.
std::vector<Case> cases(const std::vector<size_t>& sizes, uint32_t number) {
  std::vector<Case> all;
  for (const Algorithm& algorithm : algorithms()) {
    const bool barrier = algorithm.collective == Collective::kBarrier;
    for (const Pacing pacing : {Pacing::kGateToken, Pacing::kFree, Pacing::kGate, Pacing::kToken}) {
      if (pacing != Pacing::kGateToken && !algorithm.paced) continue;
      for (const size_t bytes : barrier ? std::vector<size_t>{0} : sizes) {
        ++number;
        all.push_back({&algorithm, pacing, bytes, !barrier && number % 3 == 0, number % 2 == 0,
                       1 + number % 4, number});
      }
    }
  }
  return all;
}

void sweep(const JobOptions& job, const std::vector<size_t>& sizes, uint32_t first = 0) {
  const std::vector<Case> all = cases(sizes, first);
  const std::string complaints = run_job(job, [&](const RankView& rank) {
    for (const Case& c : all) {
      if (c.algorithm->collective == Collective::kAlltoallv) {
        run_unequal(rank, rank.context.world(), c);
      } else {
        run_equal(rank, rank.context.world(), c);
      }
      if (rank.context.executor().failed()) return;
    }
  });
  EXPECT_EQ(complaints, "") << job.shape.describe() << (job.threads ? ", threads" : ", processes")
                            << ", loopback seed " << job.context.loopback_seed;
}

Shape shape_of(std::vector<int> ranks_of_server, Placement placement = Placement::kBlock) {
  return Shape::from_layout(ranks_of_server, placement).value();
}

/// One server, one rank a server, equal and unequal servers, in all placements.
std::vector<Shape> shapes(int ranks) {
  std::vector<Shape> result{Shape::single_server(ranks)};
  if (ranks == 1) return result;
  result.push_back(shape_of(std::vector<int>(ranks, 1)));
  std::vector<std::vector<int>> layouts;
  if (ranks % 2 == 0) layouts.push_back(std::vector<int>(2, ranks / 2));
  if (ranks > 2) {
    std::vector<int> unequal;
    for (int left = ranks, next = (ranks + 1) / 2; left > 0; next = std::max(1, next * 2 / 3)) {
      unequal.push_back(std::min(next, left));
      left -= unequal.back();
    }
    layouts.push_back(unequal);
  }
  for (const auto& layout : layouts) {
    result.push_back(shape_of(layout));
    result.push_back(shape_of(layout, Placement::kCyclic));
    std::vector<int> server_of;
    for (size_t s = 0; s < layout.size(); ++s)
      server_of.insert(server_of.end(), layout[s], static_cast<int>(s));
    std::reverse(server_of.begin(), server_of.end());
    std::rotate(server_of.begin(), server_of.begin() + server_of.size() / 3, server_of.end());
    result.push_back(Shape::create(server_of).value());
  }
  return result;
}

TEST(ExecuteSweep, EveryAlgorithmOnSmallShapes) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const Shape& shape : shapes(ranks)) {
      JobOptions job;
      job.shape = shape;
      sweep(job, {0, 1, 7, 4096, 20000});
    }
  }
}

TEST(ExecuteSweep, ThreeOneTwo) {
  JobOptions job;
  job.shape = shape_of({3, 1, 2});
  sweep(job, {0, 1, 7, 4096, 1 << 20});
}

TEST(ExecuteSweep, ThreadsAsRanks) {
  for (const std::vector<int>& layout : {std::vector<int>{3, 1, 2}, {4}, {1, 1, 1}}) {
    JobOptions job;
    job.shape = shape_of(layout, Placement::kCyclic);
    job.threads = true;
    sweep(job, {0, 7, 4096, 20000});
  }
}

TEST(ExecuteSweep, AdversarialLoopback) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    JobOptions job;
    job.shape = shape_of(seed % 2 == 0 ? std::vector<int>{3, 1, 2} : std::vector<int>{2, 2},
                         Placement::kBlock);
    job.threads = seed > 4;
    job.context.loopback_seed = seed;
    sweep(job, {0, 7, 4096});
  }
}

TEST(ExecuteSweep, WithoutReadingPrivateMemory) {
  JobOptions job;
  job.shape = shape_of({3, 2});
  job.context.allow_process_vm = false;
  sweep(job, {0, 7, 20000, 300000});
}

/// Between emulated servers that each have an RDMA device; run by tests/softroce.
class ExecuteSweepVerbs : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef IBCOLL_HAVE_VERBS
    // Whole machines stall for longer than the default bears where a host is overloaded.
    setenv("IBCOLL_ACK_TIMEOUT", "18", 0);
    if (verbs::usable_ports({})) return;
#endif
    GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
  }
  /// `first`: number of the first case; memory alternates between private and shared from there.
  static void sweep_verbs(const Shape& shape, const std::vector<size_t>& sizes,
                          uint32_t first = 0) {
    JobOptions job;
    job.shape = shape;
    job.context.transport = "verbs";
    sweep(job, sizes, first);
  }
};

TEST_F(ExecuteSweepVerbs, FourServersOfTwo) {
  sweep_verbs(shape_of({2, 2, 2, 2}), {0, 1, 7, 4096, 20000});
}
TEST_F(ExecuteSweepVerbs, FourServersOfTwoDealtCyclically) {
  sweep_verbs(shape_of({2, 2, 2, 2}, Placement::kCyclic), {7, 20000});
}
TEST_F(ExecuteSweepVerbs, ThreeOneTwo) { sweep_verbs(shape_of({3, 1, 2}), {0, 7, 4096}); }
TEST_F(ExecuteSweepVerbs, ThreeOneTwoDealtCyclically) {
  sweep_verbs(shape_of({3, 1, 2}, Placement::kCyclic), {0, 7, 20000});
}

using ExecuteSweepVerbsFull = ExecuteSweepVerbs;
const std::vector<size_t> kEverySize = {0, 1, 8, 4096, 65536, 1 << 20, 4 << 20};

TEST_F(ExecuteSweepVerbsFull, FourServersOfTwo) { sweep_verbs(shape_of({2, 2, 2, 2}), kEverySize); }
// What runs in the user's memory above runs in the engine's own here, and the other way round.
TEST_F(ExecuteSweepVerbsFull, FourServersOfTwoDealtCyclically) {
  sweep_verbs(shape_of({2, 2, 2, 2}, Placement::kCyclic), kEverySize, 1);
}
TEST_F(ExecuteSweepVerbsFull, ThreeOneTwo) { sweep_verbs(shape_of({3, 1, 2}), kEverySize); }
TEST_F(ExecuteSweepVerbsFull, ThreeOneTwoDealtCyclically) {
  sweep_verbs(shape_of({3, 1, 2}, Placement::kCyclic), kEverySize, 1);
}

TEST(ExecuteSweepFull, EveryAlgorithmOnEveryShape) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 12, 16}) {
    for (const Shape& shape : shapes(ranks)) {
      JobOptions job;
      job.shape = shape;
      sweep(job, {0, 1, 7, 4096, ranks <= 8 ? 1u << 20 : 100'000u});
    }
  }
}

TEST(ExecuteSweepFull, AdversarialLoopbackManySeeds) {
  for (uint64_t seed = 100; seed < 160; ++seed) {
    const std::vector<Shape> all = shapes(2 + static_cast<int>(seed % 7));
    JobOptions job;
    job.shape = all[seed % all.size()];
    job.threads = seed % 3 == 0;
    job.context.loopback_seed = seed;
    sweep(job, {0, 7, 4096, 20000});
  }
}

}  // namespace
}  // namespace ibcoll
