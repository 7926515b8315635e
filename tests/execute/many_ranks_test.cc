// A server with as many ranks as the largest machines have cores, and one more rank elsewhere.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <numeric>
#include <vector>

#include "engine/bootstrap/launch.h"
#include "studies/measure/process_memory.h"
#include "tests/exchange.h"

namespace ibcoll {
namespace {

using testing::job_of;
using testing::JobOptions;
using testing::pattern;
using testing::RankView;
using testing::run_job;

constexpr int kLocal = 192;

/// Runs a call whose blocks hold what `pattern` says.
class Checked {
 public:
  Checked(const RankView& rank, Collective collective, size_t block)
      : rank_(rank),
        group_(rank.context.world()),
        ranks_(group_.size()),
        me_(group_.rank()),
        block_(block) {
    arguments_.collective = collective;
    arguments_.block_bytes = block;
  }
  bool alltoall() {
    send_.resize(ranks_ * block_);
    for (int peer = 0; peer < ranks_; ++peer) fill(peer * block_, me_, peer, block_);
    recv_.resize(ranks_ * block_);
    if (!run("alltoall")) return false;
    for (int peer = 0; peer < ranks_; ++peer) expect(peer * block_, peer, me_, block_);
    return true;
  }
  /// Rank a sends rank b (a + b) % 5 times 100 bytes.
  bool alltoallv(const char* algorithm) {
    const auto length = [](int a, int b) { return static_cast<int64_t>((a + b) % 5 * 100); };
    std::vector<int64_t> counts(ranks_), displacements(ranks_);
    for (int peer = 0; peer < ranks_; ++peer) counts[peer] = length(me_, peer);
    std::exclusive_scan(counts.begin(), counts.end(), displacements.begin(), int64_t{0});
    send_.resize(displacements.back() + counts.back());
    recv_.resize(send_.size());
    for (int peer = 0; peer < ranks_; ++peer) fill(displacements[peer], me_, peer, counts[peer]);
    arguments_.send_counts = arguments_.recv_counts = counts.data();
    arguments_.send_displacements = arguments_.recv_displacements = displacements.data();
    arguments_.options.algorithm = algorithm;
    if (!run("alltoallv")) return false;
    for (int peer = 0; peer < ranks_; ++peer) expect(displacements[peer], peer, me_, counts[peer]);
    return true;
  }
  bool allgather() {
    send_.resize(block_);
    fill(0, me_, 0, block_);
    recv_.resize(ranks_ * block_);
    if (!run("allgather")) return false;
    for (int peer = 0; peer < ranks_; ++peer) expect(peer * block_, peer, 0, block_);
    return true;
  }
  bool gather(Rank root) {
    arguments_.root = root;
    send_.resize(block_);
    fill(0, me_, root, block_);
    if (me_ == root) recv_.resize(ranks_ * block_);
    if (!run("gather")) return false;
    for (int peer = 0; me_ == root && peer < ranks_; ++peer)
      expect(peer * block_, peer, root, block_);
    return true;
  }
  bool bcast(Rank root) {
    arguments_.root = root;
    recv_.resize(block_);
    if (me_ == root) {
      send_ = recv_;
      fill(0, root, 0, block_);
      recv_ = send_;
    }
    if (!run("bcast")) return false;
    expect(0, root, 0, block_);
    return true;
  }

 private:
  void fill(size_t at, Rank origin, Rank target, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) send_[at + i] = pattern(origin, target, i, 7);
  }
  void expect(size_t at, Rank origin, Rank target, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      if (recv_[at + i] != pattern(origin, target, i, 7))
        return rank_.complain(fmt::format("wrong byte {} from {}", i, origin));
    }
  }
  bool run(const char* what) {
    arguments_.send = arguments_.collective == Collective::kBcast ? recv_.data() : send_.data();
    arguments_.recv = recv_.data();
    Call call(group_);
    return rank_.good(call.prepare(arguments_), what) && rank_.good(call.start(), what) &&
           rank_.good(call.wait(), what);
  }

  const RankView& rank_;
  Group& group_;
  int ranks_;
  Rank me_;
  size_t block_;
  CallArguments arguments_;
  std::vector<std::byte> send_, recv_;
};

bool reduce(const RankView& rank) {
  Group& group = rank.context.world();
  std::vector<int64_t> send(50), recv(50);
  std::iota(send.begin(), send.end(), group.rank());
  CallArguments arguments;
  arguments.collective = Collective::kReduce;
  arguments.send = send.data();
  arguments.recv = recv.data();
  arguments.block_bytes = send.size() * sizeof(int64_t);
  arguments.reduction = *find_reduction(ElementType::kInt64, Operator::kSum);
  Call call(group);
  if (!rank.good(call.prepare(arguments), "reduce") || !rank.good(call.start(), "reduce") ||
      !rank.good(call.wait(), "reduce"))
    return false;
  const int64_t ranks = group.size();
  for (size_t i = 0; group.rank() == 0 && i < recv.size(); ++i) {
    if (recv[i] != ranks * (ranks - 1) / 2 + ranks * static_cast<int64_t>(i))
      rank.complain("wrong sum");
  }
  return true;
}

TEST(ManyRanks, OfOneServerExchangeAllKindsOfData) {
  JobOptions job = job_of({kLocal, 1});
  job.context.deadline_ns = 120'000'000'000;
  EXPECT_EQ(run_job(job,
                    [](const RankView& rank) {
                      if (!Checked(rank, Collective::kAlltoallv, 0).alltoallv("linear")) return;
                      if (!Checked(rank, Collective::kAlltoallv, 0).alltoallv("aggregate")) return;
                      if (!Checked(rank, Collective::kAlltoall, 40).alltoall()) return;
                      if (!Checked(rank, Collective::kAlltoall, 5000).alltoall()) return;
                      if (!Checked(rank, Collective::kAllgather, 300).allgather()) return;
                      if (!Checked(rank, Collective::kGather, 3000).gather(3)) return;
                      if (!Checked(rank, Collective::kBcast, 70000).bcast(kLocal)) return;
                      reduce(rank);
                    }),
            "");
}

TEST(ManyRanks, TakeAMegabyteEachBeforeTheFirstCall) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes memory of its own";
#endif
  const std::vector<int> layout{kLocal, 1};
  const Shape shape = Shape::from_layout(layout, Placement::kBlock).value();
  testing::Complaints complaints(shape.ranks());
  LaunchOptions launch;
  launch.ranks = shape.ranks();
  const Result<int> status = launch_processes(launch, [&](Bootstrap& bootstrap) {
    ContextOptions options;
    options.shape = shape;
    (void)bootstrap.barrier();
    const int64_t before = proportional_bytes();
    (void)bootstrap.barrier();
    auto context = Context::create(bootstrap, options);
    if (!context) {
      complaints.add(bootstrap.rank(), context.error().message);
      return 1;
    }
    const int64_t after = proportional_bytes();
    (void)bootstrap.barrier();
    if (after > before + (int64_t{1} << 20))
      complaints.add(bootstrap.rank(), fmt::format("{} bytes more than before", after - before));
    (void)(*context)->close();
    return 0;
  });
  ASSERT_TRUE(status);
  EXPECT_EQ(complaints.all(), "");
}

}  // namespace
}  // namespace ibcoll
