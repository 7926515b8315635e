// Puts of strided blocks from where they lie, with a network that does only what the test tells it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/told_transports.h"

namespace ibcoll {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kRun = 4096, kRuns = 10;

/// A network that remembers what it is told to gather, and has no room where the test says so.
class GatheringNetwork : public ToldNetwork {
 public:
  struct Put {
    Rank peer;
    std::vector<const std::byte*> from;
    size_t bytes;
    uint64_t target, immediate;
  };
  std::vector<Put> gathered;
  std::vector<const void*> packed;  ///< where plain puts came from
  std::vector<const void*> registered;
  size_t segments = 4;
  size_t room = SIZE_MAX;     ///< for so many puts
  Rank refused = -1;          ///< the peer to whom there is no more than that
  size_t largest = SIZE_MAX;  ///< memory that can be registered

  Result<MemoryKey> register_memory(void* base, size_t bytes) override {
    if (bytes > largest) return fail(ErrorCode::kSystem, "there is a hole");
    registered.push_back(base);
    return MemoryKey{};
  }
  size_t max_put_segments() const override { return segments; }
  bool put_segments(Rank peer, std::span<const PutSegment> given, const MemoryKey&,
                    RemoteAddress target, uint64_t immediate) override {
    if (peer == refused && room-- == 0) {
      room = 0;
      return false;
    }
    Put put{peer, {}, 0, target.address, immediate};
    for (const PutSegment& segment : given) {
      put.from.push_back(segment.source);
      put.bytes += segment.bytes;
    }
    gathered.push_back(put);
    put_to.push_back(target.address);
    return true;
  }
  bool put(Rank peer, const void* source, const MemoryKey& key, RemoteAddress target, size_t bytes,
           uint64_t immediate) override {
    packed.push_back(source);
    return ToldNetwork::put(peer, source, key, target, bytes, immediate);
  }
  /// Targets and immediates of the puts to a peer.
  std::vector<std::pair<uint64_t, uint64_t>> to(Rank peer) const {
    std::vector<std::pair<uint64_t, uint64_t>> all;
    for (const Put& put : gathered) {
      if (put.peer == peer) all.emplace_back(put.target, put.immediate);
    }
    return all;
  }
};

/// Rank 0 of three servers sends ranks 1 and 2 a block of ten runs each, and they have exposed
/// memory from address 0 on, cells 5 and 6.
class GatheredPuts : public ::testing::Test {
 protected:
  void post(uint64_t run = kRun, int64_t stride = 2 * kRun) {
    group_.to_job = {0, 1, 2};
    memory_.resize(static_cast<size_t>(2 * kRuns) * static_cast<size_t>(stride));
    blocks_[1] = canonical({0, kRuns * run, run, kRuns, stride, 1, 0});
    blocks_[2] =
        canonical({static_cast<int64_t>(kRuns) * stride, kRuns * run, run, kRuns, stride, 1, 0});
    builder_.begin_relaxed();
    for (const Rank peer : {1, 2}) {
      builder_.put(peer, slot_of(Buffer::kSend, static_cast<uint32_t>(peer)),
                   slot_of(Buffer::kRecv, 0));
    }
    builder_.end_relaxed();
    program_ = builder_.finish();
    image_.resize(3 * kRuns * run);
    strided_.memory.base = memory_.data();
    strided_.memory.blocks = blocks_.data();
    strided_.image_bytes = image_.size();
    strided_.in_image = in_image_.data();
    strided_.gathered = memory_.data();
    strided_.gathered_reach = memory_.size();
    strided_.gathered_bytes = 2 * kRuns * run;
    binding_.block_bytes = kRuns * run;
    binding_[Buffer::kSend] = {image_.data(), nullptr, nullptr, &strided_};
    ASSERT_TRUE(executor_.post(group_, *program_, binding_, completion_));
    for (const Rank peer : {1, 2}) {
      MailHeader header{};
      header.program = static_cast<uint32_t>(program_->hash);
      header.from = peer;
      header.kind = MailKind::kExposure;
      header.block_bytes = binding_.block_bytes;
      Exposure exposure{};
      exposure.rank = peer;
      exposure.cell = 4 + static_cast<uint32_t>(peer);
      network_.mail_to_deliver.resize(sizeof header + sizeof exposure);
      std::memcpy(network_.mail_to_deliver.data(), &header, sizeof header);
      std::memcpy(network_.mail_to_deliver.data() + sizeof header, &exposure, sizeof exposure);
      progress();
    }
  }
  void progress() {
    while (executor_.progress()) {
    }
    ASSERT_FALSE(executor_.failed()) << executor_.failed()->message;
  }
  /// All of it went out of the image.
  void expect_packed() {
    EXPECT_THAT(network_.gathered, IsEmpty());
    EXPECT_THAT(network_.packed, ElementsAre(image_.data() + binding_.block_bytes,
                                             image_.data() + 2 * binding_.block_bytes));
  }

  static constexpr uint64_t kNone = NetworkTransport::kNoSignal;
  GroupState group_{*Shape::from_layout(std::vector{1, 1, 1}, Placement::kBlock)};
  ProgramBuilder builder_{Collective::kAlltoall, "test", group_.shape, 0, {}};
  perf::EmptyLocal local_;
  GatheringNetwork network_;
  Completion completion_;
  std::vector<std::byte> memory_, image_;
  std::array<StridedBlock, 3> blocks_{};
  std::array<uint64_t, 3> in_image_{};
  StridedBuffer strided_;
  perf::LoneBootstrap bootstrap_{3};
  Bell bell_;
  Binding binding_;
  std::shared_ptr<const RankProgram> program_;
  Executor executor_{bootstrap_, local_, &network_, bell_, [] { return std::nullopt; }, {}};
};

TEST_F(GatheredPuts, OnlyTheLastOfAMessageSaysThatItIsThere) {
  post();
  using Puts = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(network_.to(1), (Puts{{0, kNone}, {4 * kRun, kNone}, {8 * kRun, 5}}));
  EXPECT_EQ(network_.to(2), (Puts{{0, kNone}, {4 * kRun, kNone}, {8 * kRun, 6}}));
  uint64_t run = 0;
  for (const auto& put : network_.gathered) {
    EXPECT_EQ(put.bytes, put.from.size() * kRun);
    for (const std::byte* from : put.from) EXPECT_EQ(from, memory_.data() + 2 * kRun * run++);
  }
  EXPECT_EQ(run, 2 * kRuns);
  EXPECT_THAT(network_.packed, IsEmpty());
  EXPECT_THAT(in_image_, ElementsAre(0, 0, 0));
  EXPECT_THAT(network_.registered, Contains(memory_.data()));
  EXPECT_FALSE(completion_.done);  // the blocks are being read
  network_.done = network_.gathered.size() - 1;
  progress();
  EXPECT_FALSE(completion_.done);
  network_.done = network_.gathered.size();
  progress();
  EXPECT_TRUE(completion_.done);
}

TEST_F(GatheredPuts, AMessageThatFindsNoRoomGoesOnWhereItStoppedAndHoldsUpNoOther) {
  network_.refused = 1;
  network_.room = 1;
  post();
  using Puts = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(network_.to(1), (Puts{{0, kNone}}));
  EXPECT_EQ(network_.to(2), (Puts{{0, kNone}, {4 * kRun, kNone}, {8 * kRun, 6}}));
  network_.refused = -1;
  network_.done = network_.gathered.size();
  progress();
  EXPECT_EQ(network_.to(1), (Puts{{0, kNone}, {4 * kRun, kNone}, {8 * kRun, 5}}));
  EXPECT_EQ(network_.to(2).size(), 3u);
  network_.done = network_.gathered.size();
  progress();
  EXPECT_TRUE(completion_.done);
}

TEST_F(GatheredPuts, RunsThatMeetAreOneSegment) {
  post(kRun, kRun);
  ASSERT_EQ(network_.gathered.size(), 2u);
  EXPECT_EQ(network_.gathered[0].from.size(), 1u);
  EXPECT_EQ(network_.gathered[0].bytes, kRuns * kRun);
}

TEST_F(GatheredPuts, ShortRunsArePacked) {
  post(64, 128);
  expect_packed();
}

TEST_F(GatheredPuts, ANetworkThatGathersNothingGetsThemPacked) {
  network_.segments = 1;
  post();
  expect_packed();
  EXPECT_THAT(network_.registered, Not(Contains(memory_.data())));
}

TEST_F(GatheredPuts, MemoryThatIsMostlyGapsIsNotRegistered) {
  post(kRun, 20 * kRun);
  expect_packed();
  EXPECT_THAT(network_.registered, Not(Contains(memory_.data())));
}

TEST_F(GatheredPuts, MemoryWithAHoleIsPacked) {
  network_.largest = 3 * kRuns * kRun;  // the image
  post();
  expect_packed();
}

}  // namespace
}  // namespace ibcoll
