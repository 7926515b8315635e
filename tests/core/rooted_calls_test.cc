// Gather, scatter, bcast and reduce as users call them: what is refused, who disagrees, and that a
// reduction in order does not depend on the layout. That they move the right bytes: execute_sweep.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <ibcoll/ibcoll.hpp>
#include <utility>

#include "engine/core/exchange_counts.h"
#include "tests/algorithm_lists.h"
#include "tests/disagreements.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using ::testing::HasSubstr;
using testing::job_of;
using testing::JobOptions;
using testing::make;
using testing::RankView;

CallArguments arguments_of(Collective collective, Rank root, const void* send, void* recv,
                           size_t block_bytes) {
  CallArguments arguments;
  arguments.collective = collective;
  arguments.root = root;
  arguments.send = send;
  arguments.recv = recv;
  arguments.block_bytes = block_bytes;
  return arguments;
}

/// The sum of numbers of very different size, which depends on the order it is made in.
std::vector<double> ordered_sums(const JobOptions& job, std::string_view algorithm, Rank root) {
  constexpr size_t kCount = 1000;
  auto* shared = static_cast<double*>(mmap(nullptr, kCount * sizeof(double), PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  EXPECT_EQ(run_job(job,
                    [&](const RankView& rank) {
                      std::vector<double> mine(kCount), sums(kCount);
                      for (size_t i = 0; i < kCount; ++i) {
                        mine[i] = 1.0 / static_cast<double>(3 + i + 17 * rank.context.rank()) *
                                  (rank.context.rank() % 3 == 0 ? 1e9 : 1);
                      }
                      CallArguments arguments = arguments_of(Collective::kReduce, root, mine.data(),
                                                             sums.data(), kCount * sizeof(double));
                      arguments.reduction =
                          find_reduction(ElementType::kDouble, Operator::kSum).value();
                      arguments.options.algorithm = algorithm;
                      arguments.options.ordered = true;
                      arguments.options.pieces = 3;
                      if (!rank.good(make(rank.context.world(), arguments), "reduce")) return;
                      if (rank.context.rank() == root)
                        std::memcpy(shared, sums.data(), kCount * sizeof(double));
                    }),
            "");
  std::vector<double> result(shared, shared + kCount);
  munmap(shared, kCount * sizeof(double));
  return result;
}

TEST(RootedCalls, OrderedReductionsHaveTheSameBitsWhateverTheLayout) {
  const auto expected = ordered_sums(job_of({7}), "linear", 0);
  int compared = 0;
  for (const Algorithm* const algorithm : testing::algorithms_of(Collective::kReduce)) {
    for (const auto& [job, root] :
         {std::pair(job_of({3, 1, 2, 1}), 5), {job_of({2, 3, 2}, Placement::kCyclic), 6}}) {
      if (!algorithm->keeps_order(job.shape)) continue;
      EXPECT_EQ(ordered_sums(job, algorithm->name, root), expected)
          << algorithm->name << " on " << job.shape.describe();
      ++compared;
    }
  }
  EXPECT_GT(compared, 2);
}

TEST(RootedCalls, BadArgumentsAreRefusedBeforeAnythingIsSent) {
  EXPECT_EQ(run_job(job_of({2, 1}),
                    [](const RankView& rank) {
                      Group& group = rank.context.world();
                      const Rank me = rank.context.rank();
                      std::vector<std::byte> send(300), recv(300);
                      const auto refused = [&](const CallArguments& arguments, const char* why) {
                        const Status status = Call(group).prepare(arguments);
                        if (status || status.error().message.find(why) == std::string::npos) {
                          rank.complain(fmt::format("not '{}' but '{}'", why,
                                                    status ? "" : status.error().message));
                        }
                      };
                      auto a = arguments_of(Collective::kGather, 3, send.data(), recv.data(), 10);
                      refused(a, "root 3: the group's ranks are 0 to 2");
                      a.root = -1;
                      refused(a, "root -1");
                      a.root = me;
                      a.recv_limit = 29;
                      refused(a,
                              "the receive buffer is too small: it has 29 bytes, the call uses 30");
                      a.recv = nullptr;
                      refused(a, "the receive buffer is null");
                      a = arguments_of(Collective::kScatter, me, send.data(), recv.data(), 10);
                      a.send_limit = 29;
                      refused(a, "the send buffer is too small");
                      a = arguments_of(Collective::kReduce, (me + 1) % 3, nullptr, recv.data(), 8);
                      a.in_place = true;
                      refused(a, "only the root of a reduce");
                      a = arguments_of(Collective::kBcast, me, send.data(), send.data(), 8);
                      a.in_place = true;
                      refused(a, "one buffer");
                      a = arguments_of(Collective::kGatherv, me, send.data(), recv.data(), 0);
                      refused(a, "the receive counts or displacements are null");
                      a.root = (me + 1) % 3;
                      a.own_count = -1;
                      refused(a, "the send count -1");
                      a = arguments_of(Collective::kGather, me, send.data(), send.data() + 5, 10);
                      refused(a, "overlap");
                      // Nothing was sent: the next call works. Others need no receive buffer.
                      a = arguments_of(Collective::kGather, 1, send.data(),
                                       me == 1 ? recv.data() : nullptr, 10);
                      rank.good(make(group, a), "gather");
                    }),
            "");
}

/// Every rank must get an error of that kind.
void expect_mismatch(const JobOptions& job, const std::function<Status(const RankView&)>& body) {
  Complaints errors(job.shape.ranks());
  int status = 0;
  const std::string other = run_job(
      job,
      [&](const RankView& rank) {
        if (const Status result = body(rank); !result) {
          errors.add(
              rank.context.rank(),
              fmt::format("{}|{}", static_cast<int>(result.error().code), result.error().message));
        }
      },
      &status);
  for (Rank rank = 0; rank < job.shape.ranks(); ++rank) {
    EXPECT_EQ(errors.of(rank).substr(0, 2), "2|")
        << "rank " << rank << ": " << errors.of(rank) << other << status;
  }
}

TEST(RootedCalls, RanksThatDisagreeGetAnError) {
  // On the root: one takes itself for it, or each takes another. Everybody goes on to a barrier,
  // since a rank may be done with its part before it can know.
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}, {2, 1}}) {
    for (const std::array<Rank, 3>& roots : {std::array<Rank, 3>{0, 0, 2}, {1, 2, 0}}) {
      for (const Collective collective : {Collective::kGather, Collective::kBcast}) {
        expect_mismatch(job_of(layout), [&](const RankView& rank) -> Status {
          std::vector<std::byte> send(400'000), recv(1'200'000);
          const bool one_buffer = collective == Collective::kBcast;
          IBCOLL_TRY(make(rank.context.world(), arguments_of(collective, roots[rank.context.rank()],
                                                             one_buffer ? recv.data() : send.data(),
                                                             recv.data(), send.size())));
          return make(rank.context.world(),
                      arguments_of(Collective::kBarrier, 0, nullptr, nullptr, 0));
        });
      }
    }
  }
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}, {2, 1}}) {
    // On a count.
    expect_mismatch(job_of(layout), [](const RankView& rank) -> Status {
      std::vector<std::byte> send(4000), recv(12000);
      const std::array<int64_t, 3> counts = {100, 200, 3000}, places = {0, 300, 600};
      CallArguments arguments = arguments_of(Collective::kGatherv, 0, send.data(), recv.data(), 0);
      arguments.own_count = counts[rank.context.rank()] + (rank.context.rank() == 1 ? 1 : 0);
      arguments.recv_counts = counts.data();
      arguments.recv_displacements = places.data();
      IBCOLL_TRY(make(rank.context.world(), arguments));
      return make(rank.context.world(), arguments_of(Collective::kBarrier, 0, nullptr, nullptr, 0));
    });
    // On the operator.
    expect_mismatch(job_of(layout), [](const RankView& rank) -> Status {
      std::vector<double> send(10), recv(10);
      CallArguments arguments = arguments_of(Collective::kReduce, 0, send.data(), recv.data(), 80);
      arguments.reduction =
          find_reduction(ElementType::kDouble,
                         rank.context.rank() == 1 ? Operator::kMax : Operator::kSum)
              .value();
      IBCOLL_TRY(make(rank.context.world(), arguments));
      return make(rank.context.world(), arguments_of(Collective::kBarrier, 0, nullptr, nullptr, 0));
    });
  }
}

/// On the size of a broadcast, also where it is small enough to travel with its head.
TEST(RootedCalls, RanksThatDisagreeOnASizeGetAnError) {
  struct Wrong {
    Rank rank;
    size_t bytes;
  };
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}}) {
    for (const Wrong wrong : {Wrong{0, 8}, Wrong{2, 0}, Wrong{2, 2000}}) {
      SCOPED_TRACE(fmt::format("{} bytes on rank {}", wrong.bytes, wrong.rank));
      expect_mismatch(job_of(layout), [&](const RankView& rank) -> Status {
        std::vector<std::byte> data(2000);
        const size_t bytes = rank.context.rank() == wrong.rank ? wrong.bytes : 16;
        IBCOLL_TRY(make(rank.context.world(),
                        arguments_of(Collective::kBcast, 0, data.data(), data.data(), bytes)));
        return make(rank.context.world(),
                    arguments_of(Collective::kBarrier, 0, nullptr, nullptr, 0));
      });
    }
  }
}

TEST(RootedCalls, CountsThatOnlyTheRootOrOnlyTheOthersKnowAreFilledIn) {
  EXPECT_EQ(run_job(job_of({2, 2}),
                    [](const RankView& rank) {
                      const Rank me = rank.context.rank();
                      // The root knows those of ranks 0 and 1, the others theirs.
                      int64_t own = me < 2 ? -1 : 10 * me;
                      std::vector<int64_t> counts = {0, 10, -1, -1};
                      if (!rank.good(exchange_root_counts(rank.context.world(), &own,
                                                          me == 3 ? counts.data() : nullptr, 3),
                                     "exchange"))
                        return;
                      if (own != 10 * me) rank.complain("wrong own count");
                      if (me == 3 && counts != std::vector<int64_t>{0, 10, 20, 30})
                        rank.complain("wrong counts");
                    }),
            "");
}

TEST(RootedCalls, ManyInFlightWithDifferentRoots) {
  EXPECT_EQ(run_job(job_of({2, 1, 2}),
                    [](const RankView& rank) {
                      const Rank me = rank.context.rank();
                      struct Flight {
                        std::vector<uint64_t> send, recv;
                        std::unique_ptr<Call> call;
                        Rank root;
                      };
                      std::vector<Flight> flights(30);
                      for (uint64_t i = 0; i < flights.size(); ++i) {
                        Flight& flight = flights[i];
                        flight.root = static_cast<Rank>(i % 5);
                        flight.send.assign(100 * (i % 7 + 1), i * 100 + me);
                        flight.recv.assign(5 * flight.send.size(), 0);
                        flight.call = std::make_unique<Call>(rank.context.world());
                        const auto arguments =
                            arguments_of(Collective::kGather, flight.root, flight.send.data(),
                                         flight.recv.data(), flight.send.size() * sizeof(uint64_t));
                        if (!rank.good(flight.call->prepare(arguments), "prepare") ||
                            !rank.good(flight.call->start(), "start"))
                          return;
                      }
                      for (size_t n = 0; n < flights.size(); ++n) {
                        const size_t i = (n * 7 + static_cast<size_t>(me)) % flights.size();
                        Flight& flight = flights[i];
                        if (!rank.good(flight.call->wait(), "wait")) return;
                        for (size_t k = 0; flight.root == me && k < flight.recv.size(); ++k) {
                          if (flight.recv[k] != i * 100 + k / flight.send.size())
                            rank.complain("wrong data");
                        }
                      }
                    }),
            "");
}

TEST(RootedCalls, TheCppInterfaceHasThem) {
  const int status = launch(
      5,
      [](context& c) {
        const group world = c.world();
        const int me = world.rank(), root = 3;
        std::vector<int> mine(10, me), all(me == root ? 50 : 0), back(10);
        world.gather<int>(mine, all, root);
        world.scatter<int>(all, back, root, {.algorithm = "binomial"});
        if (back != mine) return 1;
        std::vector<float> sum(me == root ? 10 : 0), ones(10, 1.5f);
        world.reduce<float>(ones, sum, IBCOLL_SUM, root, {.ordered = true});
        if (me == root && sum != std::vector<float>(10, 7.5f)) return 2;
        std::vector<int> news(1000, me == root ? 42 : 0);
        world.ibcast<int>(news, root).wait();
        if (news != std::vector<int>(1000, 42)) return 3;
        // Rank r sends r + 1 elements; they lie side by side.
        std::vector<int> part(me + 1, me), joined(15);
        int64_t own = static_cast<int64_t>(part.size() * sizeof(int));
        std::vector<int64_t> counts(5, IBCOLL_UNKNOWN), places(5);
        world.exchange_root_counts(own, counts, root);
        world.bcast<int64_t>(counts, root);
        for (int i = 1; i < 5; ++i) places[i] = places[i - 1] + counts[i - 1];
        world.gatherv<int>(part, joined, {counts, places}, root);
        std::vector<int> everywhere(15);
        world.allgatherv<int>(part, everywhere, {counts, places});
        if (me == root && everywhere != joined) return 4;
        std::vector<int> again(part.size());
        world.scatterv<int>(joined, {counts, places}, again, root);
        if (again != part || everywhere[14] != 4) return 5;
        const layout all_parts{counts, places};
        std::fill(joined.begin(), joined.end(), -1);
        std::fill(everywhere.begin(), everywhere.end(), -1);
        std::fill(again.begin(), again.end(), -1);
        world.igatherv<int>(part, joined, all_parts, root).wait();
        world.iscatterv<int>(joined, all_parts, again, root).wait();
        world.iallgatherv<int>(part, everywhere, all_parts).wait();
        return again == part && everywhere[14] == 4 ? 0 : 6;
      },
      "2,1,2");
  EXPECT_EQ(status, 0);
}

TEST(RootedCalls, TheCppInterfaceHasThemPersistent) {
  const int status = launch(
      4,
      [](context& c) {
        const group world = c.world();
        const int me = world.rank(), root = 2;
        const std::vector<int64_t> counts(4, 3 * sizeof(int)), places = {0, 12, 24, 36};
        const layout blocks{counts, places};
        std::vector<int> mine(3), there(3), all(12), news(3), sum(3), wide(12), crossed(12);
        request calls[] = {
            world.gather_init<int>(mine, all, root),
            world.scatter_init<int>(all, there, root),
            world.gatherv_init<int>(mine, all, blocks, root),
            world.scatterv_init<int>(all, blocks, there, root),
            world.bcast_init<int>(news, root),
            world.reduce_init<int>(mine, sum, IBCOLL_SUM, root),
            world.allgather_init<int>(mine, wide),
            world.allgatherv_init<int>(mine, wide, blocks),
            world.alltoallv_init<int>(wide, blocks, crossed, blocks),
            world.barrier_init(),
        };
        for (int round = 1; round <= 3; ++round) {
          std::fill(mine.begin(), mine.end(), 10 * round + me);
          std::fill(there.begin(), there.end(), 0);
          if (me == root) std::fill(news.begin(), news.end(), round);
          for (request& call : calls) {
            call.start();
            call.wait();
          }
          if (there != mine) return 1;
          if (news != std::vector<int>(3, round)) return 2;
          if (me == root && sum != std::vector<int>(3, 40 * round + 6)) return 3;
          if (wide[11] != 10 * round + 3 || crossed[0] != 10 * round + me) return 4;
        }
        return 0;
      },
      "2,2");
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ibcoll
