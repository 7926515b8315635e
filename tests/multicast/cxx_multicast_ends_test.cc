// The C++ interface of multicasts: requests that end early, and those that can't begin.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/cxx_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::expect;
using testing::launched;
using testing::on_four_ranks;
using testing::SharedFlags;
using testing::Thrown;
using testing::thrown_by;
using namespace std::chrono_literals;

/// Rank 0 sends to ranks 1 and 2, and rank 2 takes nothing before flag 0 is raised.
std::string with_one_that_is_late(const char* layout,
                                  const std::function<void(const context&, SharedFlags&)>& master,
                                  int messages) {
  SharedFlags& flags = SharedFlags::create();
  return launched(layout, 3, [&](const ApiRank& rank) {
    try {
      const context here(rank.context);
      if (here.rank() == 0) {
        master(here, flags);
      } else {
        if (here.rank() == 2) flags.await(0, 1);
        for (int i = 0; i < messages; ++i)
          expect(here.receive().as<int>()[0] == i, "another number");
      }
    } catch (const std::exception& e) {
      rank.complain(e.what());
      ibcoll_abort(rank.context, e.what());
      flags.raise(0);
    }
  });
}

bool is_missing(const request& sent, int rank) {
  return std::ranges::find(sent.missing(), rank) != sent.missing().end();
}

/// The request alone is over, and says who may lack the message; the members get it all the same,
/// and what is sent later.
TEST(MulticastEndsInCxx, EndAlone) {
  for (const char* layout : {"3", "1,1,1"}) {
    EXPECT_EQ(with_one_that_is_late(
                  layout,
                  [](const context& rank, SharedFlags& flags) {
                    const std::vector<int> numbers{0, 1, 2};
                    const std::span<const int> all(numbers);
                    const rank_set to{1, 2};
                    request late = rank.multicast<int>(to, all.subspan(0, 1),
                                                       {.acknowledged = true, .deadline = 100ms});
                    Thrown thrown = thrown_by([&] { late.wait(); });
                    expect(thrown.status == IBCOLL_ERR_DEADLINE, "deadline: " + thrown.text);
                    expect(thrown.scope == IBCOLL_SCOPE_CALL, "another scope");
                    expect(is_missing(late, 2), "rank 2 is not missing");
                    late.wait();  // is none any more
                    request cancelled =
                        rank.multicast<int>(to, all.subspan(1, 1), {.acknowledged = true});
                    cancelled.cancel();
                    thrown = thrown_by([&] { cancelled.wait(); });
                    expect(thrown.status == IBCOLL_ERR_CANCELLED, "cancelled: " + thrown.text);
                    expect(thrown.scope == IBCOLL_SCOPE_CALL, "another scope");
                    const request moved = std::move(cancelled);
                    expect(is_missing(moved, 2), "rank 2 is not missing");
                    flags.raise(0);
                    request last =
                        rank.multicast<int>(to, all.subspan(2, 1), {.acknowledged = true});
                    last.wait();
                    expect(last.missing().empty(), "somebody lacks it");
                  },
                  3),
              "");
  }
}

/// A thread that waits comes back when another one cancels.
TEST(MulticastEndsInCxx, ThatAreCancelledEndTheWaitOfAnotherThread) {
  for (const char* layout : {"3", "1,1,1"}) {
    EXPECT_EQ(with_one_that_is_late(
                  layout,
                  [](const context& rank, SharedFlags& flags) {
                    rank.set_thread_level(IBCOLL_THREAD_MULTIPLE);
                    const std::vector<int> number(1, 0);
                    request sent = rank.multicast<int>({1, 2}, number, {.acknowledged = true});
                    Thrown thrown;
                    std::thread waiting([&] {
                      flags.raise(1);
                      thrown = thrown_by([&] { sent.wait(); });
                    });
                    flags.await(1, 1);
                    std::this_thread::sleep_for(10ms);  // it waits now, if it is not slow
                    const Thrown refused = thrown_by([&] { sent.cancel(); });
                    if (!refused.text.empty()) flags.raise(0);  // else it would wait for ever
                    waiting.join();
                    expect(refused.text.empty(), refused.text);
                    expect(thrown.status == IBCOLL_ERR_CANCELLED, "not cancelled: " + thrown.text);
                    expect(is_missing(sent, 2), "rank 2 is not missing");
                    flags.raise(0);
                  },
                  1),
              "");
  }
}

/// Longer than all messages of a rank may be together: that is over, and nothing else.
TEST(MulticastEndsInCxx, ThatHaveNoMemoryAreOverAlone) {
  setenv("IBCOLL_MULTICAST_MEMORY", "64K", 1);
  const std::string complaints = on_four_ranks([](const context& rank) {
    const std::vector<int> numbers(20000, 5);
    const std::span<const int> all(numbers);
    const rank_set to{0, 1, 3};
    if (rank.rank() == 2) {
      const Thrown thrown =
          thrown_by([&] { rank.multicast<int>(to, all, {.acknowledged = true}).wait(); });
      expect(thrown.status == IBCOLL_ERR_NO_MEMORY, "another error: " + thrown.text);
      expect(thrown.scope == IBCOLL_SCOPE_CALL, "another scope");
      rank.multicast<int>(to, all.first(10000), {.tag = 1, .acknowledged = true}).wait();
    } else {
      const message came = rank.receive();
      expect(came.tag() == 1 && std::ranges::equal(came.as<int>(), all.first(10000)), "other data");
    }
    rank.world().barrier();
  });
  unsetenv("IBCOLL_MULTICAST_MEMORY");
  EXPECT_EQ(complaints, "");
}

TEST(MulticastEndsInCxx, AreBusyAtTheWindow) {
  setenv("IBCOLL_MULTICAST_WINDOW", "2", 1);
  const std::string complaints = with_one_that_is_late(
      "2,1",
      [](const context& rank, SharedFlags& flags) {
        const std::vector<int> numbers{0, 1, 2};
        const std::span<const int> all(numbers);
        const rank_set to{1, 2};
        std::vector<request> sent;
        for (size_t i = 0; i < 2; ++i)
          sent.push_back(rank.multicast<int>(to, all.subspan(i, 1), {.acknowledged = true}));
        const Thrown thrown = thrown_by([&] { rank.multicast<int>(to, all.subspan(2, 1)).wait(); });
        expect(thrown.status == IBCOLL_ERR_BUSY, "not busy: " + thrown.text);
        expect(thrown.scope == IBCOLL_SCOPE_CALL, "another scope");
        expect(!rank.try_multicast<int>(to, all.subspan(2, 1)), "sent although it is busy");
        flags.raise(0);
        std::optional<request> last;
        while (!(last = rank.try_multicast<int>(to, all.subspan(2, 1), {.acknowledged = true})))
          rank.progress();
        for (request& one : sent) one.wait();
        last->wait();
      },
      3);
  unsetenv("IBCOLL_MULTICAST_WINDOW");
  EXPECT_EQ(complaints, "");
}

}  // namespace
}  // namespace ibcoll
