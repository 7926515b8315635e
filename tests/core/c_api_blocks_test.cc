// The C and C++ interface: blocks that are not contiguous.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <ibcoll/ibcoll.hpp>
#include <numeric>
#include <string_view>
#include <vector>

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

/// A matrix whose rows are dealt over the ranks, and which is to be transposed: rank i has `kRows`
/// rows of `ranks * kRows` numbers. What it sends to rank j is a block of its columns, and goes
/// there by columns; what it receives lies in its rows.
class Transposed {
 public:
  static constexpr int64_t kRows = 3;

  Transposed(int me, int ranks) : me_(me), width_(kRows * ranks) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      // Column by column; the element is one column's part.
      send.push_back(ibcoll_block_repeat(
          ibcoll_block_vector(rank * kRows * kNumber, kNumber, kRows, width_ * kNumber), kRows,
          kNumber));
      // Row by row.
      recv.push_back(
          ibcoll_block_vector(rank * kRows * kNumber, kRows * kNumber, kRows, width_ * kNumber));
    }
    fill();
  }
  void fill() {
    from.resize(static_cast<size_t>(kRows * width_));
    to.assign(from.size(), -1);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < width_; ++column)
        from[static_cast<size_t>(row * width_ + column)] = at(me_ * kRows + row, column);
    }
  }
  bool right() const {
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < width_; ++column) {
        if (to[static_cast<size_t>(row * width_ + column)] != at(column, me_ * kRows + row))
          return false;
      }
    }
    return true;
  }

  std::vector<int64_t> from, to;
  std::vector<ibcoll_block> send, recv;

 private:
  static constexpr int64_t kNumber = sizeof(int64_t);
  int64_t at(int64_t row, int64_t column) const { return row * 1000 + column; }
  int64_t me_, width_;
};

int transpose(context& c) {
  const group world = c.world();
  Transposed matrix(c.rank(), c.size());
  const auto ended_well = [&](auto&& call) {
    matrix.fill();
    call();
    return matrix.right();
  };
  if (!ended_well(
          [&] { world.alltoallw<int64_t>(matrix.from, matrix.send, matrix.to, matrix.recv); }))
    return 1;
  if (!ended_well([&] {
        Transposed gone = matrix;  // blocks are not needed any more once the call is prepared
        request call = world.ialltoallw<int64_t>(matrix.from, gone.send, matrix.to, gone.recv);
        gone.send.assign(gone.send.size(), {});
        gone.recv.assign(gone.recv.size(), {});
        call.wait();
      }))
    return 2;
  request often = world.alltoallw_init<int64_t>(matrix.from, matrix.send, matrix.to, matrix.recv);
  for (int round = 0; round < 3; ++round) {
    if (!ended_well([&] {
          often.start();
          often.wait();
        }))
      return 3;
  }
  // A set, of all; and packed at one end only.
  ibcoll::rank_set all;
  for (int rank = 0; rank < c.size(); ++rank) all.add(rank);
  if (!ended_well([&] {
        c.on_set(all, 5).alltoallw<int64_t>(matrix.from, matrix.send, matrix.to, matrix.recv);
      }))
    return 4;
  if (!ended_well([&] {
        const int64_t bytes = Transposed::kRows * Transposed::kRows * 8;
        std::vector<int64_t> packed(matrix.from.size());
        for (size_t i = 0; i < matrix.send.size(); ++i) {
          const ibcoll_block& b = matrix.send[i];
          for (int64_t k = 0; k < b.count * b.outer_count; ++k) {
            packed[i * 9 + static_cast<size_t>(k)] = matrix.from[static_cast<size_t>(
                (b.offset + k / b.count * b.outer_stride + k % b.count * b.stride) / 8)];
          }
        }
        ibcoll_call call = ibcoll_call_alltoall(packed.data(), matrix.to.data(),
                                                static_cast<size_t>(bytes), nullptr);
        call.recv_blocks = matrix.recv.data();
        ibcoll_request* request = nullptr;
        detail::check(ibcoll_call_init(world.handle(), &call, &request));
        detail::check(ibcoll_start(request));
        detail::check(ibcoll_wait(request));
        detail::check(ibcoll_call_free(request));
      }))
    return 5;
  return 0;
}

TEST(Alltoallw, TransposesAMatrixInEveryForm) {
  for (const char* layout : {"1", "2", "1,1", "3", "2,3", "5", "4,1,2", "7", "5,2,4,1"}) {
    int ranks = 0;
    for (const char* c = layout; *c != 0; ++c) ranks += *c == ',' ? 0 : *c - '0';
    EXPECT_EQ(launch(ranks, transpose, layout), 0) << layout;
  }
}

uint64_t counter_of(const context& c, std::string_view wanted) {
  const char* name = nullptr;
  uint64_t value = 0;
  for (int i = 0; ibcoll_get_named_counter(c.handle(), i, &name, &value) == IBCOLL_OK; ++i) {
    if (name == wanted) return value;
  }
  return 0;
}

/// Each rank sends the others tiles of a matrix whose rows are long enough to go out as they lie.
int tiles(context& c) {
  const auto ranks = static_cast<int64_t>(c.size());
  constexpr int64_t kRows = 20, kBytes = 8192, kCalls = 3;
  constexpr auto kNumbers = static_cast<size_t>(kBytes / 8);
  std::vector<int64_t> matrix(static_cast<size_t>(kRows * ranks) * kNumbers), got(matrix.size());
  std::vector<ibcoll_block> send, recv;
  for (int64_t i = 0; i < ranks; ++i) {
    send.push_back(ibcoll_block_vector(i * kBytes, kBytes, kRows, ranks * kBytes));
    recv.push_back(ibcoll_block_contiguous(i * kRows * kBytes, kRows * kBytes));
  }
  request often = c.world().alltoallw_init<int64_t>(matrix, send, got, recv);
  for (int64_t call = 0; call < kCalls; ++call) {
    std::fill(got.begin(), got.end(), -1);
    for (size_t i = 0; i < matrix.size(); ++i)
      matrix[i] = static_cast<int64_t>(i) + 1'000'000 * (c.rank() + 10 * call);
    often.start();
    often.wait();
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t from = i / (kRows * kNumbers), row = i / kNumbers % kRows;
      const size_t place =
          (row * static_cast<size_t>(ranks) + static_cast<size_t>(c.rank())) * kNumbers +
          i % kNumbers;
      if (got[i] != static_cast<int64_t>(place + 1'000'000 * (from + 10 * call))) return 1;
    }
  }
  // More rows than one put takes.
  return counter_of(c, "gathers") > kCalls ? 0 : 2;
}

TEST(Alltoallw, LongRowsGoToAnotherServerAsTheyLie) {
  for (const char* layout : {"1,1", "2,1"})
    EXPECT_EQ(launch(layout[0] - '0' + 1, tiles, layout), 0) << layout;
}

/// What is sent to a rank lies, in runs, where what comes from it is to lie.
int in_place(context& c) {
  const group world = c.world();
  const auto ranks = static_cast<size_t>(c.size());
  constexpr size_t kNumbers = 40;
  std::vector<int32_t> numbers(2 * kNumbers * ranks);
  std::vector<ibcoll_block> blocks;
  for (size_t i = 0; i < ranks; ++i) {
    // Every other one, from the last to the first.
    blocks.push_back(
        ibcoll_block_vector(static_cast<int64_t>(8 * (kNumbers * (i + 1) - 1)), 4, kNumbers, -8));
  }
  const auto fill = [&] {
    std::fill(numbers.begin(), numbers.end(), -1);
    for (size_t i = 0; i < ranks; ++i) {
      for (size_t k = 0; k < kNumbers; ++k)
        numbers[2 * (kNumbers * (i + 1) - 1 - k)] =
            static_cast<int32_t>(1000 * i + 100000 * c.rank() + k);
    }
  };
  const auto right = [&] {
    for (size_t i = 0; i < ranks; ++i) {
      for (size_t k = 0; k < kNumbers; ++k) {
        const size_t place = 2 * (kNumbers * (i + 1) - 1 - k);
        if (numbers[place] != static_cast<int32_t>(1000 * c.rank() + 100000 * i + k)) return false;
        if (numbers[place + 1] != -1) return false;
      }
    }
    return true;
  };
  fill();
  world.alltoallw_in_place<int32_t>(numbers, blocks);
  if (!right()) return 1;
  request often = world.alltoallw_in_place_init<int32_t>(numbers, blocks);
  for (int round = 0; round < 2; ++round) {
    fill();
    often.start();
    often.wait();
    if (!right()) return 2;
  }
  fill();
  world.ialltoallw_in_place<int32_t>(numbers, blocks).wait();
  return right() ? 0 : 3;
}

TEST(Alltoallw, InPlaceSendsWhatLiesWhereItReceives) {
  for (const char* layout : {"4", "2,2", "3,1", "1,1,1,1"})
    EXPECT_EQ(launch(4, in_place, layout), 0) << layout;
}

/// Nobody has anything, and no buffer.
int nothing_in_place(context& c) {
  std::vector<ibcoll_block> blocks(static_cast<size_t>(c.size()), ibcoll_block_contiguous(0, 0));
  c.world().alltoallw_in_place<int32_t>({}, blocks);
  ibcoll_call gather =
      ibcoll_call_allgatherv(IBCOLL_IN_PLACE, 0, nullptr, nullptr, nullptr, nullptr);
  gather.recv_blocks = blocks.data();
  ibcoll_request* request = nullptr;
  if (ibcoll_call_init(c.world().handle(), &gather, &request) != IBCOLL_OK) return 1;
  return ibcoll_start(request) == IBCOLL_OK && ibcoll_wait(request) == IBCOLL_OK &&
                 ibcoll_call_free(request) == IBCOLL_OK
             ? 0
             : 2;
}

TEST(Alltoallw, InPlaceOfNothingNeedsNoBuffer) { EXPECT_EQ(launch(4, nothing_in_place, "2,2"), 0); }

/// A column of one rank's matrix is a row of the others'.
int column_to_rows(context& c) {
  const int64_t rows = 500;
  std::vector<double> matrix(static_cast<size_t>(rows) * 3, -1.0);
  ibcoll_call call = ibcoll_call_bcast(matrix.data(), static_cast<size_t>(rows) * 8, 0, nullptr);
  const ibcoll_block column = ibcoll_block_vector(8, 8, rows, 24);
  if (c.rank() == 0) {
    for (size_t i = 0; i < 500; ++i) matrix[3 * i + 1] = static_cast<double>(i);
    call.recv_blocks = &column;
  }
  ibcoll_request* request = nullptr;
  detail::check(ibcoll_call_init(c.world().handle(), &call, &request));
  detail::check(ibcoll_start(request));
  detail::check(ibcoll_wait(request));
  detail::check(ibcoll_call_free(request));
  for (size_t i = 0; i < 500; ++i) {
    if (matrix[c.rank() == 0 ? 3 * i + 1 : i] != static_cast<double>(i)) return 1;
  }
  return 0;
}

TEST(Blocks, OneRanksColumnIsAnothersRow) {
  for (const char* layout : {"3", "2,1", "1,1,1"})
    EXPECT_EQ(launch(3, column_to_rows, layout), 0) << layout;
}

class BadBlocks : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(ibcoll_init(&context_), IBCOLL_OK) << ibcoll_last_error();
    world_ = ibcoll_world(context_);
  }
  void TearDown() override { EXPECT_EQ(ibcoll_finalize(context_), IBCOLL_OK); }
  void expect_refused(const ibcoll_call& call, const std::string& text) {
    ibcoll_request* request = nullptr;
    EXPECT_EQ(ibcoll_call_init(world_, &call, &request), IBCOLL_ERR_INVALID);
    EXPECT_THAT(ibcoll_last_error(), HasSubstr(text));
  }
  void expect_refused(ibcoll_block send, ibcoll_block recv, const std::string& text,
                      const ibcoll_options* options = nullptr) {
    expect_refused(ibcoll_call_alltoallw(from_.data(), &send, to_.data(), &recv, options), text);
  }
  std::array<int64_t, 16> from_{}, to_{};
  ibcoll_context* context_ = nullptr;
  ibcoll_group* world_ = nullptr;
};

TEST_F(BadBlocks, AreRefusedWithWhatIsWrong) {
  const ibcoll_block good = ibcoll_block_vector(0, 8, 2, 16);
  expect_refused({0, -8, 1, 0, 1, 0}, good, "send block 0 has 1 times 1 runs of -8 bytes");
  expect_refused({0, 8, -1, 0, 1, 0}, good, "none may be negative");
  expect_refused(good, {0, 8, 2, 16, -1, 0}, "receive block 0");
  expect_refused({0, INT64_MAX, 2, 0, 2, 0}, good, "more than 2^62 bytes");
  expect_refused({0, 8, 1 << 20, INT64_MAX / 2, 1, 0}, good, "reaches further than 2^62 bytes");
  expect_refused(good, {0, 8, 2, 4, 1, 0}, "overlap");
  expect_refused(good, {0, 8, 2, -7, 1, 0}, "overlap");
  expect_refused(good, {0, 8, 1, 0, 2, 0}, "overlap");
  expect_refused(good, ibcoll_block_contiguous(0, 8), "sends itself 16 bytes where it receives 8");
  ibcoll_options limits = IBCOLL_OPTIONS_INIT;
  limits.send_bytes = 16;
  expect_refused(good, good, "send block 0 reaches from byte 0 to 24 of a buffer of 16 bytes",
                 &limits);
  expect_refused(ibcoll_call_alltoallw(nullptr, &good, to_.data(), &good, nullptr), "null");
  expect_refused(ibcoll_call_alltoallw(from_.data(), nullptr, to_.data(), &good, nullptr),
                 "the send blocks are null");
  expect_refused(ibcoll_call_alltoallw(IBCOLL_IN_PLACE, nullptr, to_.data(), nullptr, nullptr),
                 "the receive blocks are null");
  ibcoll_call call = ibcoll_call_alltoall(from_.data(), to_.data(), 24, nullptr);
  call.recv_blocks = &good;
  expect_refused(call, "receive block 0 has 16 bytes where the blocks of this alltoall have 24");
  call = ibcoll_call_allreduce(from_.data(), to_.data(), 2, IBCOLL_INT64, IBCOLL_SUM, nullptr);
  call.send_blocks = &good;
  expect_refused(call, "allreduce takes no blocks");
}

TEST_F(BadBlocks, SentRunsMayOverlapAndLieBeforeTheBuffer) {
  from_ = {1, 2, 3, 4};
  const ibcoll_block send = ibcoll_block_vector(-8, 16, 2, 8);
  const ibcoll_block recv = ibcoll_block_vector(24, 8, 4, -8);
  EXPECT_EQ(ibcoll_alltoallw(world_, &from_[1], &send, to_.data(), &recv, nullptr), IBCOLL_OK)
      << ibcoll_last_error();
  EXPECT_EQ(to_[3], 1);
  EXPECT_EQ(to_[2], 2);
  EXPECT_EQ(to_[1], 2);
  EXPECT_EQ(to_[0], 3);
}

TEST_F(BadBlocks, ACallOfAnOlderVersionHasNone) {
  ibcoll_call call = ibcoll_call_alltoall(from_.data(), to_.data(), 8, nullptr);
  call.send_blocks = call.recv_blocks = reinterpret_cast<const ibcoll_block*>(8);
  call.struct_size = offsetof(ibcoll_call, send_blocks);
  ibcoll_request* request = nullptr;
  EXPECT_EQ(ibcoll_call_init(world_, &call, &request), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_call_free(request), IBCOLL_OK);
}

}  // namespace
}  // namespace ibcoll
