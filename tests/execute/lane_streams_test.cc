// Streams of a lane: what has to be over before a piece of one may start, and what a piece is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/execute/lone_rank.h"

namespace ibcoll {
namespace {

using ::testing::Each;

constexpr uint64_t kSlotBytes = 64;

/// Streams go in two pieces.
class LaneStreams : public LoneRank {
 protected:
  LaneStreams() : LoneRank(Collective::kAlltoallv, kSlotBytes, 3) {
    std::fill(send_.begin(), send_.end(), std::byte{1});
    std::fill(recv_.begin(), recv_.end(), std::byte{2});
    binding_.pieces = 2;
  }
  /// What `write` writes is a stream of its own.
  template <class Write>
  void stream(Write&& write) {
    builder_.begin_stream();
    write();
    builder_.end_stream();
  }
};

/// The first piece of two slots lies where the second piece of the first slot does.
TEST_F(LaneStreams, NothingIsWrittenThatAPieceOfAnEarlierStreamIsReadFrom) {
  stream([&] { builder_.put(1, {Buffer::kRecv, 0, 1}, {Buffer::kRecv, 0, 1}); });
  stream([&] { builder_.put(2, {Buffer::kRecv, 1, 1}, {Buffer::kRecv, 0, 1}); });
  stream([&] { builder_.copy({Buffer::kRecv, 0, 2}, {Buffer::kSend, 0, 2}); });
  post();
  ASSERT_EQ(local_.offered.size(), 4u);
  local_.tickets_read = {1, 3, 4};
  progress();
  EXPECT_THAT(recv_, Each(std::byte{2})) << "rank 1 has not read the second piece";
  local_.tickets_read.push_back(2);
  progress();
  EXPECT_TRUE(completion_.done);
  std::vector<std::byte> wanted(recv_.size(), std::byte{2});
  std::fill_n(wanted.begin(), 2 * kSlotBytes, std::byte{1});
  EXPECT_EQ(recv_, wanted);
}

/// Of slots that differ in length each is cut by itself, and may lie anywhere.
TEST_F(LaneStreams, CopyPiecesOfSlotsThatDifferInLength) {
  constexpr std::array<uint64_t, 3> kBytes = {10, 1, 37};
  constexpr std::array<uint64_t, 3> kFrom = {0, 20, 100}, kTo = {150, 3, 60};
  for (size_t i = 0; i < send_.size(); ++i) send_[i] = static_cast<std::byte>(i);
  std::vector<std::byte> wanted = recv_;
  for (size_t slot = 0; slot < kBytes.size(); ++slot)
    std::copy_n(send_.begin() + kFrom[slot], kBytes[slot], wanted.begin() + kTo[slot]);
  binding_.unequal = true;
  binding_[Buffer::kSend] = {send_.data(), kFrom.data(), kBytes.data()};
  binding_[Buffer::kRecv] = {recv_.data(), kTo.data(), kBytes.data()};
  stream([&] { builder_.copy({Buffer::kRecv, 0, 3}, {Buffer::kSend, 0, 3}); });
  post();
  EXPECT_TRUE(completion_.done);
  EXPECT_EQ(recv_, wanted);
}

}  // namespace
}  // namespace ibcoll
