// Private memory that runs out on one rank, at each request of its own that a call makes: never a
// crash, and one error on all ranks.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <numeric>
#include <vector>

#include "engine/multicast/pool.h"
#include "tests/api_job.h"

namespace {

/// Requests of this thread until one is refused; 0: none is.
thread_local int requests_left = 0;
thread_local bool refused = false;

void* request(size_t bytes) {
  if (requests_left > 0 && --requests_left == 0) {
    refused = true;
    throw std::bad_alloc();
  }
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return request(bytes); }
// A sanitizer's would be another allocator's.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return request(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::launched;

constexpr int kRanks = 2;

/// Makes a call whose `number`-th request on rank 1 is refused. Each rank says how it ended; rank 1
/// adds "!" if there was such a request.
std::string ends(const char* layout, int number,
                 const std::function<ibcoll_call(const ApiRank&)>& call_of) {
  int status = 0;
  return launched(
      layout, kRanks,
      [&](const ApiRank& rank) {
        const ibcoll_call call = call_of(rank);
        if (ibcoll_rank(rank.context) == 1) requests_left = number;
        ibcoll_request* request = nullptr;
        ibcoll_status ended = ibcoll_call_init(ibcoll_world(rank.context), &call, &request);
        if (ended == IBCOLL_OK) ended = ibcoll_start(request);
        if (ended == IBCOLL_OK) ended = ibcoll_wait(request);
        requests_left = 0;
        // One that has all it needs already learns of it now.
        if (ended == IBCOLL_OK) ended = ibcoll_barrier(ibcoll_world(rank.context), nullptr);
        rank.complain(fmt::format("status {}{}", static_cast<int>(ended), refused ? "!" : ""));
        if (request != nullptr) ibcoll_call_free(request);
      },
      &status);
}

/// Refuses each request in turn, until there are no more. What some are for can be done without.
void refuse_each(const std::function<ibcoll_call(const ApiRank&)>& call_of) {
  for (const char* const layout : {"2", "1,1"}) {
    const auto all = [](int status, const char* mark) {
      return fmt::format("rank 0: status {0}\nrank 1: status {0}{1}\n", status, mark);
    };
    int errors = 0;
    for (int number = 1;; ++number) {
      SCOPED_TRACE(fmt::format("layout {}, request {}", layout, number));
      const std::string ended = ends(layout, number, call_of);
      if (ended == all(IBCOLL_OK, "")) break;
      if (ended == all(IBCOLL_OK, "!")) continue;
      ASSERT_EQ(ended, all(IBCOLL_ERR_NO_MEMORY, "!"));
      ++errors;
    }
    EXPECT_GT(errors, 0) << "the call asks for no memory";
  }
}

TEST(NoMemory, IsAnErrorOfAllRanksInACallOfBlocks) {
  static std::vector<char> send(256), recv(256);
  static std::vector<ibcoll_block> blocks;
  blocks.clear();
  for (int i = 0; i < kRanks; ++i) blocks.push_back(ibcoll_block_vector(i * 64, 8, 3, 16));
  refuse_each([](const ApiRank&) {
    return ibcoll_call_alltoallw(send.data(), blocks.data(), recv.data(), blocks.data(), nullptr);
  });
}

TEST(NoMemory, IsAnErrorOfAllRanksInAReduction) {
  static std::vector<double> send(64), recv(64);
  refuse_each([](const ApiRank&) {
    return ibcoll_call_allreduce(send.data(), recv.data(), send.size(), IBCOLL_DOUBLE, IBCOLL_SUM,
                                 nullptr);
  });
}

/// It is given back where nothing may be thrown.
TEST(NoMemory, IsNeededToGiveScratchMemoryBack) {
  const std::string complaints =
      testing::run_job(testing::job_of({1}), [](const testing::RankView& rank) {
        ScratchPool& pool = rank.context.world().services().scratch;
        std::vector<std::byte*> pieces;
        for (size_t i = 0; i < ScratchPool::kKeptPieces + 8; ++i) {
          const auto piece = pool.take(5000);
          if (!rank.good(piece, "piece")) return;
          pieces.push_back(*piece);
        }
        requests_left = 1;
        for (std::byte* const piece : pieces) pool.put(piece);
        if (requests_left == 0) rank.complain("memory was asked for");
        requests_left = 0;
      });
  EXPECT_EQ(complaints, "");
}

/// A buffer that there is no memory to note among those that are kept is none of them.
TEST(NoMemory, BuffersOfMulticastsAreNotLost) {
  constexpr size_t kBytes = 1000, kLimit = 1 << 20;
  for (int number = 1; number < 10; ++number) {
    size_t taken = 0;
    const auto use = [](MulticastPool& pool) {
      const auto buffer = pool.take(3, kBytes);
      ASSERT_TRUE(buffer && *buffer);
      pool.give_back(3, **buffer, kBytes);
    };
    {
      MulticastPool pool(
          kLimit,
          [&](size_t bytes) -> Result<std::byte*> {
            taken += bytes;
            return static_cast<std::byte*>(std::aligned_alloc(64, bytes));
          },
          [&](std::byte* memory, size_t bytes) {
            taken -= bytes;
            std::free(memory);
          });
      requests_left = number;
      try {
        use(pool);
      } catch (const std::bad_alloc&) {
      }
      requests_left = 0;
      EXPECT_EQ(pool.used(), 0u);
      EXPECT_EQ(taken, pool.kept()) << number;
      use(pool);
    }
    EXPECT_EQ(taken, 0u) << number;
  }
}

}  // namespace
}  // namespace ibcoll
