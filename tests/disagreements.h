#pragma once
/// Jobs whose ranks mean different things by a call, and what all of them then have to say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/job.h"

namespace ibcoll::testing {

inline Status make(Group& group, const CallArguments& arguments) {
  Call call(group);
  IBCOLL_TRY(call.prepare(arguments));
  IBCOLL_TRY(call.start());
  return call.wait();
}

/// CallMemory for calls of up to four ranks and 100000 bytes a block.
struct CallMemory {
  std::vector<std::byte> send = std::vector<std::byte>(400'000);
  std::vector<std::byte> recv = std::vector<std::byte>(400'000);

  CallArguments arguments(Collective collective, size_t bytes, Rank root = 0) {
    CallArguments a;
    a.collective = collective;
    a.block_bytes = bytes;
    a.root = root;
    a.send = has_one_buffer(collective) ? recv.data() : send.data();
    a.recv = recv.data();
    if (collective == Collective::kReduce)
      a.reduction = find_reduction(ElementType::kInt32, Operator::kSum).value();
    return a;
  }
};

/// Every rank must get a mismatch whose line has `texts` in it, at the latest when it leaves.
inline void expect_named(const JobOptions& job, const std::vector<std::string>& texts,
                         const std::function<Status(const RankView&)>& body) {
  Complaints errors(job.shape.ranks());
  int status = 0;
  const std::string at_the_end = run_job(
      job,
      [&](const RankView& rank) {
        const Status result = body(rank);
        if (!result) {
          errors.add(rank.context.rank(),
                     fmt::format("{}: {}", to_string(result.error().code), result.error().message));
        } else if (const Status closed = rank.context.close(); !closed) {
          errors.add(rank.context.rank(),
                     fmt::format("{}: {}", to_string(closed.error().code), closed.error().message));
        }
      },
      &status);
  for (Rank rank = 0; rank < job.shape.ranks(); ++rank) {
    EXPECT_THAT(errors.of(rank), ::testing::HasSubstr("ranks disagree"))
        << "rank " << rank << at_the_end;
    for (const std::string& text : texts)
      EXPECT_THAT(errors.of(rank), ::testing::HasSubstr(text)) << "rank " << rank;
  }
}

inline const std::vector<std::vector<int>> kLayouts = {{2}, {1, 1}};

}  // namespace ibcoll::testing
