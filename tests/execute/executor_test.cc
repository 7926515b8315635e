/// How the executor orders operations, with transports that do only what the test tells them.

#include "engine/execute/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <numeric>

#include "tests/told_transports.h"

namespace ibcoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Rank 0 exchanges a block with rank 1 of another server, eagerly.
class EagerTest : public ::testing::Test {
 protected:
  EagerTest() {
    group_.to_job = {0, 1};
    builder_.put(1, slot_of(Buffer::kSend, 1), slot_of(Buffer::kRecv, 0));
    builder_.expect(1, slot_of(Buffer::kRecv, 1));
    program_ = builder_.finish();
    binding_.block_bytes = kBlockBytes;
    binding_.eager = true;
    binding_[Buffer::kSend].base = send_;
    binding_[Buffer::kRecv].base = recv_;
    header_.program = static_cast<uint32_t>(program_->hash);
    header_.from = 1;
    header_.kind = MailKind::kData;
    header_.block_bytes = kBlockBytes;
  }
  void deliver(size_t data_bytes, std::byte value) {
    network_.mail_to_deliver.assign(sizeof header_ + data_bytes, value);
    std::memcpy(network_.mail_to_deliver.data(), &header_, sizeof header_);
    while (executor_.progress()) {
    }
  }
  Status post() { return executor_.post(group_, *program_, binding_, completion_); }

  GroupState group_{*Shape::from_layout(std::vector{1, 1}, Placement::kBlock)};
  ProgramBuilder builder_{Collective::kAlltoall, "test", group_.shape, 0, {}};
  perf::EmptyLocal local_;
  ToldNetwork network_;
  std::byte send_[2 * kBlockBytes] = {}, recv_[2 * kBlockBytes] = {};
  Completion completion_;
  perf::LoneBootstrap bootstrap_{2};
  Bell bell_;
  Binding binding_;
  MailHeader header_{};
  std::shared_ptr<const RankProgram> program_;
  Executor executor_{bootstrap_, local_, &network_, bell_, [] { return std::nullopt; }, {}};
};

TEST_F(EagerTest, DataTravelAtOnceAndNothingElseDoes) {
  send_[kBlockBytes] = std::byte{5};
  ASSERT_TRUE(post());
  ASSERT_EQ(network_.mailed.size(), 1u);  // and no exposure
  EXPECT_THAT(network_.put_to, IsEmpty());
  ASSERT_EQ(network_.mailed[0].size(), sizeof(MailHeader) + kBlockBytes);
  EXPECT_EQ(network_.mailed[0][sizeof(MailHeader)], std::byte{5});
  EXPECT_FALSE(completion_.done);
  deliver(kBlockBytes, std::byte{7});
  EXPECT_TRUE(completion_.done);
  EXPECT_EQ(recv_[kBlockBytes], std::byte{7});
  EXPECT_EQ(recv_[2 * kBlockBytes - 1], std::byte{7});
}

TEST_F(EagerTest, DataOfACallNotMadeYetWait) {
  deliver(kBlockBytes, std::byte{7});
  ASSERT_TRUE(post());
  EXPECT_TRUE(completion_.done);
  EXPECT_EQ(recv_[kBlockBytes], std::byte{7});
}

TEST_F(EagerTest, ASenderAsksItsReceiverBeforeItIsFarAhead) {
  ProgramBuilder builder(Collective::kBcast, "test", group_.shape, 0, {});
  builder.put(1, slot_of(Buffer::kSend, 0), slot_of(Buffer::kRecv, 0));
  program_ = builder.finish();
  binding_.one_way = true;
  size_t ended = 0;
  for (; ended < 100; ++ended) {
    ASSERT_TRUE(post());
    if (!completion_.done) break;
  }
  // Fifteen in a row go unasked, wherever they begin; the next waits for the receiver.
  EXPECT_EQ(ended, 15u);
  EXPECT_EQ(network_.mailed.size(), 15u);
  EXPECT_THAT(network_.put_to, IsEmpty());
}

TEST_F(EagerTest, RanksThatDisagreeAreTold) {
  ASSERT_TRUE(post());
  header_.kind = MailKind::kExposure;
  deliver(sizeof(Exposure), std::byte{});
  ASSERT_TRUE(executor_.failed());
  EXPECT_THAT(executor_.failed()->message, ::testing::HasSubstr("IBCOLL_EAGER"));
}

TEST_F(EagerTest, AMessageOfAnotherLengthIsRefused) {
  ASSERT_TRUE(post());
  deliver(kBlockBytes - 1, std::byte{7});
  ASSERT_TRUE(executor_.failed());
  EXPECT_THAT(executor_.failed()->message,
              ::testing::HasSubstr("rank 1 sends 7 bytes where 8 are expected"));
}

/// A peer that goes on reading what was offered to it, for a while after it was taken back.
class ReadOn : public perf::EmptyLocal {
 public:
  int left = 3;

  Offer offer(Rank, const MessageKey&, const void*, size_t, uint32_t& ticket) override {
    ticket = 1;
    return Offer::kPending;
  }
  bool completed(Rank, uint32_t) override { return false; }
  bool retract(Rank, uint32_t) override { return --left < 0; }
};

TEST(HeldCalls, EndWithTheErrorWhenNobodyReadsFromThemAnyMore) {
  GroupState group{Shape::single_server(2)};
  group.to_job = {0, 1};
  ProgramBuilder builder(Collective::kAlltoall, "test", group.shape, 0, {});
  builder.put(1, slot_of(Buffer::kSend, 1), slot_of(Buffer::kRecv, 0));
  const auto program = builder.finish();
  std::byte memory[2 * kBlockBytes] = {};
  Binding binding;
  binding.block_bytes = kBlockBytes;
  binding[Buffer::kSend].base = binding[Buffer::kRecv].base = memory;
  perf::LoneBootstrap bootstrap{2};
  ReadOn local;
  Bell bell;
  Executor executor(bootstrap, local, nullptr, bell, [] { return std::nullopt; }, {});
  executor.enter(group);
  Completion completion;
  ASSERT_TRUE(executor.post(group, *program, binding, completion));
  EXPECT_FALSE(completion.done);
  executor.end_group(group, {0, ErrorCode::kCancelled, "enough"});
  EXPECT_FALSE(completion.done);
  const Status waited = executor.wait(completion);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::kCancelled);
  EXPECT_LT(local.left, 0);
}

/// Remembers what was registered; refuses what reaches into [hole, hole + hole_bytes).
class RegisteringNetwork : public perf::EmptyNetwork {
 public:
  struct Range {
    const std::byte* base;
    size_t bytes;
  };
  std::vector<Range> ranges;
  const std::byte* hole = nullptr;
  size_t hole_bytes = 0;

  Result<MemoryKey> register_memory(void* base, size_t bytes) override {
    const auto* begin = static_cast<const std::byte*>(base);
    if (begin < hole + hole_bytes && hole < begin + bytes)
      return fail(ErrorCode::kSystem, "there is a hole");
    ranges.push_back({begin, bytes});
    return MemoryKey{ranges.size(), ranges.size(), 0};
  }
  size_t bytes() const {
    size_t sum = 0;
    for (const Range& range : ranges) sum += range.bytes;
    return sum;
  }
};

/// Rank 0 of three servers sends blocks that lie anywhere.
class SparseBuffersTest : public ::testing::Test {
 protected:
  SparseBuffersTest() {
    group_.to_job = {0, 1, 2};
    for (Rank peer : {1, 2}) {
      builder_.put(peer, slot_of(Buffer::kSend, static_cast<uint32_t>(peer)),
                   slot_of(Buffer::kRecv, 0));
    }
    program_ = builder_.finish();
    binding_.unequal = true;
    binding_[Buffer::kSend] = {memory_.data(), offsets_.data(), bytes_.data()};
    binding_[Buffer::kRecv] = {nullptr, nothing_.data(), nothing_.data()};
  }
  void post() { ASSERT_TRUE(executor_.post(group_, *program_, binding_, completion_)); }

  std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 20);
  std::array<uint64_t, 3> offsets_{}, bytes_{};
  const std::array<uint64_t, 3> nothing_{};
  RegisteringNetwork network_;

 private:
  GroupState group_{*Shape::from_layout(std::vector{1, 1, 1}, Placement::kBlock)};
  ProgramBuilder builder_{Collective::kAlltoallv, "test", group_.shape, 0, {}};
  std::shared_ptr<const RankProgram> program_;
  Binding binding_;
  perf::EmptyLocal local_;
  Completion completion_;
  perf::LoneBootstrap bootstrap_{3};
  Bell bell_;
  Executor executor_{bootstrap_, local_, &network_, bell_, [] { return std::nullopt; }, {}};
};

TEST_F(SparseBuffersTest, BlocksOfNoBytesAreNotRegisteredWhereverTheyLie) {
  offsets_ = {0, uint64_t{1} << 30, uint64_t{1} << 40};
  post();
  EXPECT_EQ(network_.ranges.size(), 0u);
}

TEST_F(SparseBuffersTest, OnlyWhatIsUsedIsRegistered) {
  offsets_ = {1000, 600'000, 900'000};
  bytes_ = {0, 100, 200};
  post();
  EXPECT_EQ(network_.ranges.size(), 2u);
  EXPECT_EQ(network_.bytes(), 300u);
}

TEST_F(SparseBuffersTest, BlocksSideBySideAreRegisteredTogether) {
  offsets_ = {5000, 5100, 6100};
  bytes_ = {100, 1000, 900};
  post();
  ASSERT_EQ(network_.ranges.size(), 1u);
  EXPECT_EQ(network_.ranges[0].base, memory_.data() + 5000);
  EXPECT_EQ(network_.ranges[0].bytes, 2000u);
}

TEST_F(SparseBuffersTest, MemoryBetweenBlocksMayBeMissing) {
  offsets_ = {0, 100'000, 210'000};
  bytes_ = {100'000, 100'000, 100'000};
  network_.hole = memory_.data() + 204'800;
  network_.hole_bytes = 4096;
  post();
  EXPECT_EQ(network_.ranges.size(), 2u);
  EXPECT_EQ(network_.bytes(), 300'000u);
}

TEST(Executor, ACallCostsWhatItTouchesNotWhatItsGroupHas) {
  constexpr int kRanks = 100'000;
  GroupState group(*Shape::create([] {
    std::vector<int> servers(kRanks);
    std::iota(servers.begin(), servers.end(), 0);
    return servers;
  }()));
  group.to_job = std::vector<Rank>(kRanks);
  ProgramBuilder builder(Collective::kBarrier, "test", group.shape, 0, {});
  for (const Rank peer : {1, 5, 70'000}) builder.signal(peer);
  const auto program = builder.finish();
  perf::EmptyLocal local;
  perf::EmptyNetwork network;
  perf::LoneBootstrap bootstrap(kRanks);
  Bell bell;
  Executor executor(bootstrap, local, &network, bell, [] { return std::nullopt; }, {});
  Completion completion;
  const size_t before = mallinfo2().uordblks;
  for (int call = 0; call < 3; ++call)
    ASSERT_TRUE(executor.post(group, *program, Binding{}, completion));
  EXPECT_TRUE(completion.done);
  EXPECT_LT(mallinfo2().uordblks - before, size_t{64} << 10);
}

}  // namespace
}  // namespace ibcoll
