// Calls whose bytes are checked (IBCOLL_CHECK) and right: none is taken for wrong, whatever moves
// its data.

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "engine/algorithms/registry.h"
#include "engine/bootstrap/launch.h"
#include "tests/any_call.h"

namespace ibcoll {
namespace {

using testing::Item;
using testing::JobOptions;
using testing::Posted;
using testing::RankView;
using testing::run_job;

JobOptions checked_job(const std::vector<int>& layout, CheckMode check) {
  JobOptions job;
  job.shape = Shape::from_layout(layout, Placement::kBlock).value();
  job.context.transport = "auto";
  job.context.check = check;
  return job;
}

bool may_lie_in_place(Collective collective) {
  return collective == Collective::kAlltoall || collective == Collective::kAllgather ||
         collective == Collective::kAllreduce || collective == Collective::kScan;
}

class CheckedCalls : public ::testing::TestWithParam<CheckMode> {};

void call_all(const RankView& rank) {
  uint32_t number = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.spec->planned) continue;  // there is no network to plan for
    for (const size_t bytes : {size_t{0}, size_t{8}, size_t{1000}, size_t{70'000}}) {
      Item item;
      item.collective = algorithm.collective;
      item.algorithm = algorithm.name;
      item.bytes = bytes;
      item.number = number++;
      item.root = static_cast<Rank>(number) % rank.context.size();
      item.in_place = may_lie_in_place(item.collective) && number % 2 == 0;
      Posted call(rank.context.world(), item);
      if (!rank.good(call.prepare(), call.describe())) return;
      // Again: what is known from the first time is used.
      for (int times = 0; times < 2; ++times) {
        call.fill(item.number);
        if (!rank.good(call.call().start(), call.describe())) return;
        if (!rank.good(call.call().wait(), call.describe())) return;
        if (!call.right()) return rank.complain("wrong data in " + call.describe());
      }
    }
  }
}

TEST_P(CheckedCalls, AreRightByEveryAlgorithm) {
  for (const std::vector<int>& layout : std::vector<std::vector<int>>{{1}, {3}, {2, 1, 2}})
    EXPECT_EQ(run_job(checked_job(layout, GetParam()), call_all), "");
}

/// Bytes that may be elements of any type.
std::vector<std::byte> some_elements(std::mt19937_64& random, ElementType type, size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::byte& byte : data)
    byte = static_cast<std::byte>(type == ElementType::kBool ? random() % 2 : random());
  if (type != ElementType::kLongDouble && type != ElementType::kLongDoubleComplex &&
      type != ElementType::kLongDoubleInt)
    return data;
  // Not every pattern is a number of them.
  const long double values[] = {1.5L, -2.0L, std::numeric_limits<long double>::quiet_NaN(), 1e300L};
  for (size_t at = 0; at + sizeof(long double) <= bytes; at += sizeof(long double))
    std::memcpy(data.data() + at, &values[random() % std::size(values)], 10);
  return data;
}

TEST_P(CheckedCalls, CombineElementsOfAllTypes) {
  const auto body = [](const RankView& rank) {
    std::mt19937_64 random(static_cast<uint64_t>(rank.context.rank()));
    Call call(rank.context.world());
    for (int type = 0; type < kElementTypes; ++type) {
      for (int op = 0; op < kOperators; ++op) {
        const auto reduction =
            find_reduction(static_cast<ElementType>(type), static_cast<Operator>(op));
        if (!reduction) continue;
        for (const Collective collective :
             {Collective::kAllreduce, Collective::kReduce, Collective::kScan, Collective::kExscan,
              Collective::kReduceScatterBlock}) {
          for (const size_t elements : {1, 100, 3000}) {
            const size_t bytes = elements * reduction->element_bytes;
            const auto send = some_elements(random, reduction->element(),
                                            bytes * static_cast<size_t>(rank.context.size()));
            std::vector<std::byte> recv(bytes);
            CallArguments a;
            a.collective = collective;
            a.send = send.data();
            a.recv = recv.data();
            a.block_bytes = bytes;
            a.reduction = *reduction;
            a.options.ordered = elements == 100;
            const std::string what =
                fmt::format("{} of {} {} by {}", to_string(collective), elements,
                            to_string(reduction->element()), to_string(reduction->op()));
            if (!rank.good(call.prepare(a), what) || !rank.good(call.start(), what) ||
                !rank.good(call.wait(), what))
              return;
          }
        }
      }
    }
  };
  for (const std::vector<int>& layout : std::vector<std::vector<int>>{{3}, {2, 1, 2}})
    EXPECT_EQ(run_job(checked_job(layout, GetParam()), body), "");
}

class CheckedCallsFull : public CheckedCalls {};

TEST_P(CheckedCallsFull, AreRightByEveryAlgorithm) {
  for (const std::vector<int>& layout :
       std::vector<std::vector<int>>{{2}, {5}, {7}, {2, 1}, {2, 2, 3}, {4, 4, 4}, {3, 1, 2, 1}})
    EXPECT_EQ(run_job(checked_job(layout, GetParam()), call_all), "")
        << fmt::format("layout {}", fmt::join(layout, ","));
}

TEST_P(CheckedCallsFull, AMillionAreRight) {
  constexpr int kRounds = 12'500, kItems = 40;
  for (const std::vector<int>& layout : std::vector<std::vector<int>>{{2}, {1, 1}}) {
    const auto body = [](const RankView& rank) {
      std::vector<std::unique_ptr<Posted>> calls;
      for (uint32_t number = 0; calls.size() < kItems; ++number) {
        Item item;
        item.collective = kCollectives[number % kCollectives.size()];
        item.bytes = size_t{8} << number % 9;
        item.number = number;
        item.persistent = true;
        calls.push_back(std::make_unique<Posted>(rank.context.world(), item));
        if (!rank.good(calls.back()->prepare(), calls.back()->describe())) return;
      }
      for (int round = 0; round < kRounds; ++round) {
        for (const auto& call : calls) {
          if (!rank.good(call->call().start(), call->describe())) return;
          if (!rank.good(call->call().wait(), call->describe())) return;
          if (!call->right()) return rank.complain("wrong data in " + call->describe());
        }
      }
    };
    EXPECT_EQ(run_job(checked_job(layout, GetParam()), body), "");
  }
}

TEST(CheckedJob, DoesWhatRankZeroHas) {
  for (const CheckMode first : {CheckMode::kOff, CheckMode::kData, CheckMode::kLate}) {
    LaunchOptions launch;
    launch.ranks = 3;
    const Result<int> status = launch_processes(launch, [&](Bootstrap& bootstrap) {
      ContextOptions options;
      options.check = bootstrap.rank() == 0      ? first
                      : first == CheckMode::kOff ? CheckMode::kData
                                                 : CheckMode::kOff;
      auto context = Context::create(bootstrap, options);
      if (!context || (*context)->world().services().check_mode != first) return 1;
      Item item;
      item.collective = Collective::kAlltoall;
      item.bytes = 100;
      {
        Posted call((*context)->world(), item);
        if (!call.prepare() || !call.call().start() || !call.call().wait() || !call.right())
          return 1;
      }
      return (*context)->close() ? 0 : 1;
    });
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(*status, 0);
  }
}

std::string name_of(const ::testing::TestParamInfo<CheckMode>& info) {
  return info.param == CheckMode::kData ? "Data" : "Late";
}
INSTANTIATE_TEST_SUITE_P(Modes, CheckedCalls, ::testing::Values(CheckMode::kData, CheckMode::kLate),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Modes, CheckedCallsFull,
                         ::testing::Values(CheckMode::kData, CheckMode::kLate), name_of);

}  // namespace
}  // namespace ibcoll
