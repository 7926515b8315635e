// How the executor orders operations of streams among each other and with others, with transports
// that do only what the test tells them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/told_transports.h"

namespace ibcoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

TEST_F(StreamTest, ATicketThatHasEndedIsNotAskedForAgain) {
  local_.reads_late = true;
  builder_.put(1, slot_of(Buffer::kRecv, 0), slot_of(Buffer::kRecv, 0));
  builder_.copy(slot_of(Buffer::kRecv, 0), slot_of(Buffer::kSend, 0));  // overwrites what is read
  builder_.put(2, slot_of(Buffer::kSend, 0), slot_of(Buffer::kRecv, 0));
  post(builder_);
  network_.done = 1;
  progress();
  EXPECT_TRUE(completion_.done);
  EXPECT_EQ(recv_[0], send_[0]);
  EXPECT_EQ(local_.asked, 2);
}

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

// What an operation comes after is proved item by item: the pieces of a stream are several. To wait
// for more may be to wait for what comes after the operation itself.

TEST_F(StreamTest, APieceWaitsForItsPieceOfAStreamThatIsOver) {
  builder_.begin_stream();
  builder_.put(2, slot_of(Buffer::kRecv, 0), slot_of(Buffer::kRecv, 0));
  builder_.end_stream();
  builder_.begin_stream();
  builder_.expect(1, slot_of(Buffer::kRecv, 0));
  builder_.end_stream();
  post(builder_);
  ASSERT_EQ(network_.put_to.size(), 2u);
  local_.arrived = 2;
  progress();
  EXPECT_EQ(local_.arrived, 2) << "nothing has been read yet";
  network_.done = 1;
  progress();
  EXPECT_EQ(local_.arrived, 1) << "the first piece has been";
  network_.done = 2;
  progress();
  EXPECT_TRUE(completion_.done);
}

TEST_F(StreamTest, WhatNeedsAllPiecesWaitsForNothingBehindTheLastOne) {
  builder_.begin_stream();
  for (const uint32_t slot : {1, 2}) builder_.expect(1, slot_of(Buffer::kRecv, slot));
  builder_.end_stream();
  builder_.put(2, slot_of(Buffer::kRecv, 1), slot_of(Buffer::kRecv, 1));
  post(builder_);
  local_.arrived = 2;
  progress();
  EXPECT_THAT(network_.put_to, IsEmpty()) << "piece 1 of slot 1 is missing";
  local_.arrived = 1;
  progress();
  EXPECT_THAT(network_.put_to, ElementsAre(kBlockBytes));
}

TEST_F(StreamTest, APieceOfAStreamThatGoesOnWaitsForAllBeforeIt) {
  builder_.begin_stream();
  for (const uint32_t slot : {0, 1})
    builder_.put(2, slot_of(Buffer::kRecv, slot), slot_of(Buffer::kRecv, slot));
  builder_.expect(1, slot_of(Buffer::kRecv, 1));
  builder_.end_stream();
  post(builder_);
  ASSERT_EQ(network_.put_to.size(), 4u);
  local_.arrived = 2;
  for (network_.done = 0; network_.done < 2; ++network_.done) {
    progress();
    EXPECT_EQ(local_.arrived, 2) << network_.done << " pieces read";
  }
  progress();
  EXPECT_EQ(local_.arrived, 1);
  network_.done = 3;
  progress();
  EXPECT_EQ(local_.arrived, 1) << "piece 1 of slot 1 is still read";
  network_.done = 4;
  progress();
  EXPECT_TRUE(completion_.done);
}

}  // namespace
}  // namespace ibcoll
