// Random multicasts: any sets, lengths and layouts, several masters, ranks that receive in
// different ways. Every byte is looked at, the order of each master, and that nobody else hears of
// anything. TEST_MULTICAST_SEED=4711 runs one job again, TEST_MULTICASTS=5000 so many multicasts.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "engine/multicast/choice.h"
#include "tests/algorithm_lists.h"
#include "tests/multicast_job.h"
#include "tests/named.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::Letter;
using testing::MulticastWay;
using testing::SentLetter;

constexpr uint32_t kRandomLetters = 60;  // of a job
constexpr size_t kMb = size_t{1} << 20;

/// How a rank gets its messages.
enum class Mode {
  kReceive,   ///< takes them one by one, and keeps some for a while
  kHandler,   ///< is handed them in its calls
  kElsewhere  ///< has a progress thread, and is seldom in a call itself
};

/// How a letter is sent.
struct Sending {
  bool blocking = false;  ///< without a request
  ibcoll_multicast_options options = IBCOLL_MULTICAST_OPTIONS_INIT;
};

/// What all ranks do in a job; computed by each of them from the seed.
struct Plan {
  MulticastWay way;
  std::map<std::string, std::string> settings;
  std::vector<Mode> modes;
  std::vector<Letter> letters;
  std::vector<Sending> sendings;

  std::string describe(uint32_t seed) const {
    std::string text = fmt::format("TEST_MULTICAST_SEED={} ({}, {} ranks on {}", seed, way.name,
                                   way.ranks, way.layout == nullptr ? "one server" : way.layout);
    for (const auto& [name, value] : settings) text += fmt::format(", {}={}", name, value);
    return text + ")";
  }
};

const char* some_algorithm(std::mt19937& random) {
  std::vector<const char*> names(2, nullptr);
  for (const Algorithm* const algorithm : testing::algorithms_of(Collective::kBcast))
    if (check_multicast(*algorithm, 2)) names.push_back(algorithm->name.data());
  return names[random() % names.size()];
}

size_t some_length(std::mt19937& random, size_t most) {
  if (random() % 20 == 0) return 0;
  // Few are long: half of those over 128 KB are shortened, and again.
  const auto length =
      static_cast<size_t>(std::exp2(std::uniform_real_distribution(0.0, 23.0)(random)));
  const size_t bound = random() % 8 == 0 ? most : std::min<size_t>(most, 128 << 10);
  return length <= bound ? length : 1 + length % bound;
}

std::vector<int> some_ranks(std::mt19937& random, int ranks, size_t count) {
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(count);
  return all;
}

Plan some_plan(const MulticastWay& way, uint32_t seed) {
  std::mt19937 random(seed);
  Plan plan{way, {}, {}, {}, {}};
  const auto ranks = static_cast<size_t>(way.ranks);
  const auto masters = some_ranks(random, way.ranks, 1 + random() % std::min<size_t>(3, ranks));
  size_t most = 8 * kMb;
  if (random() % 3 == 0) {
    const size_t memory = (256u << 10) << random() % 4;
    plan.settings["IBCOLL_MULTICAST_MEMORY"] = std::to_string(memory);
    most = memory;
  }
  if (random() % 2 == 0)
    plan.settings["IBCOLL_MULTICAST_WINDOW"] = std::to_string(1 << random() % 4);
  for (int rank = 0; rank < way.ranks; ++rank)
    plan.modes.push_back(static_cast<Mode>(random() % 3));
  for (uint32_t number = 0; number < kRandomLetters; ++number) {
    Letter letter;
    letter.master = masters[random() % masters.size()];
    letter.members = some_ranks(random, way.ranks, 1 + random() % ranks);
    std::sort(letter.members.begin(), letter.members.end());
    letter.bytes = some_length(random, most);
    letter.tag = uint64_t{seed} << 32 | number;
    plan.letters.push_back(letter);
    Sending sending;
    // Who takes its messages itself can't while it waits.
    sending.blocking = random() % 4 == 0 && plan.modes[letter.master] != Mode::kReceive;
    sending.options.acknowledged = static_cast<int>(random() % 2);
    sending.options.algorithm = some_algorithm(random);
    sending.options.pieces = random() % 2 == 0 ? 0 : 1 + random() % 5;
    plan.sendings.push_back(sending);
  }
  return plan;
}

/// One rank of a job.
class Worker {
 public:
  Worker(const ApiRank& rank, const Plan& plan, uint32_t seed)
      : rank_(rank),
        plan_(plan),
        me_(ibcoll_rank(rank.context)),
        mode_(plan.modes[static_cast<size_t>(me_)]),
        random_(seed * 1000 + static_cast<uint32_t>(me_)) {
    for (const Letter& letter : plan.letters) {
      if (!letter.is_for(me_)) continue;
      expected_[letter.master].push_back(&letter);
      ++left_;
      told_ += letter.master != me_ ? 1 : 0;
    }
  }

  void run() {
    if (mode_ != Mode::kReceive) {
      const auto hand = [](void* self, const ibcoll_message* message) {
        static_cast<Worker*>(self)->take(*message);
      };
      if (!rank_.good(ibcoll_multicast_set_handler(rank_.context, hand, this), "set a handler"))
        return;
    }
    if (mode_ == Mode::kElsewhere)
      rank_.good(ibcoll_set_progress_thread(rank_.context, 1), "progress thread");
    if (!exchange() || !testing::meet(rank_)) return;
    check_counters();
    testing::meet(rank_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// A message has come, maybe in the progress thread.
  void take(const ibcoll_message& message) {
    const std::scoped_lock lock(lock_);
    const auto expected = expected_.find(message.master);
    if (expected == expected_.end() || expected->second.empty()) {
      wrong_ = true;
      return rank_.complain(fmt::format("letter {} of rank {} has come, and is not for this rank",
                                        message.tag & 0xffffffff, message.master));
    }
    const Letter& letter = *expected->second.front();
    expected->second.pop_front();
    --left_;
    if (const std::string wrong = testing::wrong_in(rank_, message, letter); !wrong.empty()) {
      rank_.complain(wrong);
      wrong_ = true;
    }
  }

  bool exchange() {
    // Fails instead of hanging.
    const auto end = Clock::now() + std::chrono::seconds(plan_.way.limit_s() - 20);
    while (true) {
      const bool sent = send_some() && test_some();
      if (!sent || !receive_some()) return false;
      {
        const std::scoped_lock lock(lock_);
        if (wrong_) return false;
        if (next_ == plan_.letters.size() && under_way_.empty() && left_ == 0) break;
        if (Clock::now() > end) {
          rank_.complain(describe_state());
          return false;
        }
      }
      pause();
    }
    return free_held();
  }

  std::string describe_state() const {
    std::string text = fmt::format("it hangs: {} letters have not come", left_);
    for (const auto& [master, letters] : expected_) {
      if (!letters.empty()) text += "; next " + letters.front()->describe();
    }
    for (const auto& sent : under_way_) text += "; under way: " + sent->letter().describe();
    if (next_ < plan_.letters.size()) text += "; to send: " + plan_.letters[next_].describe();
    return text + "; " + busy_;
  }

  /// Starts some of this rank's, until it may not.
  bool send_some() {
    for (int some = 1 + static_cast<int>(random_() % 4); some > 0; --some) {
      while (next_ < plan_.letters.size() && plan_.letters[next_].master != me_) ++next_;
      if (next_ == plan_.letters.size()) return true;
      const Letter& letter = plan_.letters[next_];
      const Sending& sending = plan_.sendings[next_];
      auto sent = std::make_unique<SentLetter>(rank_, letter);
      const ibcoll_status status =
          sending.blocking ? sent->send(sending.options) : sent->start(sending.options);
      if (status == IBCOLL_ERR_BUSY) {
        busy_ = ibcoll_last_error();
        return true;
      }
      if (!rank_.good(status, "send " + letter.describe())) return false;
      if (!sending.blocking) under_way_.push_back(std::move(sent));
      ++next_;
    }
    return true;
  }

  bool test_some() {
    for (size_t i = 0; i < under_way_.size(); ++i) {
      if (random_() % 2 == 0) continue;
      int done = 0;
      if (!rank_.good(under_way_[i]->test(done), "test " + under_way_[i]->letter().describe()))
        return false;
      if (done == 0) continue;
      under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(i));
      --i;
    }
    return true;
  }

  bool receive_some() {
    if (mode_ == Mode::kHandler)
      return rank_.good(ibcoll_progress(rank_.context, nullptr), "go on");
    if (mode_ == Mode::kElsewhere) return true;
    const bool idle = next_ == plan_.letters.size() && under_way_.empty() && left_ != 0;
    constexpr std::array<int64_t, 3> kTimeoutsUs = {0, 300, 50'000};
    const int64_t timeout_us = idle && held_.empty() ? kTimeoutsUs[random_() % 3] : 0;
    const ibcoll_message* message = nullptr;
    if (!rank_.good(ibcoll_multicast_receive(rank_.context, timeout_us, &message), "receive"))
      return false;
    if (message == nullptr) return free_held();
    take(*message);
    held_.push_back(message);
    return held_.size() < 3 || free_oldest();
  }

  bool free_oldest() {
    const ibcoll_message* const message = held_.front();
    held_.pop_front();
    return rank_.good(ibcoll_message_free(rank_.context, message), "free a message");
  }
  bool free_held() {
    while (!held_.empty()) {
      if (!free_oldest()) return false;
    }
    return true;
  }

  /// Computes for a while, or sleeps.
  void pause() {
    if (mode_ != Mode::kElsewhere && random_() % 16 != 0) return;
    const auto time = std::chrono::microseconds(random_() % 2000);
    if (random_() % 2 == 0) {
      std::this_thread::sleep_for(time);
    } else {
      const auto end = Clock::now() + time / 4;
      while (Clock::now() < end) {
      }
    }
  }

  void check_counters() {
    testing::expect_no_memory(rank_);
    const ibcoll_multicast_counters counters = testing::multicast_counters(rank_);
    uint64_t sent = 0, received = 0;
    for (const Letter& letter : plan_.letters) {
      sent += letter.master == me_ ? 1 : 0;
      received += letter.is_for(me_) ? 1 : 0;
    }
    testing::expect_number(rank_, "sent", counters.sent, sent);
    testing::expect_number(rank_, "received", counters.received, received);
    // Who is no member hears of nothing.
    testing::expect_number(rank_, "announced", counters.announced, told_);
    const auto memory = plan_.settings.find("IBCOLL_MULTICAST_MEMORY");
    // One message of each master may be beyond the limit.
    uint64_t most = memory == plan_.settings.end() ? 64 * kMb : std::stoull(memory->second);
    std::map<int, size_t> longest;
    for (const Letter& letter : plan_.letters)
      longest[letter.master] = std::max(longest[letter.master], letter.bytes);
    for (const auto& [master, bytes] : longest) most += bytes + bytes / 4;  // sizes are rounded
    if (counters.most_memory_bytes > most)
      rank_.complain(
          fmt::format("{} bytes were in use, over {}", counters.most_memory_bytes, most));
  }

  const ApiRank& rank_;
  const Plan& plan_;
  const int me_;
  const Mode mode_;
  std::mt19937 random_;
  std::mutex lock_;
  std::map<int, std::deque<const Letter*>> expected_;  ///< by master
  size_t left_ = 0;                                    ///< of them
  uint64_t told_ = 0;                                  ///< of other masters
  bool wrong_ = false;
  size_t next_ = 0;  ///< letter
  std::vector<std::unique_ptr<SentLetter>> under_way_;
  std::deque<const ibcoll_message*> held_;
  std::string busy_ = "never refused";
};

/// The layouts of a way of moving data.
struct Ways {
  const char* name;
  std::vector<MulticastWay> ways;
  bool adversarial = false;
};

class RandomMulticasts : public ::testing::TestWithParam<Ways> {
 protected:
  static void run(uint32_t letters) {
    const Ways& ways = GetParam();
    const char* const first = getenv("TEST_MULTICAST_SEED");
    const char* const many = getenv("TEST_MULTICASTS");
    const auto seed = static_cast<uint32_t>(first != nullptr ? std::stoul(first) : 1);
    if (many != nullptr)
      letters = static_cast<uint32_t>(std::stoul(many));
    else if (first != nullptr)
      letters = kRandomLetters;
    const uint32_t jobs = (letters + kRandomLetters - 1) / kRandomLetters;
    for (uint32_t i = seed; i < seed + jobs && !HasFailure(); ++i) {
      MulticastWay way = ways.ways[i % ways.ways.size()];
      if (!way.is_usable()) GTEST_SKIP() << testing::kNoDevice;
      if (ways.adversarial) way.loopback_seed = static_cast<int>(i);
      const Plan plan = some_plan(way, i);
      SCOPED_TRACE(plan.describe(i));
      EXPECT_EQ(testing::run_multicasts(way, plan.settings,
                                        [&](const ApiRank& rank) { Worker(rank, plan, i).run(); }),
                "");
    }
  }
};

TEST_P(RandomMulticasts, ComeToTheirMembersInOrder) {
  run((std::string_view(GetParam().name) == "verbs" ? 4 : 10) * kRandomLetters);
}

class RandomMulticastsFull : public RandomMulticasts {};
TEST_P(RandomMulticastsFull, ComeToTheirMembersInOrder) {
  run(std::string_view(GetParam().name) == "verbs" ? 1000 : 20'000);
}

const std::vector<MulticastWay> kNetworks = {{"1,1", "1,1", 2},
                                             {"2,2", "2,2", 4},
                                             {"2,2 cyclic", "2,2", 4, "cyclic"},
                                             {"3,1,2", "3,1,2", 6},
                                             {"3,1,2 cyclic", "3,1,2", 6, "cyclic"},
                                             {"1,1,1", "1,1,1", 3},
                                             {"2,1,2", "2,1,2", 5},
                                             {"2,2,2,1 cyclic", "2,2,2,1", 7, "cyclic"}};
const std::vector<MulticastWay> kServers = {{"1", nullptr, 1}, {"2", nullptr, 2},
                                            {"3", nullptr, 3}, {"5", nullptr, 5},
                                            {"7", nullptr, 7}, {"12", nullptr, 12}};
const std::vector<MulticastWay> kDevices = {{"3,1,2", "3,1,2", 6, nullptr, 0, "verbs"},
                                            {"1,1,1,1", "1,1,1,1", 4, nullptr, 0, "verbs"},
                                            {"2,2 cyclic", "2,2", 4, "cyclic", 0, "verbs"},
                                            {"2,2,2,1", "2,2,2,1", 7, nullptr, 0, "verbs"}};
const Ways kRandomWays[] = {{"shm", kServers},
                            {"loopback", kNetworks},
                            {"adversarial", kNetworks, true},
                            {"verbs", kDevices}};
INSTANTIATE_TEST_SUITE_P(Ways, RandomMulticasts, ::testing::ValuesIn(kRandomWays), testing::named);
INSTANTIATE_TEST_SUITE_P(Ways, RandomMulticastsFull, ::testing::ValuesIn(kRandomWays),
                         testing::named);

}  // namespace
}  // namespace ibcoll
