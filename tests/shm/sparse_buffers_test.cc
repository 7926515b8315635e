// Blocks that lie anywhere, with memory between them that is not there.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <vector>

#include "tests/algorithm_lists.h"
#include "tests/exchange.h"

namespace ibcoll {
namespace {

using testing::job_of;
using testing::JobOptions;
using testing::pattern;
using testing::RankView;
using testing::run_job;
using testing::unplanned_algorithms_of;

/// Address space of which every other megabyte can't be touched.
class Holes {
 public:
  static constexpr size_t kMegabyte = size_t{1} << 20;
  explicit Holes(size_t megabytes) : bytes_(megabytes * kMegabyte) {
    data_ = static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (size_t i = 1; i < megabytes; i += 2) mprotect(data_ + i * kMegabyte, kMegabyte, PROT_NONE);
  }
  ~Holes() { munmap(data_, bytes_); }
  Holes(const Holes&) = delete;
  Holes& operator=(const Holes&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  size_t bytes_;
};

/// Blocks of 0, 1000 or 100 000 bytes, each at the beginning of a megabyte of its own; those of no
/// bytes where nothing is.
void exchange(const RankView& rank, const char* algorithm) {
  Group& group = rank.context.world();
  const auto ranks = static_cast<size_t>(group.size());
  const Rank me = group.rank();
  const auto length = [](Rank from, Rank to) {
    return std::array<int64_t, 3>{0, 1000, 100'000}[static_cast<size_t>(from + 2 * to) % 3];
  };
  const Holes send(2 * ranks), recv(2 * ranks);
  std::vector<int64_t> send_counts(ranks), recv_counts(ranks), send_at(ranks), recv_at(ranks);
  for (size_t i = 0; i < ranks; ++i) {
    const auto peer = static_cast<Rank>(i);
    send_counts[i] = length(me, peer);
    recv_counts[i] = length(peer, me);
    const auto place = static_cast<int64_t>(2 * i * Holes::kMegabyte);
    send_at[i] = send_counts[i] != 0 ? place : int64_t{1} << 45;
    recv_at[i] = recv_counts[i] != 0 ? place : int64_t{1} << 45;
    for (int64_t j = 0; j < send_counts[i]; ++j)
      send.data()[place + j] = pattern(me, peer, static_cast<size_t>(j), 1);
  }
  CallArguments arguments;
  arguments.collective = Collective::kAlltoallv;
  arguments.send = send.data();
  arguments.recv = recv.data();
  arguments.send_counts = send_counts.data();
  arguments.send_displacements = send_at.data();
  arguments.recv_counts = recv_counts.data();
  arguments.recv_displacements = recv_at.data();
  arguments.options.algorithm = algorithm;
  Call call(group);
  if (!rank.good(call.prepare(arguments), "prepare") || !rank.good(call.start(), "start") ||
      !rank.good(call.wait(), "wait"))
    return;
  for (size_t i = 0; i < ranks; ++i) {
    for (int64_t j = 0; j < recv_counts[i]; ++j) {
      if (recv.data()[recv_at[i] + j] !=
          pattern(static_cast<Rank>(i), me, static_cast<size_t>(j), 1))
        return rank.complain(fmt::format("wrong byte {} from rank {}", j, i));
    }
  }
}

void exchange_by_every_algorithm(JobOptions job) {
  for (const Algorithm* const algorithm : unplanned_algorithms_of(Collective::kAlltoallv)) {
    SCOPED_TRACE(algorithm->name);
    EXPECT_EQ(run_job(job, [&](const RankView& rank) { exchange(rank, algorithm->name.data()); }),
              "");
  }
}

/// No bytes at all, far away from buffers that are null.
void exchange_nothing(const RankView& rank) {
  const std::vector<int64_t> none(3, 0), far(3, int64_t{1} << 30);
  CallArguments arguments;
  arguments.collective = Collective::kAlltoallv;
  arguments.send_counts = arguments.recv_counts = none.data();
  arguments.send_displacements = arguments.recv_displacements = far.data();
  Call call(rank.context.world());
  (void)(rank.good(call.prepare(arguments), "prepare") && rank.good(call.start(), "start") &&
         rank.good(call.wait(), "wait"));
}

TEST(SparseBuffers, AreExchangedByEveryAlgorithm) {
  for (const std::vector<int>& layout : {std::vector<int>{1, 1}, {2, 1, 2}, {3}})
    exchange_by_every_algorithm(job_of(layout));
}

TEST(SparseBuffers, MayBeNullWhereNothingIsExchanged) {
  for (const std::vector<int>& layout : {std::vector<int>{1, 1}, {2, 1}})
    EXPECT_EQ(run_job(job_of(layout), exchange_nothing), "");
}

/// A device, unlike the software network, refuses memory that is not there.
TEST(VerbsSparseBuffers, AreRegisteredWhereTheyAreUsed) {
  if (!usable_network_port("verbs"))
    GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
  JobOptions job = job_of({2, 1, 2});
  job.context.transport = "verbs";
  exchange_by_every_algorithm(job);
  job = job_of({2, 1});
  job.context.transport = "verbs";
  EXPECT_EQ(run_job(job, exchange_nothing), "");
}

}  // namespace
}  // namespace ibcoll
