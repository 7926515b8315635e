/// How the executor orders operations, with transports that do only what the test tells them.

#include "engine/execute/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <numeric>

#include "engine/schedule/builder.h"
#include "perf/support/empty_transports.h"

namespace ibcoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kBlockBytes = 8;

Slice slot_of(Buffer buffer, uint32_t slot) { return {buffer, slot, 1}; }

/// A server's local side where the pieces a peer sent are counted by the test.
class CountedLocal : public perf::EmptyLocal {
 public:
  int arrived = 0;
  Pull pull(Rank, const MessageKey&, void*, size_t, bool, size_t&) override {
    if (arrived == 0) return Pull::kNotYet;
    --arrived;
    return Pull::kDone;
  }
};

/// A network that tells what was put where, and completes it when the test says so.
class ToldNetwork : public perf::EmptyNetwork {
 public:
  std::vector<uint64_t> put_to;  ///< target addresses
  uint64_t done = 0;
  std::vector<std::byte> mail_to_deliver;

  std::vector<std::vector<std::byte>> mailed;

  using NetworkTransport::mail;
  bool mail(Rank, std::span<const std::byte> bytes, size_t) override {
    mailed.emplace_back(bytes.begin(), bytes.end());
    return true;
  }
  bool put(Rank, const void*, const MemoryKey&, RemoteAddress target, size_t, uint64_t) override {
    put_to.push_back(target.address);
    return true;
  }
  size_t poll(std::span<Arrival> arrivals) override {
    if (mail_to_deliver.empty()) return 0;
    delivered_ = std::exchange(mail_to_deliver, {});
    arrivals[0] = {Arrival::Kind::kMail, 2, 0, delivered_};
    return 1;
  }
  uint64_t posted(Rank) const override { return put_to.size(); }
  uint64_t completed(Rank) override { return done; }

 private:
  std::vector<std::byte> delivered_;
};

/// Rank 0 of three; rank 1 is on its server, rank 2 on another one and has exposed memory from
/// address 0 on. Slots have two pieces.
class StreamTest : public ::testing::Test {
 protected:
  void post(ProgramBuilder& builder) {
    program_ = builder.finish();
    binding_.block_bytes = kBlockBytes;
    binding_.pieces = 2;
    binding_[Buffer::kSend].base = send_;
    binding_[Buffer::kRecv].base = recv_;
    MailHeader header{};
    header.program = static_cast<uint32_t>(program_->hash);
    header.from = 2;
    header.kind = MailKind::kExposure;
    header.block_bytes = kBlockBytes;
    exposure_.rank = 2;
    network_.mail_to_deliver.resize(sizeof(header) + sizeof(exposure_));
    std::memcpy(network_.mail_to_deliver.data(), &header, sizeof(header));
    std::memcpy(network_.mail_to_deliver.data() + sizeof(header), &exposure_, sizeof(exposure_));
    ASSERT_TRUE(executor_.post(group_, *program_, binding_, completion_));
    progress();
  }
  void progress() {
    while (executor_.progress()) {
    }
    ASSERT_FALSE(executor_.failed()) << executor_.failed()->message;
  }

  const std::vector<int> layout_{2, 1};
  GroupState group_{*Shape::from_layout(layout_, Placement::kBlock)};
  ProgramBuilder builder_{Collective::kAllgather, "test", group_.shape, 0, {}};
  CountedLocal local_;
  ToldNetwork network_;
  std::byte send_[kBlockBytes] = {std::byte{1}}, recv_[3 * kBlockBytes] = {};
  Exposure exposure_{};  ///< of rank 2
  Completion completion_;

 private:
  void SetUp() override { group_.to_job = {0, 1, 2}; }

  perf::LoneBootstrap bootstrap_{3};
  Bell bell_;
  Binding binding_;
  std::shared_ptr<const RankProgram> program_;
  Executor executor_{bootstrap_, local_, &network_, bell_, [] { return std::nullopt; }, {}};
};

TEST_F(StreamTest, ARelayPassesOnAPieceBeforeTheNextArrives) {
  builder_.begin_stream();
  builder_.expect(1, slot_of(Buffer::kRecv, 1));
  builder_.put(2, slot_of(Buffer::kRecv, 1), slot_of(Buffer::kRecv, 1));
  builder_.end_stream();
  post(builder_);
  EXPECT_THAT(network_.put_to, IsEmpty());
  local_.arrived = 1;
  progress();
  EXPECT_THAT(network_.put_to, ElementsAre(kBlockBytes));
  local_.arrived = 1;
  progress();
  EXPECT_THAT(network_.put_to, ElementsAre(kBlockBytes, kBlockBytes + kBlockBytes / 2));
  network_.done = 2;
  progress();
  EXPECT_TRUE(completion_.done);
}

TEST_F(StreamTest, APutWaitsForTheKeyThatComesWithAnotherCallsExposure) {
  // Gateways pass exposures of several calls on in any order: this one names a region that the
  // exposure of a call not made yet tells about.
  const RegionName region{3, 1};
  exposure_.recv = {region, 24};
  builder_.put(2, slot_of(Buffer::kSend, 0), slot_of(Buffer::kRecv, 1));
  post(builder_);
  EXPECT_THAT(network_.put_to, IsEmpty());
  MailHeader header{};
  header.sequence = 7;
  header.from = 2;
  header.kind = MailKind::kExposure;
  Exposure other{};
  other.rank = 2;
  other.keys = 1;
  const RegionKey key{region, 4096, sizeof(uint64_t)};
  const uint64_t packed = 0;
  auto& mail = network_.mail_to_deliver;
  const auto append = [&mail](const auto& part) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&part);
    mail.insert(mail.end(), bytes, bytes + sizeof(part));
  };
  append(header);
  append(other);
  append(key);
  append(packed);
  progress();
  EXPECT_THAT(network_.put_to, ElementsAre(4096 + 24 + kBlockBytes));
}

TEST_F(StreamTest, SourcesAreOverwrittenOnlyWhenAllTheirPiecesAreRead) {
  builder_.begin_stream();
  for (const uint32_t slot : {0, 1})
    builder_.put(2, slot_of(Buffer::kRecv, slot), slot_of(Buffer::kRecv, slot));
  builder_.end_stream();
  builder_.copy(slot_of(Buffer::kRecv, 0), slot_of(Buffer::kSend, 0));
  post(builder_);
  ASSERT_EQ(network_.put_to.size(), 4u);
  // Piece 0 of slots 0 and 1; piece 1 of slot 0 is still to be read.
  for (network_.done = 0; network_.done <= 2; ++network_.done) {
    progress();
    EXPECT_EQ(recv_[0], std::byte{0}) << network_.done << " pieces read";
  }
  network_.done = 4;
  progress();
  EXPECT_EQ(recv_[0], std::byte{1});
  EXPECT_TRUE(completion_.done);
}

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
  group.to_job.resize(kRanks);
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
