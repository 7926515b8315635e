// Results of allgathers on their way from rank 0 to all machines.

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "engine/bootstrap/packing.h"
#include "tests/bootstrap/handmade_caller.h"
#include "tests/joined_job.h"

namespace ibcoll {
namespace {

using testing::answer;
using testing::Blackboard;
using testing::challenged;
using testing::gather_all_sizes;
using testing::Hello;
using testing::JoinedRun;
using testing::run_joined;

TEST(Packing, GivesBackWhatWasPacked) {
  std::mt19937 random(1);
  for (const size_t bytes : {0, 1, 1000, 100'000}) {
    std::vector<std::byte> plain(bytes), back(bytes);
    for (std::byte& byte : plain) byte = static_cast<std::byte>(random() % 4);
    const auto packed = pack(plain);
    ASSERT_TRUE(packed);
    EXPECT_TRUE(unpack(*packed, back));
    EXPECT_EQ(plain, back);
  }
}

TEST(Packing, RefusesWhatIsNotJustThat) {
  const std::vector<std::byte> plain(1000, std::byte{7});
  std::vector<std::byte> packed = *pack(plain), shorter(999), longer(1001), same(1000);
  EXPECT_FALSE(unpack(packed, shorter));
  EXPECT_FALSE(unpack(packed, longer));
  EXPECT_FALSE(unpack(packed, {}));
  EXPECT_FALSE(unpack({}, same));
  packed.push_back(std::byte{});
  EXPECT_FALSE(unpack(packed, same));
  packed.resize(packed.size() - 3);
  EXPECT_FALSE(unpack(packed, same));
}

TEST(ResultsTree, BringsAllToEveryMachine) {
  for (const int fan_out : {1, 2, 3}) {
    SCOPED_TRACE(::testing::Message() << "fan-out " << fan_out);
    JoinedRun run;
    run.machines = {0, 1, 2, 3, 4, 5, 6, 0, 3};
    run.fan_out = fan_out;
    EXPECT_EQ(run_joined(run, gather_all_sizes), "");
  }
}

TEST(ResultsTree, BringsWhatSomeGiveToEveryMachine) {
  JoinedRun run;
  run.machines = {0, 1, 2, 0, 3, 1, 1};
  run.fan_out = 2;
  EXPECT_EQ(run_joined(run,
                       [](Bootstrap& job) -> std::string {
                         for (const std::vector<Rank>& givers :
                              {std::vector<Rank>{}, {0}, {4}, {1, 5, 6}, {0, 1, 2, 4}, {2, 3, 6}}) {
                           std::string wrong = testing::gather_of_some(job, givers);
                           if (wrong.empty()) wrong = gather_all_sizes(job);
                           if (!wrong.empty())
                             return fmt::format("{}: {}", fmt::join(givers, ","), wrong);
                         }
                         return "";
                       }),
            "");
}

/// All give `bytes` bytes, and rank 0 says whether it has sent as many bytes as expected.
std::string count_bytes_of_root(Bootstrap& job, const std::vector<std::byte>& mine, uint64_t least,
                                uint64_t most) {
  std::vector<std::byte> all(mine.size() * static_cast<size_t>(job.size()));
  const uint64_t before = job.sent_bytes();
  if (const Status done = job.allgather(mine.data(), mine.size(), all.data()); !done)
    return done.error().message;
  const uint64_t sent = job.sent_bytes() - before;
  // What it sends to the others is on its way by then.
  if (const Status met = job.barrier(); !met) return met.error().message;
  const uint64_t in_all = job.sent_bytes() - before;
  if (job.rank() != 0 || (sent <= most && in_all >= least)) return "";
  return fmt::format("rank 0 sends {} bytes, {} with the barrier", sent, in_all);
}

TEST(ResultsTree, RankZeroSendsToItsBranchesAlone) {
  constexpr size_t kBytes = 20'000, kRanks = 7;
  for (const int fan_out : {1, 3, 100}) {
    SCOPED_TRACE(::testing::Message() << "fan-out " << fan_out);
    JoinedRun run;
    run.machines = {0, 1, 2, 3, 4, 5, 6};
    run.fan_out = fan_out;
    const auto branches = static_cast<uint64_t>(std::min(fan_out, 6));
    EXPECT_EQ(run_joined(run,
                         [&](Bootstrap& job) {
                           std::mt19937 random(static_cast<unsigned>(job.rank()));
                           std::vector<std::byte> mine(kBytes);  // which do not pack
                           for (std::byte& byte : mine) byte = static_cast<std::byte>(random());
                           const uint64_t result = kBytes * kRanks;
                           return count_bytes_of_root(job, mine, branches * result,
                                                      branches * result * 11 / 10);
                         }),
              "");
  }
}

TEST(ResultsTree, RecordsThatAreMuchAlikeTakeFewBytes) {
  JoinedRun run;
  run.machines = {0, 1, 2, 3, 3, 3, 3, 3};
  EXPECT_EQ(run_joined(run,
                       [](Bootstrap& job) {
                         std::vector<std::byte> mine(4096);
                         mine[100] = static_cast<std::byte>(job.rank());
                         return count_bytes_of_root(job, mine, 1, 3 * 700);
                       }),
            "");
}

/// Joins as the leader of a machine, which is at `port` for others: its connection to rank 0.
void join_by_hand(Blackboard& board, Rank me, int port, ControlConnection& root) {
  const auto place = RootPlace::parse(board.wait_for_text());
  ASSERT_TRUE(place);
  // As the others do: of a leader at 127.0.0.1 those that are elsewhere would get nothing.
  Result<UniqueFd> socket =
      connect_network(place->addresses.front(), place->port, testing::kSilenceMs);
  ASSERT_TRUE(socket);
  pollfd ready{socket->get(), POLLOUT, 0};
  poll(&ready, 1, 5000);
  root = ControlConnection(std::move(*socket));
  const Hello hello;
  const Nonce nonce = challenged(root, me, hello);
  const auto said =
      answer(root, me, prove(place->token, Side::kCaller, {me, false}, hello.nonce, nonce));
  ASSERT_TRUE(said && said->kind == FrameKind::kWelcome);
  root.send(FrameKind::kListen, me, {}, port);
  const Result<Frame> frame = root.receive(deadline_in(20));
  ASSERT_TRUE(frame && frame->kind == FrameKind::kGo);
  const Result<Frame> homes = root.receive(deadline_in(20));
  ASSERT_TRUE(homes && homes->kind == FrameKind::kHomes);
}

/// Takes part in gather_all_sizes() like that.
void lead_by_hand(Blackboard& board, Rank me, int port) {
  ControlConnection root;
  ASSERT_NO_FATAL_FAILURE(join_by_hand(board, me, port, root));
  for (const size_t bytes : {0, 1, 7, 4096, 5000, 20'000}) {
    std::vector<std::byte> mine(bytes);
    for (size_t i = 0; i < bytes; ++i) mine[i] = testing::pattern(me, 0, i, 0);
    for (const size_t given : {bytes, size_t{0}}) {  // a barrier follows
      mine.resize(given);
      root.send(FrameKind::kGather, static_cast<int32_t>(given), *pack(mine));
      const Result<Frame> frame = root.receive(deadline_in(20));
      ASSERT_TRUE(frame && frame->kind == FrameKind::kAll);
    }
  }
  root.send(FrameKind::kBye, me);
  ASSERT_TRUE(root.flush_by(deadline_in(5)));
}

TEST(ResultsTree, RankZeroStandsInForWhoCannotBeReached) {
  for (const bool listens : {false, true}) {
    SCOPED_TRACE(listens ? "it hangs up" : "nobody is at its port");
    Result<ControlListener> listener = ControlListener::network(testing::kSilenceMs);
    ASSERT_TRUE(listener);
    const int port = listener->port();
    if (!listens) *listener = ControlListener();
    JoinedRun run;
    run.machines = {0, -1, 2, 3};
    run.fan_out = 1;  // rank 2 is to get results from rank 1, rank 3 from rank 2
    run.meanwhile = [&](Blackboard& board) {
      std::atomic<bool> done = false;
      std::atomic<int> came = 0;
      std::thread hangs_up([&] {
        while (listens && !done) {
          const Result<UniqueFd> caller = listener->accept();  // and closes it
          came += caller && caller->valid() ? 1 : 0;
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
      lead_by_hand(board, 1, port);
      done = true;
      hangs_up.join();
      EXPECT_EQ(came, listens ? 1 : 0);
    };
    EXPECT_EQ(run_joined(run, gather_all_sizes), "");
  }
}

TEST(ResultsTree, MachinesWithoutAPortForOthersPassNothingOn) {
  JoinedRun run;
  run.machines = {0, -1, 2};
  run.fan_out = 1;
  run.meanwhile = [&](Blackboard& board) { lead_by_hand(board, 1, 0); };
  EXPECT_EQ(run_joined(run, gather_all_sizes), "");
}

/// `said`: as run_joined() gives it.
void expect_all_say(const std::string& said, const std::vector<Rank>& ranks,
                    const std::string& text) {
  for (const Rank rank : ranks)
    EXPECT_NE(said.find(fmt::format("rank {}: {}", rank, text)), std::string::npos) << said;
}

TEST(ResultsTree, DamagedPartsAreOneErrorOnAllRanks) {
  JoinedRun run;
  run.machines = {0, 0, -1, 3, 3};
  run.meanwhile = [&](Blackboard& board) {
    ControlConnection root;
    ASSERT_NO_FATAL_FAILURE(join_by_hand(board, 2, 0, root));
    const std::vector<std::byte> damaged(20, std::byte{0x55});
    root.send(FrameKind::kGather, 8, damaged);
    const Result<Frame> frame = root.receive(deadline_in(20));
    EXPECT_TRUE(frame && frame->kind == FrameKind::kFailure);
    root.send(FrameKind::kHeard, 2);
    root.send(FrameKind::kBye, 2);
    (void)root.flush_by(deadline_in(5));
  };
  const std::string said = run_joined(run, [](Bootstrap& job) -> std::string {
    int64_t mine = 0;
    std::vector<int64_t> all(static_cast<size_t>(job.size()));
    const Status done = job.allgather(&mine, sizeof mine, all.data());
    return done ? "succeeds" : done.error().message;
  });
  expect_all_say(said, {0, 1, 3, 4}, "what the machines have sent of an allgather is damaged");
}

TEST(ResultsTree, ADamagedResultIsOneErrorOnAllRanks) {
  Result<ControlListener> listener = ControlListener::network(testing::kSilenceMs);
  ASSERT_TRUE(listener);
  JoinedRun run;
  run.machines = {0, -1, 2, 2};
  run.fan_out = 1;
  run.meanwhile = [&](Blackboard& board) {
    ControlConnection root;
    ASSERT_NO_FATAL_FAILURE(join_by_hand(board, 1, listener->port(), root));
    // Rank 2 comes for results, and gets nonsense.
    const auto place = RootPlace::parse(board.wait_for_text());
    UniqueFd socket;
    for (int tries = 0; tries < 5000 && !socket.valid(); ++tries) {
      Result<UniqueFd> next = listener->accept();
      ASSERT_TRUE(next);
      socket = std::move(*next);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(socket.valid());
    CalledHandshake handshake(std::move(socket), place->token, 1, deadline_in(5));
    while (handshake.advance() == HandshakeState::kWaiting)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ControlConnection branch = handshake.welcome(0);
    branch.send(FrameKind::kAll, 1, std::vector<std::byte>(20, std::byte{0x55}));
    root.send(FrameKind::kGather, 8, *pack(std::vector<std::byte>(8)));
    Result<Frame> frame = root.receive(deadline_in(20));
    while (frame && frame->kind != FrameKind::kFailure) frame = root.receive(deadline_in(20));
    EXPECT_TRUE(frame);
    root.send(FrameKind::kHeard, 1);
    root.send(FrameKind::kBye, 1);
    (void)root.flush_by(deadline_in(5));
  };
  const std::string said = run_joined(run, [](Bootstrap& job) -> std::string {
    int64_t mine = 0;
    std::vector<int64_t> all(static_cast<size_t>(job.size()));
    Status done = job.allgather(&mine, sizeof mine, all.data());
    if (done) done = job.barrier();
    return done ? "succeeds" : done.error().message;
  });
  expect_all_say(said, {0, 2, 3}, "what rank 0 has sent of an allgather");
}

}  // namespace
}  // namespace ibcoll
