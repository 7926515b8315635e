// The limits of multicasts: how many may be under way, how much memory messages take, deadlines,
// and that nothing is left behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "tests/multicast_job.h"
#include "tests/named.h"

namespace ibcoll {
namespace {

using testing::acknowledged;
using testing::ApiRank;
using testing::expect;
using testing::expect_number;
using testing::kKb;
using testing::Letter;
using testing::meet;
using testing::multicast_counters;
using testing::MulticastWay;
using testing::progress_until;
using testing::receive;
using testing::SentLetter;
using testing::SharedFlags;
using testing::ThreadsOf;

class MulticastLimits : public testing::OnMulticastWays {};

/// Sends letters until no more may be, since that rank is late with as much as is allowed.
/// `fewest`: before that many have been sent it may be late for a moment.
bool send_until_late(const ApiRank& rank, int late, std::vector<std::unique_ptr<SentLetter>>& sent,
                     const std::function<Letter(uint64_t)>& letter, size_t fewest = 0) {
  const std::string name = fmt::format("rank {} is late", late);
  while (true) {
    auto next = std::make_unique<SentLetter>(rank, letter(sent.size()));
    ibcoll_status status = next->start(acknowledged());
    if (status == IBCOLL_OK) {
      sent.push_back(std::move(next));
      continue;
    }
    const std::string line = ibcoll_last_error();
    if (status != IBCOLL_ERR_BUSY) return rank.good(status, "send");
    if (line.find(name) != std::string::npos && sent.size() >= fewest) return true;
    if (!rank.good(ibcoll_progress(rank.context, nullptr), "progress")) return false;
  }
}

/// Two multicasts may be under way. The last rank is in no call, so it lacks what is sent to it.
TEST_P(MulticastLimits, AreMetByALateRankAndByNobodyElse) {
  constexpr uint64_t kWindow = 2, kOthers = 50, kEnd = 1000;
  const int last = ranks() - 1;
  const std::vector<int> others{ranks() - 2};
  run(
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        const auto late = [&](uint64_t tag) { return Letter{0, all(), 20 * kKb, tag}; };
        const auto other = [&](uint64_t tag) {
          return Letter{0, others, tag * 100, kEnd / 2 + tag};
        };
        const Letter end{0, all(), 8, kEnd};
        if (me == 0) {
          std::vector<std::unique_ptr<SentLetter>> sent;
          if (!send_until_late(rank, last, sent, late)) return;
          if (sent.size() < kWindow || sent.size() > 2 * kWindow)
            return rank.complain(fmt::format("a late rank was sent {} letters", sent.size()));
          for (uint64_t i = 0; i < kOthers; ++i) {
            SentLetter one(rank, other(i));
            if (!one.start_sometime(acknowledged()) || !rank.good(one.wait(), "others")) return;
          }
          SentLetter more(rank, end);
          expect(rank, more.start(), IBCOLL_ERR_BUSY, fmt::format("rank {} is late", last));
          flags_->raise(0);
          if (!more.start_sometime(acknowledged()) || !rank.good(more.wait(), "more")) return;
          for (const auto& one : sent) {
            if (!rank.good(one->wait(), "wait for a late one")) return;
          }
        } else if (me == last) {
          flags_->await(0, 1);
        }
        uint64_t next = 0, next_other = 0;
        for (bool at_end = false; !at_end;) {
          const ibcoll_message* message = nullptr;
          if (!rank.good(ibcoll_multicast_receive(rank.context, -1, &message), "receive")) return;
          at_end = message->tag == kEnd;
          const Letter letter = at_end                     ? end
                                : message->tag >= kEnd / 2 ? other(next_other++)
                                                           : late(next++);
          const std::string wrong = testing::wrong_in(rank, *message, letter);
          if (!wrong.empty()) return rank.complain(wrong);
          rank.good(ibcoll_message_free(rank.context, message), "free");
        }
        expect_number(rank, "letters to another rank", next_other,
                      me == others.front() ? kOthers : 0);
        meet(rank);
      },
      {{"IBCOLL_MULTICAST_WINDOW", std::to_string(kWindow)}});
}

/// One multicast may be under way. Two ranks lack it, of which one comes to it in the end: it is
/// sent others, and what is still under way waits for the other one alone.
TEST_P(MulticastLimits, AreNotMetByARankThatIsLateNoMore) {
  const int taker = ranks() - 2, last = ranks() - 1;
  const auto both = [&](uint64_t tag) { return Letter{0, {taker, last}, 100, tag}; };
  const Letter next{0, {taker}, 50, 1};
  run(
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        if (me == 0) {
          std::vector<std::unique_ptr<SentLetter>> sent;
          if (!send_until_late(rank, taker, sent, both)) return;
          expect_number(rank, "letters to a late rank", sent.size(), 1);
          flags_->raise(0);
          SentLetter more(rank, next);
          ibcoll_status status = more.start(acknowledged());
          for (int i = 0; status == IBCOLL_ERR_BUSY && i < 10'000; ++i) {
            if (!rank.good(ibcoll_progress(rank.context, nullptr), "progress")) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            status = more.start(acknowledged());
          }
          if (!rank.good(status, "send more") || !rank.good(more.wait(), "more")) return;
          rank.good(ibcoll_cancel(sent.front()->request()), "cancel");
          expect(rank, sent.front()->wait(), IBCOLL_ERR_CANCELLED, "cancelled");
          if (sent.front()->missing() != std::vector<int>{last})
            rank.complain(fmt::format("ranks {} lack it", fmt::join(sent.front()->missing(), ",")));
          flags_->raise(1);
        } else if (me == taker) {
          flags_->await(0, 1);
          if (!receive(rank, both(0)) || !receive(rank, next)) return;
        } else if (me == last) {
          flags_->await(1, 1);
        }
        meet(rank);
      },
      {{"IBCOLL_MULTICAST_WINDOW", "1"}});
}

/// The last rank makes progress, but frees nothing. Where the memory that there is was not used,
/// the master would wait forever.
TEST_P(MulticastLimits, WaitsWhereMemoryIsUsedUpUntilSomeIsFreed) {
  constexpr size_t kMemory = 128 * kKb, kBytes = 10'000;
  constexpr uint64_t kEnd = 1'000'000;
  const int last = ranks() - 1;
  run(
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        if (me == 0) {
          std::vector<std::unique_ptr<SentLetter>> sent;
          const auto letter = [&](uint64_t tag) { return Letter{0, {last}, kBytes, tag}; };
          if (!send_until_late(rank, last, sent, letter, 6)) return;
          SentLetter other(rank, {0, {0}, 10, kEnd});
          if (!other.start_sometime(acknowledged()) || !rank.good(other.wait(), "other")) return;
          flags_->raise(0);
          for (const auto& one : sent) {
            if (!rank.good(one->wait(), "wait")) return;
          }
          SentLetter end(rank, {0, {last}, 0, kEnd});
          if (!end.start_sometime(acknowledged()) || !rank.good(end.wait(), "end")) return;
          if (!receive(rank, {0, {0}, 10, kEnd})) return;
        } else if (me == last) {
          progress_until(rank, [&] {
            return flags_->raised(0) == 1 && multicast_counters(rank).memory_bytes >= 3 * kBytes;
          });
          const uint64_t in_use = multicast_counters(rank).memory_bytes;
          if (in_use > kMemory)
            rank.complain(fmt::format("{} bytes of {} are in use", in_use, kMemory));
          uint64_t number = 0;
          for (bool at_end = false; !at_end; ++number) {
            const ibcoll_message* message = nullptr;
            if (!rank.good(ibcoll_multicast_receive(rank.context, -1, &message), "receive")) return;
            at_end = message->tag == kEnd;
            const Letter letter{0, {last}, at_end ? 0 : kBytes, at_end ? kEnd : number};
            const std::string wrong = testing::wrong_in(rank, *message, letter);
            if (!wrong.empty()) return rank.complain(wrong);
            rank.good(ibcoll_message_free(rank.context, message), "free");
          }
        }
        meet(rank);
      },
      {{"IBCOLL_MULTICAST_MEMORY", std::to_string(kMemory)}, {"IBCOLL_MULTICAST_WINDOW", "4"}});
}

TEST_P(MulticastLimits, LongerThanAllMemoryFailsAloneAndOthersGoOn) {
  const int last = ranks() - 1;
  run(
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        const Letter before{0, all(), 60 * kKb, 1}, too_long{0, {last}, 65 * kKb, 2},
            after{0, all(), 60 * kKb, 3};
        if (me == 0) {
          SentLetter first(rank, before), second(rank, too_long), third(rank, after);
          if (!first.start_sometime(acknowledged()) || !rank.good(first.wait(), "first")) return;
          ibcoll_status status = second.start(acknowledged());
          if (status == IBCOLL_OK) {
            status = second.wait();
            if (second.missing() != std::vector<int>{last}) rank.complain("others lack it");
          }
          expect(rank, status, IBCOLL_ERR_NO_MEMORY, "");
          flags_->raise(0);
          if (!receive(rank, before)) return;
          if (!third.start_sometime(acknowledged()) || !rank.good(third.wait(), "third")) return;
          if (!receive(rank, after)) return;
        } else if (!receive(rank, before) || !receive(rank, after)) {
          return;
        }
        meet(rank);
      },
      {{"IBCOLL_MULTICAST_MEMORY", "64K"}});
}

/// Takes all that is left of this rank's heap.
void use_up_heap(const ApiRank& rank) {
  for (size_t bytes = size_t{1} << 30; bytes >= 64; bytes /= 2) {
    void* address = nullptr;
    while (ibcoll_alloc(rank.context, bytes, &address) == IBCOLL_OK) continue;
  }
}

/// One member has no memory. Another one takes the message then, or only finds that its group is
/// over, since it has had no room before. The master learns the reason either way.
TEST_P(MulticastLimits, NameTheMemoryThatOneMemberLacks) {
  const int last = ranks() - 1;
  for (const bool room : {true, false}) {
    SCOPED_TRACE(room ? "with room" : "without");
    run(
        [&](const ApiRank& rank) {
          const int me = ibcoll_rank(rank.context);
          const Letter kept{0, {1}, 100 * kKb, 1}, lacked{0, {1, last}, 100 * kKb, 2};
          if (me == last) use_up_heap(rank);
          const ibcoll_message* message = nullptr;
          if (me == 0) {
            SentLetter sent(rank, kept);
            if (!sent.start_sometime(acknowledged()) || !rank.good(sent.wait(), "kept")) return;
          } else if (me == 1) {
            if (!rank.good(ibcoll_multicast_receive(rank.context, -1, &message), "receive")) return;
            if (room) rank.good(ibcoll_message_free(rank.context, message), "free");
          }
          if (!meet(rank)) return;
          if (me == 0) {
            SentLetter sent(rank, lacked);
            if (!sent.start_sometime(acknowledged())) return;
            expect(rank, sent.wait(), IBCOLL_ERR_NO_MEMORY, "may lack multicast 2 of rank 0");
            const std::vector<int> missing = sent.missing();
            if (std::find(missing.begin(), missing.end(), last) == missing.end())
              rank.complain("nobody says who lacks it");
          } else if (me == 1 && !room) {
            const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
            progress_until(rank, [&] { return std::chrono::steady_clock::now() > until; });
            rank.good(ibcoll_message_free(rank.context, message), "free");
          }
          meet(rank);
        },
        {{"IBCOLL_HEAP", "64M"}, {"IBCOLL_MULTICAST_MEMORY", "150K"}});
  }
}

TEST_P(MulticastLimits, EndsAtItsDeadlineAndTellsWhoMayLackIt) {
  const int last = ranks() - 1;
  run([&](const ApiRank& rank) {
    const int me = ibcoll_rank(rank.context);
    const Letter small{0, all(), 100, 1}, large{0, {last}, 300 * kKb, 2}, after{0, {last}, 50, 3};
    if (me == 0) {
      ibcoll_multicast_options options = acknowledged();
      options.deadline_us = 30'000;
      for (const Letter& letter : {small, large}) {
        SentLetter sent(rank, letter);
        if (!sent.start_sometime(options)) return;
        expect(rank, sent.wait(), IBCOLL_ERR_DEADLINE, "deadline");
        const std::vector<int> missing = sent.missing();
        if (std::find(missing.begin(), missing.end(), last) == missing.end())
          rank.complain("nobody says that the late rank may lack " + letter.describe());
      }
      flags_->raise(0);
      SentLetter sent(rank, after);
      if (!sent.start_sometime(acknowledged()) || !rank.good(sent.wait(), "after")) return;
    } else if (me == last) {
      flags_->await(0, 1);
      // What the master has given up may come, before what it has sent later.
      std::vector<uint64_t> tags;
      while (tags.empty() || tags.back() != after.tag) {
        const ibcoll_message* message = nullptr;
        if (!rank.good(ibcoll_multicast_receive(rank.context, -1, &message), "receive")) return;
        tags.push_back(message->tag);
        const Letter& letter = message->tag == 1 ? small : message->tag == 2 ? large : after;
        const std::string wrong = testing::wrong_in(rank, *message, letter);
        if (!wrong.empty()) return rank.complain(wrong);
        rank.good(ibcoll_message_free(rank.context, message), "free");
      }
      if (!std::is_sorted(tags.begin(), tags.end())) rank.complain("another order");
    } else {
      if (!receive(rank, small)) return;
    }
    meet(rank);
    // What nobody has taken is dropped at the end.
  });
}

TEST_P(MulticastLimits, LeavesNoMemoryBehind) {
  run([&](const ApiRank& rank) {
    const int me = ibcoll_rank(rank.context);
    const auto round = [&](uint64_t number) {
      for (int master = 0; master < 2; ++master) {
        const Letter letter{master, all(), number % 10 == 0 ? 100 * kKb : number % 3000, number};
        SentLetter sent(rank, letter);
        if (me == master && !sent.start_sometime(acknowledged())) return false;
        if (!receive(rank, letter)) return false;
        if (me == master && !rank.good(sent.wait(), "wait")) return false;
        if (!meet(rank)) return false;
      }
      return true;
    };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const uint64_t first = 20;  // mallinfo2 sees nothing of its allocator
#else
    // An adversarial network takes many times as long, most of all beside other programs.
    const uint64_t first = GetParam().loopback_seed == 0 ? 300 : 100;
#endif
    for (uint64_t number = 0; number < first; ++number) {
      if (!round(number)) return;
    }
    // Spare memory of mails and handles still grows to its limit.
    const size_t before = mallinfo2().uordblks;
    for (uint64_t number = first; number < 6 * first; ++number) {
      if (!round(number)) return;
    }
    const size_t after = mallinfo2().uordblks;
    if (after > before + 160 * kKb)
      rank.complain(fmt::format("{} multicasts have left {} bytes", 10 * first, after - before));
    testing::expect_no_memory(rank);
  });
}

const MulticastWay kLimitedWays[] = {{"shm", nullptr, 3},
                                     {"loopback", "1,1,1", 3},
                                     {"tree", "2,1,1", 4},
                                     {"cyclic", "2,2", 4, "cyclic"},
                                     {"adversarial", "2,1,2", 5, nullptr, 77},
                                     {"verbs", "2,1,2", 5, nullptr, 0, "verbs"}};
INSTANTIATE_TEST_SUITE_P(Ways, MulticastLimits, ::testing::ValuesIn(kLimitedWays), testing::named);

}  // namespace
}  // namespace ibcoll
