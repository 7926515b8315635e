// Messages between two ranks of a server, straight through the transport: what is in the ring and
// what is set aside follows from what the test does, not from timing.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "engine/bootstrap/machine_info.h"
#include "shm/transport.h"
#include "tests/job.h"
#include "tests/launched.h"
#include "tests/proc.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using testing::pattern;

struct TransportRank {
  Bootstrap& bootstrap;
  shm::Transport& transport;
  Complaints& complaints;
  std::span<Bell> bells;  ///< of all ranks

  int me() const { return bootstrap.rank(); }
  void complain(const std::string& text) const { complaints.add(me(), text); }
  void meet() const {
    transport.poll();
    meet_idly();
  }
  /// Without progress.
  void meet_idly() const {
    if (const Status met = bootstrap.barrier(); !met) complain(met.error().message);
  }
};

/// Runs `body` on the ranks of a job, which have a transport each. Gives what they complain of.
std::string on_servers(const Shape& shape, bool threads, const shm::Options& options,
                       const std::function<void(const TransportRank&)>& body) {
  const int ranks = shape.ranks();
  Complaints complaints(ranks);
  const size_t bytes = static_cast<size_t>(ranks) * sizeof(Bell);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const std::span<Bell> bells(static_cast<Bell*>(memory), static_cast<size_t>(ranks));
  const RankMain main = [&](Bootstrap& bootstrap) {
    auto transport = shm::Transport::create(bootstrap, shape, bells, options);
    if (!transport) {
      complaints.add(bootstrap.rank(), transport.error().message);
      return 1;
    }
    body({bootstrap, **transport, complaints, bells});
    return bootstrap.barrier() ? 0 : 1;
  };
  LaunchOptions launch;
  launch.ranks = ranks;
  launch.on_failure = [](const Failure&) {};
  const Result<int> result = threads ? launch_threads(ranks, main) : launch_processes(launch, main);
  munmap(memory, bytes);
  if (!result) return result.error().message;
  return *result != 0 && complaints.all().empty() ? "a rank failed" : complaints.all();
}

/// The same on the ranks of one server.
std::string on_server(int ranks, bool threads, const shm::Options& options,
                      const std::function<void(const TransportRank&)>& body) {
  return on_servers(Shape::single_server(ranks), threads, options, body);
}

/// Rank 0 sleeps as rank 1 has no room for its mails any more, and rank 1 takes them.
void refuse_mails(const TransportRank& rank) {
  const std::vector<std::byte> mail(8);
  Bell& bell = rank.bells[0];
  uint32_t announced = 0;
  if (rank.me() == 0) {
    while (rank.transport.offer_mail(1, mail)) {
    }
    rank.transport.poll();
    announced = announce_sleep(bell);
    if (rank.transport.offer_mail(1, mail)) rank.complain("there is room");
  }
  rank.meet_idly();
  if (rank.me() == 1) {
    while (!rank.transport.take_mail().empty()) {
    }
    rank.transport.poll();
  }
  rank.meet_idly();
  if (rank.me() != 0) return;
  if (bell.rings.load() == announced) rank.complain("nobody has rung");
  end_sleep(bell);
  if (!rank.transport.offer_mail(1, mail)) rank.complain("there is no room");
}

TEST(SharedMemory, WakesWhoHasFoundNoRoomForAMail) {
  for (const bool threads : {false, true}) EXPECT_EQ(on_server(2, threads, {}, refuse_mails), "");
}

shm::Options with_heaps() {
  shm::Options options;
  options.heap_bytes = size_t{1} << 20;
  return options;
}

constexpr MessageKey kFirst{.group = 1, .sequence = 7, .program = 5};
constexpr MessageKey kOther{.group = 2, .sequence = 0, .program = 6};

/// Two messages of one key, the first of which is set aside while the second stands in the ring.
/// Rank 0 offers them with offer(number, ticket), rank 1 takes them with take(number, progress) and
/// compares them with is_right(number).
struct TwoMessages {
  std::function<Offer(int number, uint32_t& ticket)> offer;
  std::function<Pull(int number, size_t& progress)> take;
  std::function<bool(int number)> is_right;
};

void pass_on(const TransportRank& rank, const TwoMessages& messages) {
  for (int number = 0; number < 2; ++number) {
    uint32_t ticket = 0;
    if (rank.me() == 0) {
      if (messages.offer(number, ticket) != Offer::kPending)
        return rank.complain("the message is not long");
    }
    rank.meet();
    size_t nothing = 0;
    if (rank.me() == 1 && number == 0 &&
        rank.transport.pull(0, kOther, nullptr, 0, false, nothing) != Pull::kNotYet)
      return rank.complain("a message of another key came");
    rank.meet();
  }
  for (int number = 0; rank.me() == 1 && number < 2; ++number) {
    size_t progress = 0;
    Pull pulled = Pull::kPartial;
    for (int i = 0; pulled == Pull::kPartial && i < 1000; ++i)
      pulled = messages.take(number, progress);
    if (pulled != Pull::kDone) return rank.complain("the message does not end");
    if (progress != 0) return rank.complain("there is progress after the end");
    if (!messages.is_right(number))
      return rank.complain("message " + std::to_string(number) + " is wrong");
  }
  rank.meet();
}

/// Takes what comes for what it is, in whole elements.
const char* replace(void* target, const void* source, size_t bytes, void* element_bytes) {
  if (bytes % *static_cast<size_t*>(element_bytes) != 0) return "part of an element";
  std::memcpy(target, source, bytes);
  return nullptr;
}

/// Elements of 24 bytes do not divide what one pull reads.
void combine_what_was_set_aside(const TransportRank& rank) {
  size_t element_bytes = 24;
  const size_t bytes = element_bytes * 20'000;
  std::vector<std::vector<std::byte>> sent(2, std::vector<std::byte>(bytes));
  for (uint32_t number = 0; number < 2; ++number) {
    for (size_t i = 0; i < bytes; ++i) sent[number][i] = pattern(0, 1, i, number);
  }
  std::vector<std::byte> got(bytes);
  pass_on(rank, {[&](int number, uint32_t& ticket) {
                   return rank.transport.offer(1, kFirst, sent[number].data(), bytes, ticket);
                 },
                 [&](int, size_t& progress) {
                   Combining how{replace, &element_bytes, element_bytes};
                   return rank.transport.pull_combined(0, kFirst, got.data(), bytes, how, progress);
                 },
                 [&](int number) { return got == sent[number]; }});
}

TEST(SharedMemory, AMessageThatWasSetAsideIsCombinedToItsEndBeforeTheNextOne) {
  for (const bool threads : {true, false})
    EXPECT_EQ(on_server(2, threads, with_heaps(), combine_what_was_set_aside), "");
}

/// Blocks of `run` bytes, 4 KB apart from the end of one to the begin of the next.
StridedBlock in_runs(uint64_t run, uint64_t bytes) {
  StridedBlock block;
  block.bytes = bytes;
  block.run = run;
  block.count = bytes / run;
  block.stride = static_cast<int64_t>(run) + 4096;
  return block;
}

/// Where the receiver's runs are short the sender's are read one by one, each shorter than what one
/// pull reads; where they are long, too, all at once.
void read_strided_messages(const TransportRank& rank, uint64_t run_at_target) {
  constexpr uint64_t kRun = 20'480, kBytes = 20 * kRun;
  const StridedBlock from = in_runs(kRun, kBytes), to = in_runs(run_at_target, kBytes);
  const auto reach = [](const StridedBlock& block) {
    return block.count * static_cast<size_t>(block.stride);
  };
  std::vector<std::vector<std::byte>> sent(2, std::vector<std::byte>(reach(from)));
  for (uint32_t number = 0; number < 2; ++number) {
    for (size_t i = 0; i < reach(from); ++i) sent[number][i] = pattern(0, 1, i, number);
  }
  std::vector<std::byte> got(reach(to)), flat(kBytes), want(kBytes);
  const StridedView target{got.data(), &to, 1, 0};
  pass_on(rank, {[&](int number, uint32_t& ticket) {
                   std::byte* const base = sent[number].data();
                   const StridedMemory memory{base, &from, base, reach(from), false};
                   return rank.transport.offer_strided(1, kFirst, memory, {base, &from, 1, 0},
                                                       kBytes, ticket);
                 },
                 [&](int, size_t& progress) {
                   return rank.transport.pull_strided(0, kFirst, target, kBytes, progress);
                 },
                 [&](int number) {
                   copy_strided({flat.data()}, target, kBytes);
                   copy_strided({want.data()}, {sent[number].data(), &from, 1, 0}, kBytes);
                   return flat == want;
                 }});
}

TEST(SharedMemory, AStridedMessageThatWasSetAsideIsReadToItsEndBeforeTheNextOne) {
  for (const uint64_t run : {512, 8192}) {
    EXPECT_EQ(on_server(2, false, with_heaps(),
                        [run](const TransportRank& rank) { read_strided_messages(rank, run); }),
              "")
        << "runs of " << run << " bytes at the receiver";
  }
}

/// What rank 0 sends of calls that rank 1 has not come to.
struct Flood {
  const char* name;
  size_t bytes;
  int messages;
  bool private_reads = true;
};

/// Messages of other keys than the one that is waited for are set aside up to a limit, and held
/// back beyond it; the one waited for comes, and all others do afterwards.
void set_aside_within_limits(const TransportRank& rank, const Flood& flood) {
  constexpr MessageKey kLast{.group = 3, .sequence = 0, .program = 8};
  shm::Transport& transport = rank.transport;
  const auto messages = static_cast<uint32_t>(flood.messages);
  const auto key = [](uint32_t number) {
    MessageKey one = kFirst;
    one.group = 10 + number % 3;
    one.sequence = number / 3;
    return one;
  };
  const auto right = [&](const std::vector<std::byte>& data, uint32_t number) {
    for (size_t i = 0; i < data.size(); ++i) {
      if (data[i] != pattern(0, 1, i, number)) return false;
    }
    return true;
  };
  std::vector<std::vector<std::byte>> data(messages, std::vector<std::byte>(flood.bytes));
  std::vector<std::byte> last(100);
  if (rank.me() == 0) {
    for (uint32_t number = 0; number < messages; ++number) {
      for (size_t i = 0; i < flood.bytes; ++i) data[number][i] = pattern(0, 1, i, number);
    }
    for (size_t i = 0; i < last.size(); ++i) last[i] = pattern(0, 1, i, messages);
    std::vector<uint32_t> pending;
    const auto offer = [&](const MessageKey& one, const std::vector<std::byte>& from) {
      uint32_t ticket = 0;
      Offer offered = Offer::kNoRoom;
      while (offered == Offer::kNoRoom) {
        offered = transport.offer(1, one, from.data(), from.size(), ticket);
        if (offered == Offer::kNoRoom && !transport.poll()) {
          transport.relieve();
          sched_yield();
        }
      }
      if (offered == Offer::kPending) pending.push_back(ticket);
      return offered != Offer::kNoMemory;
    };
    for (uint32_t number = 0; number < messages; ++number) {
      if (!offer(key(number), data[number])) return rank.complain("no memory");
    }
    if (!offer(kLast, last)) return rank.complain("no memory");
    while (!pending.empty()) {
      transport.poll();
      std::erase_if(pending, [&](uint32_t ticket) { return transport.completed(1, ticket); });
      sched_yield();
    }
  } else {
    // Beside the limit: a ring, and for each message that is under way less than this.
    const size_t most =
        transport.most_set_aside_bytes() + (size_t{512} << 10) + size_t{200} * messages;
    size_t progress = 0;
    while (transport.pull(0, kLast, last.data(), last.size(), false, progress) != Pull::kDone) {
      transport.poll();
      transport.relieve();
      sched_yield();
    }
    if (transport.set_aside_bytes(0) > most)
      return rank.complain(std::to_string(transport.set_aside_bytes(0)) + " bytes were set aside");
    if (!right(last, messages)) return rank.complain("what was waited for is wrong");
    for (uint32_t number = 0; number < messages; ++number) {
      // Who hears that nothing has come may take another message first.
      bool untold = false;
      Pull pulled = Pull::kNotYet;
      for (progress = 0; pulled != Pull::kDone;) {
        const size_t before = progress;
        pulled = transport.pull(0, key(number), data[number].data(), flood.bytes, false, progress);
        untold |= pulled == Pull::kNotYet && progress != before;
        transport.poll();
        sched_yield();
      }
      if (untold) rank.complain("it is not told what has come of a message");
      if (!right(data[number], number))
        return rank.complain("message " + std::to_string(number) + " is wrong");
    }
    if (transport.set_aside_bytes(0) != 0) rank.complain("something is still set aside");
  }
  rank.meet();
}

class SharedMemoryFloods : public ::testing::TestWithParam<Flood> {};

TEST_P(SharedMemoryFloods, AreSetAsideWithinLimits) {
  shm::Options options = with_heaps();
  options.allow_process_vm = GetParam().private_reads;
  EXPECT_EQ(on_server(2, false, options,
                      [](const TransportRank& rank) { set_aside_within_limits(rank, GetParam()); }),
            "");
}

const Flood kFloods[] = {{"short", 30, 3000},
                         {"short_through_the_ring", 30, 3000, false},
                         {"empty", 0, 3000},
                         {"middling", 2000, 5000},
                         {"middling_through_the_ring", 2000, 2000, false},
                         {"long", 200'000, 60},
                         {"long_through_the_ring", 200'000, 60, false},
                         {"one_of_many_chunks", 30'000'000, 1, false}};
INSTANTIATE_TEST_SUITE_P(Ways, SharedMemoryFloods, ::testing::ValuesIn(kFloods),
                         [](const auto& info) { return std::string(info.param.name); });
std::vector<std::byte> message_of(size_t bytes, uint32_t number) {
  std::vector<std::byte> message(bytes);
  for (size_t i = 0; i < bytes; ++i) message[i] = pattern(0, 1, i, number);
  return message;
}

/// Pulls until the message has come; makes progress, as others may wait for this rank.
Pull pull_all(const TransportRank& rank, const MessageKey& key, std::vector<std::byte>& got,
              size_t progress = 0) {
  while (true) {
    const Pull pulled = rank.transport.pull(0, key, got.data(), got.size(), false, progress);
    if (pulled != Pull::kPartial && pulled != Pull::kNotYet) return pulled;
    rank.transport.poll();
    sched_yield();
  }
}

shm::Options without_reading() {
  shm::Options options = with_heaps();
  options.allow_process_vm = false;
  return options;
}

constexpr size_t kLong = size_t{1} << 20;

TEST(SharedMemory, GoesThroughTheRingInOrderWhereTheKernelForbidsToRead) {
  const auto body = [](const TransportRank& rank) {
    const std::vector<std::byte> first = message_of(kLong, 0), second = message_of(100, 1);
    if (rank.me() == 0) {
      uint32_t ticket = 0, other = 0;
      if (rank.transport.offer(1, kFirst, first.data(), kLong, ticket) != Offer::kPending)
        rank.complain("the message is not long");
      rank.meet();
      rank.meet_idly();  // its peer has taken some
      if (rank.transport.offer(1, kOther, second.data(), second.size(), other) != Offer::kNoRoom)
        rank.complain("a message overtakes the chunks of another");
      while (!rank.transport.completed(1, ticket)) {
        rank.transport.poll();
        sched_yield();
      }
      if (rank.transport.offer(1, kOther, second.data(), second.size(), other) != Offer::kDone)
        rank.complain("there is no room behind the chunks");
    } else {
      rank.meet();
      std::vector<std::byte> got(kLong), got_second(second.size());
      size_t progress = 0;
      if (rank.transport.pull(0, kFirst, got.data(), kLong, false, progress) != Pull::kPartial)
        rank.complain("nothing comes of the long message");
      rank.meet_idly();
      if (pull_all(rank, kFirst, got, progress) != Pull::kDone || got != first)
        rank.complain("the long message is wrong");
      if (pull_all(rank, kOther, got_second) != Pull::kDone || got_second != second)
        rank.complain("the short message is wrong");
    }
    rank.meet();
  };
  EXPECT_EQ(on_server(2, false, without_reading(), body), "");
}

TEST(SharedMemory, AMessageInChunksThatIsTakenBackLeavesRoomForOthers) {
  const auto body = [](const TransportRank& rank) {
    const std::vector<std::byte> first = message_of(kLong, 0), second = message_of(kLong, 1);
    uint32_t ticket = 0;
    if (rank.me() == 0) {
      if (rank.transport.offer(1, kFirst, first.data(), kLong, ticket) != Offer::kPending)
        rank.complain("the message is not long");
      if (!rank.transport.retract(1, ticket) || !rank.transport.completed(1, ticket))
        rank.complain("the message is not taken back");
    }
    rank.meet();
    if (rank.me() == 1) rank.transport.drop(kFirst.group);
    rank.meet();
    if (rank.me() == 0) {
      if (rank.transport.offer(1, kOther, second.data(), kLong, ticket) != Offer::kPending)
        rank.complain("there is no room behind what was taken back");
      while (!rank.transport.completed(1, ticket)) {
        rank.transport.poll();
        sched_yield();
      }
    } else {
      std::vector<std::byte> got(kLong);
      if (pull_all(rank, kOther, got) != Pull::kDone || got != second)
        rank.complain("the next message is wrong");
    }
    rank.meet();
  };
  EXPECT_EQ(on_server(2, false, without_reading(), body), "");
}

TEST(SharedMemory, TakesNoneForRingsOfThoseWhoHaveSentNothing) {
  constexpr int kRanks = 6;
  const auto body = [](const TransportRank& rank) {
    const auto look = [&](Rank peer) {
      size_t nothing = 0;
      if (peer == rank.me()) return;
      if (rank.transport.pull(peer, kFirst, nullptr, 0, false, nothing) != Pull::kNotYet)
        rank.complain("something came");
    };
    look((rank.me() + 1) % kRanks);  // whether there are rings stands in a page of its own
    const size_t before = testing::resident_bytes("ibcoll-server");
    for (Rank peer = 0; peer < kRanks; ++peer) look(peer);
    const size_t after = testing::resident_bytes("ibcoll-server");
    if (before == 0 || after > before)
      rank.complain(std::to_string(after) + " bytes, before " + std::to_string(before));
    rank.meet();
  };
  EXPECT_EQ(on_server(kRanks, false, with_heaps(), body), "");
}

/// Offers messages of kFirst until there is no room for one more.
void fill_ring(const TransportRank& rank) {
  const std::vector<std::byte> message(8);
  uint32_t ticket = 0;
  MessageKey key = kFirst;
  while (rank.transport.offer(1, key, message.data(), message.size(), ticket) == Offer::kDone)
    ++key.sequence;
}

/// What stands in the ring is for calls that come later, and what is waited for finds no room.
/// A rank that has been idle for long looks whether it can make room.
void relieve_where_there_is_room(const TransportRank& rank) {
  const std::array<std::byte, 8> data{};
  uint32_t ticket = 0;
  if (rank.me() == 0) {
    rank.transport.offer(1, kFirst, data.data(), data.size(), ticket);
    rank.transport.poll();
    rank.transport.relieve();
  }
  rank.meet_idly();
  if (rank.me() == 1) {
    rank.transport.relieve();
    if (rank.transport.set_aside_bytes(0) != 0) rank.complain("it was copied for nothing");
  }
  rank.meet_idly();
}

TEST(SharedMemory, NothingIsSetAsideWhereNobodyLacksRoom) {
  for (const bool threads : {false, true})
    EXPECT_EQ(on_server(2, threads, {}, relieve_where_there_is_room), "");
}

TEST(SharedMemory, WhoFindsNoRoomHasTheRingEmptiedEachTime) {
  const auto body = [](const TransportRank& rank) {
    std::vector<std::byte> last(8);
    for (uint32_t round = 0; round < 2; ++round) {
      MessageKey key = kOther;
      key.sequence = round;
      const auto offer = [&] {
        uint32_t ticket = 0;
        return rank.transport.offer(1, key, last.data(), last.size(), ticket);
      };
      if (rank.me() == 0) fill_ring(rank);
      rank.meet();
      if (rank.me() == 1 && rank.transport.relieve()) rank.complain("nobody has asked for room");
      rank.meet();
      if (rank.me() == 0) {
        if (offer() != Offer::kNoRoom) rank.complain("the ring is not full");
        rank.transport.relieve();
      }
      rank.meet();
      if (rank.me() == 1 && !rank.transport.relieve()) rank.complain("nothing is set aside");
      rank.meet();
      if (rank.me() == 0 && offer() != Offer::kDone) rank.complain("there is no room");
      rank.meet();
      size_t progress = 0;
      if (rank.me() == 1 &&
          rank.transport.pull(0, key, last.data(), last.size(), false, progress) != Pull::kDone)
        rank.complain("what was waited for has not come");
      rank.meet();
    }
  };
  for (const bool threads : {true, false}) EXPECT_EQ(on_server(2, threads, with_heaps(), body), "");
}

/// Chunks end inside elements, which are combined whole.
TEST(SharedMemory, CombinesWhatComesInChunks) {
  const auto body = [](const TransportRank& rank) {
    size_t element_bytes = 24;
    const size_t bytes = element_bytes * 40'000;
    std::vector<std::byte> sent = message_of(bytes, 0);
    if (rank.me() == 0) {
      uint32_t ticket = 0;
      if (rank.transport.offer(1, kFirst, sent.data(), bytes, ticket) != Offer::kPending)
        rank.complain("the message is not long");
      while (!rank.transport.completed(1, ticket)) {
        rank.transport.poll();
        sched_yield();
      }
    } else {
      std::vector<std::byte> got(bytes);
      Combining how{replace, &element_bytes, element_bytes};
      Pull pulled = Pull::kNotYet;
      for (size_t progress = 0; pulled == Pull::kNotYet || pulled == Pull::kPartial;) {
        pulled = rank.transport.pull_combined(0, kFirst, got.data(), bytes, how, progress);
        if (how.failure != nullptr) return rank.complain(how.failure);
        rank.transport.poll();
        sched_yield();
      }
      if (pulled != Pull::kDone || got != sent) rank.complain("the message is wrong");
    }
    rank.meet();
  };
  EXPECT_EQ(on_server(2, false, without_reading(), body), "");
}

/// Messages of kOther are set aside until nothing more may come unasked, which rank 1 says by
/// `enough`; gives the key of the next one.
MessageKey set_much_aside(const TransportRank& rank, std::atomic<bool>& enough) {
  const std::vector<std::byte> message(2000);
  MessageKey key = kOther;
  while (!enough) {
    for (int i = 0; i < 20; ++i, ++key.sequence) {
      uint32_t ticket = 0;
      if (rank.me() == 0 &&
          rank.transport.offer(1, key, message.data(), message.size(), ticket) != Offer::kDone)
        rank.complain("there is no room for what is to be set aside");
    }
    rank.meet();
    size_t nothing = 0;
    if (rank.me() == 1) {
      rank.transport.pull(0, kFirst, nullptr, 0, false, nothing);
      enough = rank.transport.set_aside_bytes(0) > rank.transport.most_set_aside_bytes();
    }
    rank.meet();
  }
  return key;
}

/// A group ends while what a rank has asked for stands in the ring, or among what it has set aside:
/// that is data to the last byte, and no address.
TEST(SharedMemory, AnAnswerThatNobodyTakesIsDroppedUnread) {
  for (const bool aside : {false, true}) {
    InSharedMemory<std::atomic<bool>> enough;
    const auto body = [&, aside](const TransportRank& rank) {
      shm::Transport& transport = rank.transport;
      const std::vector<std::byte> first(kLong, std::byte{0x5a}), second = message_of(kLong, 1);
      std::vector<std::byte> got(kLong);
      const MessageKey next = set_much_aside(rank, *enough);
      uint32_t ticket = 0;
      if (rank.me() == 0 &&
          transport.offer(1, kFirst, first.data(), kLong, ticket) != Offer::kPending)
        rank.complain("the message is not long");
      rank.meet();
      size_t progress = 0;
      if (rank.me() == 1 &&
          transport.pull(0, kFirst, got.data(), kLong, false, progress) != Pull::kNotYet)
        rank.complain("the message comes unasked");
      rank.meet();
      rank.meet();  // rank 0 has answered
      if (rank.me() == 1) {
        const size_t before = transport.set_aside_bytes(0);
        if (aside) transport.pull(0, next, got.data(), kLong, false, progress);
        if (aside != (transport.set_aside_bytes(0) != before)) rank.complain("there is no answer");
        transport.drop(kFirst.group);
      } else {
        transport.retract(1, ticket);
      }
      rank.meet();
      if (rank.me() == 0) {
        if (transport.offer(1, next, second.data(), kLong, ticket) != Offer::kPending)
          rank.complain("there is no room behind what was dropped");
        while (!transport.completed(1, ticket)) {
          transport.poll();
          sched_yield();
        }
      } else if (pull_all(rank, next, got) != Pull::kDone || got != second) {
        rank.complain("the next message is wrong");
      }
      rank.meet();
    };
    EXPECT_EQ(on_server(2, false, without_reading(), body), "") << "set aside: " << aside;
  }
}

TEST(SharedMemory, WhatItsSenderHasNoMoreIsAnErrorThatNamesIt) {
  const auto body = [](const TransportRank& rank) {
    if (rank.me() == 0) {
      void* const memory =
          mmap(nullptr, kLong, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      uint32_t ticket = 0;
      if (rank.transport.offer(1, kFirst, memory, kLong, ticket) != Offer::kPending)
        rank.complain("the message is not long");
      munmap(memory, kLong);
    }
    rank.meet();
    if (rank.me() == 1) {
      std::vector<std::byte> got(kLong);
      size_t progress = 0;
      if (rank.transport.pull(0, kFirst, got.data(), kLong, false, progress) != Pull::kFailed)
        return rank.complain("memory that is gone is read");
      if (rank.transport.trouble().find("of rank 0") == std::string::npos)
        rank.complain(rank.transport.trouble());
    }
    rank.meet();
  };
  EXPECT_EQ(on_server(2, false, with_heaps(), body), "");
}

/// Rank 0 sends messages of these lengths, one at a time; rank 1 compares. Gives what rank 0 did
/// with each: "r" (copied into the ring) or "d" (to be read where it lies).
std::string ways_of_lengths(const TransportRank& rank, const std::vector<size_t>& lengths) {
  std::string ways;
  std::vector<std::byte> sent, got;
  for (size_t number = 0; number < lengths.size(); ++number) {
    const size_t bytes = lengths[number];
    sent.resize(bytes);
    for (size_t i = 0; i < bytes; ++i) sent[i] = pattern(0, 1, i, static_cast<uint32_t>(number));
    uint32_t ticket = 0;
    if (rank.me() == 0) {
      const Offer offer = rank.transport.offer(1, kFirst, sent.data(), bytes, ticket);
      ways += offer == Offer::kDone ? 'r' : offer == Offer::kPending ? 'd' : '?';
    }
    rank.meet();
    if (rank.me() == 1) {
      got.assign(bytes, std::byte{0});
      size_t progress = 0;
      Pull pulled = Pull::kPartial;
      while (pulled == Pull::kPartial)
        pulled = rank.transport.pull(0, kFirst, got.data(), bytes, false, progress);
      if (pulled != Pull::kDone || got != sent)
        rank.complain(fmt::format("message of {} bytes is wrong", bytes));
    }
    rank.meet();
  }
  return ways;
}

void send_lengths(const TransportRank& rank, const std::vector<size_t>& lengths,
                  const std::string& expected) {
  const std::string ways = ways_of_lengths(rank, lengths);
  if (rank.me() == 0 && ways != expected) rank.complain(ways);
}

TEST(SharedMemory, LimitsSayWhatIsCopiedIntoTheRing) {
  shm::Options options = with_heaps();
  options.limits.of_private = 3000;
  EXPECT_EQ(on_server(2, false, options,
                      [](const TransportRank& rank) {
                        send_lengths(rank, {0, 40, 3000, 3001, 100'000}, "rrrdd");
                      }),
            "");
}

TEST(SharedMemory, MessagesPastTheCachesArrive) {
  shm::Options options = with_heaps();
  options.limits.streaming = 512;
  std::vector<size_t> lengths = {0, 1, 511, 512, 513, 4095, 4096, 4097, 30'000};
  for (size_t i = 0; i < 100; ++i) lengths.push_back(500 + 37 * i);
  EXPECT_EQ(on_server(2, false, options,
                      [&](const TransportRank& rank) {
                        send_lengths(rank, lengths, std::string(lengths.size(), 'r'));
                      }),
            "");
}

/// Nothing is said of which way is best, which depends on the machine.
TEST(SharedMemory, SendersTimeAllWaysAndTryThemNowAndThen) {
  shm::Options options = with_heaps();
  options.learn = true;
  const auto body = [](const TransportRank& rank) {
    const std::string ways = ways_of_lengths(rank, std::vector<size_t>(300, 20'000));
    if (rank.me() != 0) return;
    if (ways.substr(0, 40) != std::string(40, 'r')) rank.complain(ways);
    if (ways.find('d') == std::string::npos) rank.complain("none was to be read");
    const std::vector<shm::LearnedWay> learned = rank.transport.learned();
    if (learned.size() != 1) return rank.complain(fmt::format("{} sorts", learned.size()));
    const shm::LearnedWay& one = learned[0];
    if (one.sort.shared || one.sort.one_way || one.sort.from() > 20'000 || one.sort.to() < 20'000 ||
        one.peers != 1)
      rank.complain("another sort was timed");
    for (const double ns : one.ns)
      if (ns <= 0) rank.complain("a way was not timed");
  };
  EXPECT_EQ(on_server(2, false, options, body), "");
}

TEST(SharedMemory, WithoutLearningNothingIsTimed) {
  const auto body = [](const TransportRank& rank) {
    send_lengths(rank, std::vector<size_t>(100, 20'000), std::string(100, 'r'));
    if (!rank.transport.learned().empty()) rank.complain("something was timed");
  };
  EXPECT_EQ(on_server(2, false, with_heaps(), body), "");
}

TEST(SharedMemory, TheLimitsOfTheFirstRankApplyToAll) {
  EXPECT_EQ(
      on_server(3, false, with_heaps(),
                [](const TransportRank& rank) {
                  shm::Options options = with_heaps();
                  options.limits.of_private = 1000 + 100 * static_cast<size_t>(rank.me());
                  options.limits.streaming = 5000 + 100 * static_cast<size_t>(rank.me());
                  const Shape shape = Shape::single_server(3);
                  const auto other =
                      shm::Transport::create(rank.bootstrap, shape, rank.bells, options);
                  if (!other) return rank.complain(other.error().message);
                  const RingLimits& limits = (*other)->limits();
                  if (limits.of_private != 1000 || limits.streaming != 5000)
                    rank.complain(fmt::format("{} and {}", limits.of_private, limits.streaming));
                }),
      "");
}

/// The first rank of each server complains where its messages do not go to others as these can read
/// its memory: nothing overtakes what goes in chunks.
void try_readers(const TransportRank& rank, shm::Transport& transport, const Shape& shape,
                 const std::function<bool(Rank)>& reads) {
  if (shape.local_of(rank.me()) != 0) return;
  const std::vector<std::byte> message(kLong);
  for (const Rank peer : shape.members(shape.server_of(rank.me()))) {
    if (peer == rank.me()) continue;
    uint32_t ticket = 0, other = 0;
    if (transport.offer(peer, kFirst, message.data(), kLong, ticket) != Offer::kPending)
      rank.complain("the message is not long");
    const Offer second = transport.offer(peer, kOther, message.data(), 8, other);
    if (second != (reads(peer) ? Offer::kDone : Offer::kNoRoom))
      rank.complain(fmt::format("rank {} is {}asked to read", peer, reads(peer) ? "not " : ""));
    transport.retract(peer, ticket);
  }
}

/// So large a server that not all of its pairs try, and a small one: all ranks of the job meet
/// where the large one finds that it has to try them.
TEST(SharedMemory, ServersOfAnySizesMeetAsOften) {
  const Shape shape = Shape::from_layout(std::array{65, 3}, Placement::kBlock).value();
  std::vector<std::function<bool(Rank)>> readers = {[](Rank) { return false; }};
  if (why_no_direct_copy().value().empty()) {
    readers.insert(readers.end(), {[](Rank) { return true; }, [](Rank rank) { return rank != 7; },
                                   [](Rank rank) { return rank != 66; }});
  }
  const auto body = [&](const TransportRank& rank) {
    for (const std::function<bool(Rank)>& reads : readers) {
      shm::Options options = with_heaps();
      options.allow_process_vm = reads(rank.me());
      const auto made = shm::Transport::create(rank.bootstrap, shape, rank.bells, options);
      if (!made) return rank.complain(made.error().message);
      // An error where others still meet: they give something else.
      const std::array<int, 2> mine{rank.me(), 1};
      std::vector<std::array<int, 2>> all(static_cast<size_t>(shape.ranks()));
      if (const Status met = rank.bootstrap.allgather(&mine, sizeof mine, all.data()); !met)
        return rank.complain(met.error().message);
      try_readers(rank, **made, shape, reads);
    }
  };
  EXPECT_EQ(on_servers(shape, false, with_heaps(), body), "");
}

}  // namespace
}  // namespace ibcoll
