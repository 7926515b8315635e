#include "tests/disagreements.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ibcoll::testing {

Status make(Group& group, const CallArguments& arguments) {
  Call call(group);
  IBCOLL_TRY(call.prepare(arguments));
  IBCOLL_TRY(call.start());
  return call.wait();
}

CallArguments CallMemory::arguments(Collective collective, size_t bytes, Rank root) {
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

JobOptions impatient(const std::vector<int>& ranks_of_server) {
  JobOptions job = job_of(ranks_of_server);
  job.context.cycle_ns = 500'000'000;
  return job;
}

void expect_named(const JobOptions& job, const std::vector<std::string>& texts,
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

}  // namespace ibcoll::testing
