// Multicasts while ranks die or stand still: who may lack a message is named, all others get it,
// and what has nothing to do with those ranks goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <utility>

#include "tests/faults.h"
#include "tests/multicast_job.h"
#include "tests/named.h"
#include "tests/proc.h"

namespace ibcoll {
namespace {

using testing::acknowledged;
using testing::ApiRank;
using testing::is_stopped;
using testing::Letter;
using testing::multicast_counters;
using testing::MulticastWay;
using testing::progress_until;
using testing::receive;
using testing::SentLetter;
using testing::SharedFlags;
using testing::SharedStage;

constexpr uint64_t kEnd = 1'000'000;
constexpr int kLetters = 100'000;  // until a death is noticed

/// What the processes of a test know of each other.
struct Fates {
  std::atomic<bool> sent_well[kLetters];
  std::atomic<int> gone;  ///< ranks that have done all
};
struct SharedFates {
  Fates* fates =
      new (mmap(nullptr, sizeof(Fates), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Fates{};
  ~SharedFates() { munmap(fates, sizeof(Fates)); }
};

/// A receive of any message learns that a rank has ended.
void expect_end_of(const ApiRank& rank, int victim) {
  const ibcoll_message* message = nullptr;
  testing::expect(rank, ibcoll_multicast_receive(rank.context, -1, &message),
                  IBCOLL_ERR_PEER_FAILED, fmt::format("rank {} ", victim));
}

/// Goes on until all who live have come here: a barrier is not to be had any more.
void leave(const ApiRank& rank, Fates& fates, int living) {
  ++fates.gone;
  while (fates.gone < living && ibcoll_progress(rank.context, nullptr) == IBCOLL_OK) {
  }
}

struct Death {
  const char* name;
  int victim;
  size_t bytes;
  int ranks = 5;
  const char* layout = nullptr;  ///< a single server
  bool passes_on = victim == 1;  ///< what others get comes by the victim
  bool on_machines = false;
  bool leaves_nobody = false;  ///< on its machine

  MulticastWay way() const {
    MulticastWay way{layout == nullptr ? "shm" : "loopback", layout, ranks};
    way.on_machines = on_machines;
    return way;
  }
  /// As the launcher gives it, if there is one.
  int status() const { return on_machines ? 0 : 128 + SIGKILL; }
  /// To all but rank 0, the master, and maybe the victim.
  std::vector<int> others(bool without_victim) const {
    std::vector<int> members;
    for (int rank = 1; rank < ranks; ++rank) {
      if (!without_victim || rank != victim) members.push_back(rank);
    }
    return members;
  }
  /// The letters of rank 0 while the victim dies.
  Letter letter(int number) const {
    return {0, others(false), bytes + static_cast<size_t>(number % 40),
            static_cast<uint64_t>(number)};
  }
  /// To those who are left.
  Letter later() const { return {0, others(true), bytes, kEnd}; }
};

class MulticastDeaths : public ::testing::TestWithParam<Death> {};

/// Whether the dead rank is named, and only those lack the letter that can't but lack it.
bool is_right_end(const ApiRank& rank, ibcoll_status status, const Death& death,
                  const SentLetter& sent) {
  const std::string line = ibcoll_last_error();
  const std::vector<int> missing = sent.missing();
  if (status != IBCOLL_ERR_PEER_FAILED || ibcoll_last_error_scope() != IBCOLL_SCOPE_CALL ||
      line.find(fmt::format("rank {}", death.victim)) == std::string::npos) {
    rank.complain("ended with " + line);
  } else if (std::find(missing.begin(), missing.end(), death.victim) == missing.end()) {
    rank.complain("the dead rank does not lack " + sent.letter().describe());
  } else if (!death.passes_on && missing.size() != 1) {
    rank.complain(
        fmt::format("ranks {} lack {}", fmt::join(missing, ","), sent.letter().describe()));
  } else {
    return true;
  }
  return false;
}

/// Sends until the dead rank makes that impossible; then to those who are left.
void send_past_death(const ApiRank& rank, const Death& death, Fates& fates) {
  const std::string name = fmt::format("rank {}", death.victim);
  std::deque<std::unique_ptr<SentLetter>> sent;
  ibcoll_multicast_options options = acknowledged();
  options.deadline_us = 40'000'000;
  bool failed = false;
  const auto wait_for_oldest = [&] {
    const std::unique_ptr<SentLetter> one = std::move(sent.front());
    sent.pop_front();
    const ibcoll_status status = one->wait();
    fates.sent_well[one->letter().tag] = status == IBCOLL_OK;
    if (status == IBCOLL_OK) return true;
    failed = true;
    return is_right_end(rank, status, death, *one);
  };
  for (int number = 0; number < kLetters; ++number) {
    sent.push_back(std::make_unique<SentLetter>(rank, death.letter(number)));
    ibcoll_status status = IBCOLL_ERR_BUSY;
    while (status == IBCOLL_ERR_BUSY) {
      status = sent.back()->start(options);
      ibcoll_progress(rank.context, nullptr);
    }
    if (status != IBCOLL_OK) {
      const std::string line = ibcoll_last_error();
      if (status != IBCOLL_ERR_PEER_FAILED || line.find(name) == std::string::npos)
        rank.complain("refused with: " + line);
      // It may have acknowledged all that was under way before it died.
      failed = true;
      sent.pop_back();
      break;
    }
    if (sent.size() == 8 && !wait_for_oldest()) return;
  }
  while (!sent.empty()) {
    if (!wait_for_oldest()) return;
  }
  if (!failed) rank.complain("no letter to a dead rank has failed, and none was refused");
  SentLetter refused(rank, death.letter(kLetters));
  if (refused.start() != IBCOLL_ERR_PEER_FAILED) rank.complain("a letter to a dead rank");
  Letter later = death.later();
  for (int i = 0; i < 20; ++i, ++later.tag) {
    SentLetter last(rank, later);
    if (!last.start_sometime(options) || !rank.good(last.wait(), "to those who are left")) return;
  }
}

/// A receive of any message, which may fail once, because of the victim's death: then it goes on.
class Receiver {
 public:
  /// `cause`: it is known how the victim died.
  Receiver(const ApiRank& rank, int victim, bool cause = true)
      : rank_(rank), name_(fmt::format("rank {} {}", victim, cause ? "(" : "")) {}

  /// False: it has failed otherwise.
  bool receive(int64_t timeout_us, const ibcoll_message** message) {
    const ibcoll_status status = ibcoll_multicast_receive(rank_.context, timeout_us, message);
    if (status != IBCOLL_ERR_PEER_FAILED || told_) return rank_.good(status, "receive");
    told_ = true;
    testing::expect(rank_, status, IBCOLL_ERR_PEER_FAILED, name_);
    return receive(timeout_us, message);
  }
  bool told() const { return told_; }

 private:
  const ApiRank& rank_;
  const std::string name_;
  bool told_ = false;
};

/// Takes what comes, in order, until those come that the dead rank is not in.
void receive_past_death(const ApiRank& rank, const Death& death, const Fates& fates) {
  int next = 0;
  Letter later = death.later();
  Receiver receiver(rank, death.victim, !death.leaves_nobody);
  while (later.tag < kEnd + 20) {
    const ibcoll_message* message = nullptr;
    if (!receiver.receive(-1, &message)) return;
    const auto tag = static_cast<int>(message->tag);
    const Letter letter = message->tag < kLetters ? death.letter(tag) : later;
    const std::string wrong = testing::wrong_in(rank, *message, letter);
    if (!wrong.empty()) return rank.complain(wrong);
    rank.good(ibcoll_message_free(rank.context, message), "free");
    if (message->tag >= kEnd) {
      ++later.tag;
      continue;
    }
    if (tag < next) return rank.complain(fmt::format("letter {} after {}", tag, next - 1));
    for (; next < tag; ++next) {
      if (fates.sent_well[next]) rank.complain(fmt::format("letter {} has not come", next));
    }
    ++next;
  }
}

TEST_P(MulticastDeaths, LeaveTheOthersTheirMessages) {
  const Death& death = GetParam();
  const SharedFates shared;
  int status = 0;
  const std::string complaints = testing::run_multicasts(
      death.way(), {},
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        if (me == death.victim) {
          for (int number = 0; number < 5; ++number) {
            if (!receive(rank, death.letter(number))) return;
          }
          raise(SIGKILL);
        }
        if (me == 0) {
          send_past_death(rank, death, *shared.fates);
        } else {
          receive_past_death(rank, death, *shared.fates);
        }
        testing::expect_no_memory(rank);
        leave(rank, *shared.fates, death.ranks - 1);
      },
      &status);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(status, death.status());
  EXPECT_EQ(shared.fates->gone, death.ranks - 1) << "somebody waits for ever";
}

/// Messages of a master that dies come whole or not at all, those of others all.
TEST_P(MulticastDeaths, OfAMasterSpareThoseOfOthers) {
  constexpr int kOfOther = 40;
  const Death& death = GetParam();
  if (death.victim != death.ranks - 1) GTEST_SKIP() << "the same as with another victim";
  const SharedFates shared;
  int status = 0;
  const std::string complaints = testing::run_multicasts(
      death.way(), {},
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        const auto of = [&](int master, int number) {
          return Letter{master, {2, 3, 4}, death.bytes, static_cast<uint64_t>(number)};
        };
        if (me == 0) {
          std::vector<std::unique_ptr<SentLetter>> sent;
          for (int number = 0; number < 6; ++number) {
            sent.push_back(std::make_unique<SentLetter>(rank, of(0, number)));
            if (!sent.back()->start_sometime()) return;
          }
          raise(SIGKILL);
        }
        if (me == 1) {
          for (int number = 0; number < kOfOther; ++number) {
            SentLetter sent(rank, of(1, number));
            if (!sent.start_sometime(acknowledged()) || !rank.good(sent.wait(), "send")) return;
          }
        } else {
          int next[2] = {0, 0};
          Receiver receiver(rank, 0);
          while (next[1] < kOfOther) {
            const ibcoll_message* message = nullptr;
            if (!receiver.receive(-1, &message)) return;
            const int master = message->master;
            const auto tag = static_cast<int>(message->tag);
            if (master > 1 || tag < next[master] || (master == 1 && tag != next[1]))
              return rank.complain(fmt::format("letter {} of rank {}", tag, master));
            next[master] = tag + 1;
            const std::string wrong = testing::wrong_in(rank, *message, of(master, tag));
            if (!wrong.empty()) return rank.complain(wrong);
            rank.good(ibcoll_message_free(rank.context, message), "free");
          }
          for (const ibcoll_message* message = nullptr;;) {
            receiver.receive(0, &message);
            if (message == nullptr) break;
            rank.good(ibcoll_message_free(rank.context, message), "free");
          }
          testing::expect_no_memory(rank);
        }
        leave(rank, *shared.fates, death.ranks - 1);
      },
      &status);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(status, death.status());
  EXPECT_EQ(shared.fates->gone, death.ranks - 1) << "somebody waits for ever";
}

/// A root that has acknowledged may die before it has told the others: one of them has no room for
/// its mails. Neither the master nor they wait for those.
TEST(MulticastRequests, EndWhereARootDiesBeforeItHasToldAll) {
  constexpr int kMany = 50;  // more than the mails that a rank has room for
  const SharedFates shared;
  SharedFlags& flags = SharedFlags::create();
  const auto letter = [](int number) {
    return Letter{0, {1, 2}, 100, static_cast<uint64_t>(number)};
  };
  int status = 0;
  const std::string complaints = testing::run_multicasts(
      {"shm", nullptr, 3}, {},
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        if (!testing::meet(rank)) return;
        if (me == 1) {
          for (int number = 0; number < kMany; ++number) {
            if (!receive(rank, letter(number))) return;
          }
          raise(SIGKILL);
        }
        if (me == 0) {
          flags.await(1, 1);
          std::deque<SentLetter> sent;
          for (int number = 0; number < kMany; ++number) {
            if (!sent.emplace_back(rank, letter(number)).start_sometime(acknowledged())) return;
          }
          expect_end_of(rank, 1);
          for (SentLetter& one : sent)
            testing::expect(rank, one.wait(), IBCOLL_ERR_PEER_FAILED, "rank 1 ");
          flags.raise(0);
          SentLetter last(rank, {0, {2}, 5000, kMany});
          if (last.start_sometime(acknowledged())) rank.good(last.wait(), "to the one who is left");
        } else {
          flags.raise(1);  // it is in no call, until all others know of the death
          flags.await(0, 1);
          Receiver receiver(rank, 1);
          int next = 0;
          while (next <= kMany) {
            const ibcoll_message* message = nullptr;
            if (!receiver.receive(-1, &message)) return;
            // What has come to it, and then what the root had nothing to do with.
            const auto tag = static_cast<int>(message->tag);
            if (tag != next && tag != kMany) rank.complain(fmt::format("letter {}", tag));
            next = tag + 1;
            rank.good(ibcoll_message_free(rank.context, message), "free");
          }
          testing::expect_no_memory(rank);
        }
        leave(rank, *shared.fates, 2);
      },
      &status);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(shared.fates->gone, 2) << "somebody waits for ever";
}

/// A request that nobody is to acknowledge is over when the data may be overwritten: who dies
/// before it was waited for is nothing to it.
TEST(MulticastRequests, ThatNobodyAcknowledgesAreOverBeforeADeath) {
  const SharedFates shared;
  SharedFlags& flags = SharedFlags::create();
  int status = 0;
  const std::string complaints = testing::run_multicasts(
      {"shm", nullptr, 3}, {},
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        if (me == 2) {
          flags.raise(1);  // it is in no call, and never will be
          flags.await(0, 1);
          raise(SIGKILL);
        }
        if (me == 0) {
          flags.await(1, 1);
          SentLetter sent(rank, {0, {2}, 100, 0});
          if (!sent.start_sometime()) return;
          flags.raise(0);
          expect_end_of(rank, 2);
          rank.good(sent.wait(), "wait");
          if (!sent.missing().empty()) rank.complain("ranks are missing that nobody waits for");
        }
        leave(rank, *shared.fates, 2);
      },
      &status);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(shared.fates->gone, 2) << "somebody waits for ever";
}

/// Who waits for anybody's message learns of each death once, and goes on with those who are left.
TEST(MulticastReceives, AreToldOfEachDeathOnce) {
  const SharedFates shared;
  const SharedStage stage;
  int status = 0;
  const std::string complaints = testing::run_multicasts(
      {"shm", nullptr, 4}, {},
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        if (!testing::meet(rank)) return;
        if (me == 0) {
          SentLetter sent(rank, {0, {1, 2}, 100, 0});
          if (!sent.start_sometime(acknowledged()) || !rank.good(sent.wait(), "send")) return;
          while (stage->calls[1] + stage->calls[2] < 2) usleep(1000);
          raise(SIGKILL);
        }
        if (me == 3) {
          while (stage->calls[1] + stage->calls[2] < 4) {
            ibcoll_progress(rank.context, nullptr);
            usleep(1000);
          }
          // To one that has been told, and waits again.
          SentLetter sent(rank, {3, {1, 2}, 100, 1});
          if (!sent.start_sometime(acknowledged()) || !rank.good(sent.wait(), "send")) return;
          raise(SIGKILL);
        }
        if (!receive(rank, {0, {1, 2}, 100, 0})) return;
        ++stage->calls[me];
        const ibcoll_message* message = nullptr;
        // Waits, and looks.
        const int64_t timeout_us = me == 1 ? -1 : 0;
        const auto fails_because_of = [&](int victim) {
          ibcoll_status result = IBCOLL_OK;
          while (result == IBCOLL_OK && message == nullptr)
            result = ibcoll_multicast_receive(rank.context, timeout_us, &message);
          testing::expect(rank, result, IBCOLL_ERR_PEER_FAILED, fmt::format("rank {} ", victim));
        };
        fails_because_of(0);
        ++stage->calls[me];
        if (!receive(rank, {3, {1, 2}, 100, 1})) return;
        fails_because_of(3);  // of which may be known only that it has left
        leave(rank, *shared.fates, 2);
      },
      &status);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(shared.fates->gone, 2) << "somebody waits for ever";
}

/// After a death ranks leave one by one. Who waits for anybody's message learns of that, too.
TEST(MulticastReceives, AreToldOfThoseThatLeaveAfterADeath) {
  const SharedFates shared;
  int status = 0;
  const std::string complaints = testing::run_multicasts(
      {"shm", nullptr, 3}, {},
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        if (!testing::meet(rank)) return;
        if (me == 2) raise(SIGKILL);
        expect_end_of(rank, 2);
        if (me == 1) _exit(0);  // leaving would be an error
        expect_end_of(rank, 1);
        ++shared.fates->gone;
      },
      &status);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(shared.fates->gone, 1) << "rank 0 waits for ever";
}

/// Two that die at the same time are told of one after the other.
TEST(MulticastReceives, AreToldOfDeathsThatAreFoundTogether) {
  const SharedFates shared;
  const SharedStage stage;
  int status = 0;
  const std::string complaints = testing::run_multicasts(
      {"shm", nullptr, 4}, {},
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        if (!testing::meet(rank)) return;
        if (me == 1 || me == 2) {
          while (stage->calls[0] + stage->calls[3] < 2) usleep(1000);
          usleep(20'000);  // they wait by then
          raise(SIGKILL);
        }
        ++stage->calls[me];
        uint64_t told = 0;
        for (int i = 0; i < 2; ++i) {
          const ibcoll_message* message = nullptr;
          const ibcoll_status result = ibcoll_multicast_receive(rank.context, -1, &message);
          testing::expect(rank, result, IBCOLL_ERR_PEER_FAILED, "nothing that it sends to sets");
          for (const int victim : {1, 2}) {
            if (strstr(ibcoll_last_error(), fmt::format("rank {} ", victim).c_str()) != nullptr)
              told |= uint64_t{1} << victim;
          }
        }
        if (told != 6) rank.complain(fmt::format("it is told of {:#x}", told));
        leave(rank, *shared.fates, 2);
      },
      &status);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(shared.fates->gone, 2) << "somebody waits for ever";
}

/// Rank 1 passes on what rank 0 sent when all know that it has died.
TEST(MulticastReceives, NothingComesOfARankWhoseDeathWasTold) {
  const SharedFates shared;
  const SharedStage stage;
  int status = 0;
  const std::string complaints = testing::run_multicasts(
      {"shm", nullptr, 3}, {},
      [&](const ApiRank& rank) {
        const int me = ibcoll_rank(rank.context);
        if (!testing::meet(rank)) return;
        if (me == 0) {
          while (stage->calls[1] == 0) usleep(1000);
          SentLetter sent(rank, {0, {1, 2}, 100, 0});
          if (!sent.start_sometime()) return;
          for (int i = 0; i < 100; ++i) ibcoll_progress(rank.context, nullptr);
          raise(SIGKILL);
        }
        if (me == 1) {
          ++stage->calls[1];  // from here on it makes no progress
          while (stage->calls[2] == 0) usleep(1000);
        } else {
          expect_end_of(rank, 0);
          const ibcoll_message* message = nullptr;
          ++stage->calls[2];
          for (int i = 0; i < 300 && message == nullptr; ++i) {
            ibcoll_multicast_receive(rank.context, 1000, &message);
          }
          if (message != nullptr) rank.complain("a message of rank 0 has come after all");
          ++stage->calls[2];
        }
        while (stage->calls[2] < 2) {
          ibcoll_progress(rank.context, nullptr);
          usleep(1000);
        }
        leave(rank, *shared.fates, 2);
      },
      &status);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(shared.fates->gone, 2) << "somebody waits for ever";
}

const Death kDeaths[] = {{"short_of_the_root", 1, 100},
                         {"short_of_one_between", 2, 100},
                         {"short_of_the_last", 4, 100},
                         {"long_of_the_root", 1, 700'000},
                         {"long_of_one_between", 2, 700'000},
                         {"long_of_the_last", 4, 700'000},
                         // So many that they acknowledge to the root.
                         {"short_of_the_root_of_many", 1, 100, 12},
                         {"long_of_the_root_of_many", 1, 700'000, 12},
                         {"short_of_one_of_many", 7, 100, 12},
                         {"short_of_another_servers_leader", 2, 100, 5, "2,3", true},
                         {"long_of_another_servers_leader", 2, 700'000, 5, "2,3", true},
                         {"short_of_another_servers_last", 4, 100, 5, "2,3"},
                         {"long_of_another_servers_last", 4, 700'000, 5, "2,3"},
                         {"long_of_the_root_on_its_server", 1, 700'000, 5, "1,1,1,1,1"},
                         {"short_of_a_server_between", 3, 100, 5, "1,1,1,1,1", true},
                         {"long_of_a_server_between", 3, 700'000, 5, "1,1,1,1,1", true},
                         {"short_of_another_machines_leader", 2, 100, 5, "2,3", true, true},
                         {"long_of_another_machines_last", 4, 700'000, 5, "2,3", false, true},
                         {"short_of_a_machine_between", 3, 100, 5, "1,1,1,1,1", true, true, true}};
INSTANTIATE_TEST_SUITE_P(Deaths, MulticastDeaths, ::testing::ValuesIn(kDeaths), testing::named);

struct Stop {
  MulticastWay way;
  int victim;
  size_t bytes;
};

class MulticastStops : public ::testing::TestWithParam<Stop> {};

/// One rank stands still until another master has sent much to all others.
TEST_P(MulticastStops, HoldUpNothingThatDoesNotNeedTheRank) {
  constexpr int kSent = 200, kBoth = 6;
  const Stop& stop = GetParam();
  if (!stop.way.is_usable()) GTEST_SKIP() << testing::kNoDevice;
  const SharedStage stage;
  EXPECT_EQ(
      testing::run_multicasts(
          stop.way, {{"IBCOLL_MULTICAST_WINDOW", "4"}},
          [&](const ApiRank& rank) {
            const int me = ibcoll_rank(rank.context);
            stage->pids[me] = getpid();
            const auto to_all = [&](int number) {
              return Letter{0, {2, 3, 4}, stop.bytes, static_cast<uint64_t>(number)};
            };
            const auto to_others = [&](int number) {
              Letter letter{1, {}, stop.bytes / 10, static_cast<uint64_t>(number)};
              for (const int member : {2, 3, 4}) {
                if (member != stop.victim) letter.members.push_back(member);
              }
              return letter;
            };
            if (!testing::meet(rank)) return;
            if (me == stop.victim) raise(SIGSTOP);
            if (me == 0) {
              std::vector<std::unique_ptr<SentLetter>> sent;
              for (int number = 0; number < kBoth; ++number) {
                sent.push_back(std::make_unique<SentLetter>(rank, to_all(number)));
                if (!sent.back()->start_sometime(acknowledged())) return;
              }
              for (const auto& one : sent) {
                if (!rank.good(one->wait(), "wait")) return;
              }
            } else if (me == 1) {
              // Nothing can wake it before.
              if (!progress_until(rank, [&] { return is_stopped(stage->pids[stop.victim]); }))
                return;
              for (int number = 0; number < kSent; ++number) {
                SentLetter sent(rank, to_others(number));
                if (!sent.start_sometime(acknowledged()) || !rank.good(sent.wait(), "send")) return;
              }
              // What goes to the stopped rank can't have come.
              kill(stage->pids[stop.victim], SIGCONT);
            } else {
              int next[2] = {0, me == stop.victim ? kSent : 0};
              while (next[0] < kBoth || next[1] < kSent) {
                const ibcoll_message* message = nullptr;
                if (!rank.good(ibcoll_multicast_receive(rank.context, -1, &message), "receive"))
                  return;
                const bool is_first = message->master == 0;
                int& number = next[is_first ? 0 : 1];
                const std::string wrong = testing::wrong_in(
                    rank, *message, is_first ? to_all(number) : to_others(number));
                if (!wrong.empty()) return rank.complain(wrong);
                ++number;
                rank.good(ibcoll_message_free(rank.context, message), "free");
              }
            }
            testing::meet(rank);
          }),
      "");
}

const MulticastWay kVerbs{"verbs", "1,1,1,2", 5, nullptr, 0, "verbs"};
const Stop kStops[] = {{{"shm", nullptr, 5}, 4, 1000},
                       {{"shm", nullptr, 5}, 2, 1000},
                       {{"shm", nullptr, 5}, 4, 300'000},
                       {{"shm", nullptr, 5}, 2, 300'000},
                       {{"loopback", "1,1,1,1,1", 5}, 3, 1000},
                       {{"loopback", "1,1,1,1,1", 5}, 2, 300'000},
                       {{"loopback", "1,1,1,1,1", 5}, 4, 300'000},
                       {{"mixed", "2,3", 5}, 3, 300'000},
                       {kVerbs, 3, 1000},
                       {kVerbs, 2, 300'000},
                       {kVerbs, 4, 300'000}};
INSTANTIATE_TEST_SUITE_P(Stops, MulticastStops, ::testing::ValuesIn(kStops),
                         [](const ::testing::TestParamInfo<Stop>& info) {
                           return fmt::format("{}_{}_bytes_of_rank_{}", info.param.way.name,
                                              info.param.bytes, info.param.victim);
                         });

}  // namespace
}  // namespace ibcoll
