// Multicasts through the C interface: who gets what, what requests and handlers mean, and
// what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>

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

class Multicast : public testing::OnMulticastWays {};

TEST_P(Multicast, ComesToMembersWithAllThatWasSaid) {
  std::vector<Letter> letters;
  const std::vector<std::vector<int>> sets = {{ranks() - 1}, {0}, {1, ranks() - 1}, all()};
  for (const size_t bytes : {0, 1, 63, 3000, 4064, 5000, 70'001, 1'000'000}) {
    for (const std::vector<int>& set : sets) {
      const auto number = static_cast<int>(letters.size());
      letters.push_back({number % ranks(), set, bytes, uint64_t{1} << 40 | letters.size()});
    }
  }
  run([&](const ApiRank& rank) {
    const int me = ibcoll_rank(rank.context);
    uint64_t sent = 0, received = 0, announced = 0;
    for (const Letter& letter : letters) {
      SentLetter own(rank, letter);
      if (letter.master == me) {
        ++sent;
        if (!own.start_sometime(acknowledged()) || !rank.good(own.wait(), "wait")) return;
        if (!own.missing().empty()) return rank.complain("some lack " + letter.describe());
      }
      if (letter.is_for(me)) {
        ++received;
        announced += letter.master == me ? 0 : 1;
        if (!receive(rank, letter)) return;
      }
      if (!meet(rank)) return;
    }
    const ibcoll_multicast_counters counters = multicast_counters(rank);
    expect_number(rank, "sent", counters.sent, sent);
    expect_number(rank, "received", counters.received, received);
    expect_number(rank, "announced", counters.announced, announced);
    testing::expect_no_memory(rank);
    if (counters.most_memory_bytes < 1'000'000) rank.complain("no message took memory");
  });
}

TEST_P(Multicast, KeepsItsOrderWhateverTheLength) {
  std::vector<Letter> letters;
  for (uint64_t i = 0; i < 150; ++i) {
    Letter letter{0, {1}, i % 7 == 0 ? 200 * kKb : i * 10 % 3000, i};
    if (i % 3 != 0) letter.members = all();
    letters.push_back(letter);
  }
  run([&](const ApiRank& rank) {
    if (ibcoll_rank(rank.context) != 0) {
      for (const Letter& letter : letters) {
        if (letter.is_for(ibcoll_rank(rank.context)) && !receive(rank, letter)) return;
      }
      meet(rank);
      return;
    }
    std::vector<std::unique_ptr<SentLetter>> sent;
    for (const Letter& letter : letters) {
      sent.push_back(std::make_unique<SentLetter>(rank, letter));
      if (!sent.back()->start_sometime()) return;
    }
    for (const auto& one : sent) {
      if (!rank.good(one->wait(), "wait for " + one->letter().describe())) return;
    }
    for (const Letter& letter : letters) {
      if (letter.is_for(0) && !receive(rank, letter)) return;
    }
    meet(rank);
  });
}

/// A rank that is in no call has a thread that receives and passes on.
TEST_P(Multicast, ReachesThoseWhoComputeThroughTheirThread) {
  const Letter small{0, all(), 100, 1}, large{0, all(), 900 * kKb, 2};
  run([&](const ApiRank& rank) {
    struct Handed {
      const ApiRank& rank;
      std::vector<Letter> letters;
      std::atomic<size_t> count{0};
    } handed{rank, {small, large}};
    const auto hand = [](void* argument, const ibcoll_message* message) {
      Handed& to = *static_cast<Handed*>(argument);
      const std::string wrong = testing::wrong_in(to.rank, *message, to.letters[to.count]);
      if (!wrong.empty()) to.rank.complain(wrong);
      ++to.count;
    };
    rank.good(ibcoll_multicast_set_handler(rank.context, hand, &handed), "set a handler");
    if (ibcoll_rank(rank.context) != 0) {
      rank.good(ibcoll_set_progress_thread(rank.context, 1), "thread");
      flags_->raise(0);
      flags_->await(1, 1);  // in no call of ibcoll
      // It is acknowledged before it is handed over.
      for (int i = 0; handed.count < 2 && i < 10'000; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      expect_number(rank, "letters handed over", handed.count, 2);
    } else {
      flags_->await(0, ranks() - 1);
      for (const Letter& letter : {small, large}) {
        SentLetter sent(rank, letter);
        if (!rank.good(sent.send(acknowledged()), "send")) return;
      }
      expect_number(rank, "letters handed over", handed.count, 2);
      flags_->raise(1);
    }
    meet(rank);
    rank.good(ibcoll_multicast_set_handler(rank.context, nullptr, nullptr), "take it away");
  });
}

TEST_P(Multicast, WaitsForAHandlerOrIsTaken) {
  run([&](const ApiRank& rank) {
    const int last = ranks() - 1;
    std::vector<uint64_t> tags;
    const auto hand = [](void* argument, const ibcoll_message* message) {
      static_cast<std::vector<uint64_t>*>(argument)->push_back(message->tag);
    };
    if (ibcoll_rank(rank.context) == 0) {
      for (const uint64_t tag : {1, 2, 3, 4}) {
        SentLetter sent(rank, {0, {last}, 10, tag});
        if (!rank.good(sent.send(acknowledged()), "send")) return;
        if (tag == 3) meet(rank);
      }
    } else if (ibcoll_rank(rank.context) == last) {
      const ibcoll_message* message = nullptr;
      if (!receive(rank, {0, {last}, 10, 1})) return;
      if (!meet(rank)) return;  // the next two wait
      rank.good(ibcoll_multicast_set_handler(rank.context, hand, &tags), "set a handler");
      if (tags != std::vector<uint64_t>{2, 3} && tags != std::vector<uint64_t>{2, 3, 4})
        rank.complain("what came before was not handed over at once");
      expect(rank, ibcoll_multicast_receive(rank.context, 0, &message), IBCOLL_ERR_INVALID,
             "handler");
      progress_until(rank, [&] { return tags.size() == 3; });
      rank.good(ibcoll_multicast_set_handler(rank.context, nullptr, nullptr), "take it away");
      rank.good(ibcoll_multicast_receive(rank.context, 0, &message), "receive");
      rank.good(ibcoll_multicast_receive(rank.context, 2000, &message), "receive");
      if (message != nullptr) rank.complain("a message out of nothing");
      rank.good(ibcoll_message_free(rank.context, nullptr), "free nothing");
    } else {
      meet(rank);
    }
    meet(rank);
  });
}

/// A request without an acknowledgement tells when the data may be overwritten, one with it when
/// the members have the message.
TEST_P(Multicast, IsThereWhenItIsAcknowledged) {
  run([&](const ApiRank& rank) {
    const int me = ibcoll_rank(rank.context);
    std::vector<Letter> letters;
    for (const size_t bytes : {0, 500, 300'000}) letters.push_back({0, all(), bytes, bytes});
    if (me == 0) {
      for (const Letter& letter : letters) {
        SentLetter sent(rank, letter);
        if (!sent.start_sometime(acknowledged())) return;
        int done = 0;
        while (done == 0) {
          if (!rank.good(sent.test(done), "test")) return;
        }
        flags_->raise(0);
        flags_->await(1, (ranks() - 1) * flags_->raised(0));
      }
    } else {
      rank.good(ibcoll_set_progress_thread(rank.context, 1), "thread");
      for (int i = 1; i <= static_cast<int>(letters.size()); ++i) {
        flags_->await(0, i);
        expect_number(rank, "received", multicast_counters(rank).received, i);
        flags_->raise(1);
      }
      rank.good(ibcoll_set_progress_thread(rank.context, 0), "no thread");
    }
    for (const Letter& letter : letters) {
      if (!receive(rank, letter)) return;
    }
    meet(rank);
  });
}

/// Threads of a rank send, receive, and make other calls.
TEST_P(Multicast, IsForSeveralThreads) {
  constexpr uint64_t kThreads = 3, kEach = 40;
  run([&](const ApiRank& rank) {
    rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE), "level");
    ThreadsOf threads(rank);
    const int me = ibcoll_rank(rank.context);
    const int last = ranks() - 1;
    for (uint64_t thread = 0; thread < kThreads; ++thread) {
      threads.add([&, thread]() -> std::string {
        for (uint64_t i = 0; i < kEach; ++i) {
          if (me == 0) {
            SentLetter sent(rank, {0, {last}, i * 700 % 9000, thread * kEach + i});
            ibcoll_status status = IBCOLL_ERR_BUSY;
            while (status == IBCOLL_ERR_BUSY) status = sent.send(acknowledged());
            if (status != IBCOLL_OK) return ibcoll_last_error();
          } else if (me == last) {
            const ibcoll_message* message = nullptr;
            if (ibcoll_multicast_receive(rank.context, -1, &message) != IBCOLL_OK)
              return ibcoll_last_error();
            if (message == nullptr) return "no message";
            const uint64_t number = message->tag % kEach;
            const Letter letter{0, {last}, number * 700 % 9000, message->tag};
            if (const std::string wrong = testing::wrong_in(rank, *message, letter); !wrong.empty())
              return wrong;
            if (ibcoll_message_free(rank.context, message) != IBCOLL_OK) return ibcoll_last_error();
          }
        }
        return "";
      });
    }
    threads.add([&]() -> std::string {
      for (int i = 0; i < 20; ++i) {
        const std::string wrong = testing::exchange(ibcoll_world(rank.context), i);
        if (!wrong.empty()) return wrong;
      }
      return "";
    });
  });
}

TEST_P(Multicast, GoesBesideOtherCalls) {
  run([&](const ApiRank& rank) {
    const int me = ibcoll_rank(rank.context);
    for (uint64_t i = 0; i < 30; ++i) {
      const Letter letter{static_cast<int>(i) % ranks(), all(), i * i * 300, i};
      SentLetter sent(rank, letter);
      if (me == letter.master && !sent.start_sometime()) return;
      const std::string wrong =
          testing::exchange(ibcoll_world(rank.context), static_cast<int>(i), 1 + i * 1000);
      if (!wrong.empty()) return rank.complain(wrong);
      if (!receive(rank, letter)) return;
      if (me == letter.master && !rank.good(sent.wait(), "wait")) return;
      if (!meet(rank)) return;  // messages of different masters overtake each other
    }
  });
}

/// Between servers a multicast goes by their leaders; on one server the root may send to each rank
/// itself.
TEST_P(Multicast, GoesByABroadcastThatRelaysUnlessThereIsOneServer) {
  run([&](const ApiRank& rank) {
    const Letter letter{0, all(), 100 * kKb, 1};
    const bool one_server = GetParam().layout == nullptr;
    if (ibcoll_rank(rank.context) == 0) {
      ibcoll_multicast_options options = acknowledged();
      options.algorithm = "linear";
      SentLetter sent(rank, letter);
      const ibcoll_status status = sent.start(options);
      if (!one_server) {
        expect(rank, status, IBCOLL_ERR_INVALID, "linear sends to each rank itself");
      } else if (!rank.good(status, "send") || !rank.good(sent.wait(), "wait")) {
        return;
      }
    }
    if (one_server && !receive(rank, letter)) return;
    meet(rank);
  });
}

TEST_P(Multicast, IsRefusedWhereItCannotBe) {
  run([&](const ApiRank& rank) {
    const uint64_t none = 0, outside = uint64_t{1} << ranks(),
                   self = uint64_t{1} << ibcoll_rank(rank.context);
    const auto send = [&](const uint64_t* set, size_t words, const void* data, size_t bytes,
                          const ibcoll_multicast_options& options) {
      ibcoll_request* request = nullptr;
      const ibcoll_status status =
          ibcoll_multicast(rank.context, set, words, data, bytes, &options, &request);
      if (request != nullptr) rank.complain("a request for what was refused");
      return status;
    };
    const ibcoll_multicast_options defaults = IBCOLL_MULTICAST_OPTIONS_INIT;
    const std::array<uint64_t, 3> far = {0, 0, 1};
    const auto invalid = [&](ibcoll_status status, const std::string& text) {
      expect(rank, status, IBCOLL_ERR_INVALID, text);
    };
    invalid(send(nullptr, 1, "", 1, defaults), "null");
    invalid(send(&self, 1, nullptr, 1, defaults), "null");
    invalid(send(&none, 1, "", 1, defaults), "nobody");
    invalid(send(nullptr, 0, "", 1, defaults), "");
    invalid(send(&outside, 1, "", 1, defaults), fmt::format("rank {}", ranks()));
    invalid(send(far.data(), far.size(), "", 1, defaults), "rank 128");
    auto options = defaults;
    options.algorithm = "ringlets";
    invalid(send(&self, 1, "", 1, options), "ringlets");
    options = defaults;
    options.acknowledged = 2;
    invalid(send(&self, 1, "", 1, options), "acknowledged");
    options = defaults;
    options.deadline_us = -1;
    invalid(send(&self, 1, "", 1, options), "deadline");
    options = defaults;
    options.pieces = 1u << 31;
    invalid(send(&self, 1, "", 1, options), "pieces");
    options = defaults;
    options.struct_size = 1;
    invalid(send(&self, 1, "", 1, options), "struct_size");
    const ibcoll_message* message = nullptr;
    invalid(ibcoll_multicast_receive(rank.context, -2, &message), "timeout");
    invalid(ibcoll_multicast_receive(rank.context, 0, nullptr), "null");
    invalid(ibcoll_multicast_receive(nullptr, 0, &message), "context");
    invalid(ibcoll_multicast_get_counters(rank.context, nullptr), "null");
    int count = 0;
    invalid(ibcoll_multicast_missing(nullptr, nullptr, 0, &count), "request");
    // A message is freed once, and a request when it is over.
    const int me = ibcoll_rank(rank.context);
    const Letter letter{me, {me}, 10, 5};
    {
      SentLetter sent(rank, letter);
      if (!sent.start_sometime() || !rank.good(sent.wait(), "wait")) return;
      invalid(ibcoll_start(sent.request()), "");
      rank.good(ibcoll_multicast_receive(rank.context, -1, &message), "receive");
      rank.good(ibcoll_message_free(rank.context, message), "free");
      invalid(ibcoll_message_free(rank.context, message), "freed");
    }
    expect_number(rank, "sent", multicast_counters(rank).sent, 1);
    meet(rank);
  });
}

const MulticastWay kBasicWays[] = {{"shm", nullptr, 3},
                                   {"loopback", "1,1,1", 3},
                                   {"cyclic", "2,2", 4, "cyclic"},
                                   {"adversarial", "2,1,2", 5, nullptr, 77},
                                   {"verbs", "2,1,1", 4, nullptr, 0, "verbs"}};
INSTANTIATE_TEST_SUITE_P(Ways, Multicast, ::testing::ValuesIn(kBasicWays), testing::named);

}  // namespace
}  // namespace ibcoll
