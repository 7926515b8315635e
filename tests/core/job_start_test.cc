// How often the ranks of a job meet while it starts: each time all of them wait for the last.

#include <gtest/gtest.h>

#include "engine/core/context.h"
#include "tests/forwarding_bootstrap.h"
#include "tests/launched.h"

namespace ibcoll {
namespace {

class CountingBootstrap final : public ForwardingBootstrap {
 public:
  using ForwardingBootstrap::ForwardingBootstrap;
  Status allgather(const void* mine, size_t bytes, void* all) override {
    ++rounds_;
    bytes_ += bytes;
    return ForwardingBootstrap::allgather(mine, bytes, all);
  }
  Status barrier() override {
    ++rounds_;
    return ForwardingBootstrap::barrier();
  }
  size_t rounds() const { return rounds_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t rounds_ = 0, bytes_ = 0;
};

struct Most {
  size_t rounds, bytes;
};

void expect_at_most(const std::vector<int>& layout, const Most& most) {
  const Shape shape = Shape::from_layout(layout, Placement::kBlock).value();
  InSharedMemory<Most> met;
  const auto result = launch_processes(quiet(shape.ranks()), [&](Bootstrap& bootstrap) -> int {
    CountingBootstrap counting(bootstrap);
    ContextOptions options;
    options.shape = shape;
    const auto context = Context::create(counting, options);
    if (!context) return kWrong;
    if (bootstrap.rank() == 0) *met = {counting.rounds(), counting.bytes()};
    return (*context)->close() ? kGood : kWrong;
  });
  ASSERT_EQ(result.value(), kGood);
  EXPECT_LE(met->rounds, most.rounds);
  EXPECT_LE(met->bytes, most.bytes);
}

TEST(JobStart, RanksOfAServerMeetFiveTimes) { expect_at_most({6}, {5, 320}); }
TEST(JobStart, RanksOfAnEmulatedNetworkMeetNineTimes) { expect_at_most({3, 1, 2}, {9, 400}); }

}  // namespace
}  // namespace ibcoll
