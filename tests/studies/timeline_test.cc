/// Recordings of real calls: what is noted, kept in files and drawn.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "engine/algorithms/registry.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"
#include "studies/drawing/draw.h"
#include "studies/measure/clock_offset.h"
#include "studies/measure/record_call.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;
using testing::JobOptions;
using testing::RankView;

/// Records a call on a job of that layout, on threads, so that what rank 0 gets comes back.
Recording recorded(const std::string& layout, Collective collective, std::string_view algorithm,
                   size_t block_bytes) {
  JobOptions job;
  job.shape = parse_layout(layout).value();
  job.threads = true;
  const auto ranks = static_cast<size_t>(job.shape.ranks());
  Recording result;
  const std::string complaints = run_job(job, [&](const RankView& rank) {
    std::vector<std::byte> send(ranks * block_bytes), recv(ranks * block_bytes);
    const std::vector<int64_t> counts(ranks, static_cast<int64_t>(block_bytes));
    std::vector<int64_t> places(ranks);
    for (size_t i = 0; i < ranks; ++i) places[i] = static_cast<int64_t>(i * block_bytes);
    CallArguments arguments;
    arguments.collective = collective;
    arguments.send = send.data();
    arguments.recv = recv.data();
    arguments.block_bytes = block_bytes;
    arguments.send_counts = arguments.recv_counts = counts.data();
    arguments.send_displacements = arguments.recv_displacements = places.data();
    arguments.options = {algorithm, std::nullopt, 2};
    Call call(rank.context.world());
    if (!rank.good(call.prepare(arguments), "prepare")) return;
    auto recording = measure::record_call(rank.context, call);
    if (!rank.good(recording, "record")) return;
    if (rank.context.rank() == 0) result = std::move(*recording);
    // Calls that are not recorded leave no trace.
    if (rank.good(call.start(), "again")) rank.good(call.wait(), "again");
  });
  EXPECT_EQ(complaints, "");
  return result;
}

Programs programs_of(const Recording& recording) {
  return build_all(*find_algorithm(recording.collective, recording.algorithm).value(),
                   recording.shape, recording.options);
}

TEST(Timeline, HasEveryOperationOnceAndEveryPutArrives) {
  for (const char* name : {"two_level_ring", "linear", "aggregate", "ring"}) {
    for (const Collective collective : {Collective::kAlltoall, Collective::kAlltoallv}) {
      SCOPED_TRACE(name);
      const Recording recording = recorded("3,1,2", collective, name, 4096);
      ASSERT_EQ(recording.ranks.size(), 6u);
      EXPECT_EQ(recording.block_bytes, 4096u);
      EXPECT_EQ(recording.transport, "loopback");
      const Programs programs = programs_of(recording);
      const auto activities = activities_of(recording, programs);
      ASSERT_TRUE(activities) << activities.error().message;
      for (Rank rank = 0; rank < 6; ++rank) {
        const RankRecord& record = recording.ranks[static_cast<size_t>(rank)];
        EXPECT_LT(record.begin_ns, record.end_ns);
        std::map<std::pair<Lane, uint32_t>, int> times;
        for (const RecordedOp& op : record.ops) {
          EXPECT_LE(record.begin_ns, op.begin_ns);
          EXPECT_LE(op.begin_ns, op.end_ns);
          EXPECT_LE(op.end_ns, record.end_ns);
          ++times[{op.lane, op.op}];
        }
        EXPECT_EQ(times.size(), programs[static_cast<size_t>(rank)]->size());
      }
      size_t puts = 0;
      for (const auto& program : programs) {
        for (const Op& op : program->lane(Lane::kSend)) puts += op.kind == OpKind::kPut;
      }
      size_t drawn = 0;
      for (const Activity& activity : *activities) {
        EXPECT_LE(activity.begin, activity.end);
        EXPECT_LE(activity.end, activity.arrival);
        const Op& op = programs[activity.rank]->lane(activity.lane)[activity.op];
        drawn += activity.lane == Lane::kSend && op.kind == OpKind::kPut;
      }
      EXPECT_EQ(drawn, puts);
    }
  }
}

TEST(Timeline, PiecesOfAStreamAreMessagesOfTheirOwn) {
  const Recording recording = recorded("1x3", Collective::kAllgather, "ring", 4096);
  EXPECT_EQ(recording.pieces, 2u);
  const auto activities = activities_of(recording, programs_of(recording));
  ASSERT_TRUE(activities) << activities.error().message;
}

TEST(Timeline, IsTheSameAfterAFile) {
  const Recording recording = recorded("2,1", Collective::kAlltoall, "two_level_ring", 100);
  const std::string text = to_text(recording);
  const auto again = parse_recording(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_text(*again), text);
  const Programs programs = programs_of(recording);
  const auto before = activities_of(recording, programs), after = activities_of(*again, programs);
  ASSERT_TRUE(before && after);
  ASSERT_EQ(before->size(), after->size());
  for (size_t i = 0; i < before->size(); ++i)
    EXPECT_DOUBLE_EQ((*before)[i].arrival, (*after)[i].arrival);
  const std::string svg = draw_beside(recording.shape, programs, "plan", 1, *before, "run <1>");
  EXPECT_THAT(svg, HasSubstr("run &lt;1&gt;"));
  EXPECT_THAT(svg, HasSubstr("microseconds"));
}

TEST(Timeline, DamagedFilesAreRefusedWithTheLine) {
  const std::string text = to_text(recorded("2,1", Collective::kAlltoall, "linear", 100));
  const auto damaged = [&](const std::string& what, const std::string& with) {
    std::string changed = text;
    changed.replace(changed.find(what), what.size(), with);
    const auto read = parse_recording(changed);
    return read ? "accepted" : read.error().message;
  };
  EXPECT_THAT(damaged("\"recording\":1", "\"recording\":2"), HasSubstr("line 1: this is not a"));
  EXPECT_THAT(damaged("\"pacing\":\"", "\"pacing\":\"x"), HasSubstr("line 1: "));
  EXPECT_THAT(damaged("\"server_of\":[0", "\"server_of\":[7"), HasSubstr("line 1: "));
  EXPECT_THAT(damaged("\"window\":1", "\"window\":-1"), HasSubstr("line 1: 'window' must be"));
  EXPECT_THAT(damaged("{\"rank\":0", "{\"rank\":1"), HasSubstr("line 2: this must be rank 0's"));
  EXPECT_THAT(damaged("[\"send\",", "[\"sand\","), HasSubstr("line 2: unknown lane \"sand\""));
  EXPECT_THAT(damaged("{\"rank\":2", "\"rank\":2"), HasSubstr("line 4: "));
  EXPECT_THAT(damaged("\"arrivals\":[[2,", "\"arrivals\":[[9,"), HasSubstr("a sender must be"));
  EXPECT_THAT(parse_recording("").error().message, HasSubstr("nothing in it"));
  EXPECT_THAT(parse_recording(text.substr(0, text.find('\n'))).error().message,
              HasSubstr("0 of 3 ranks are there"));
}

TEST(Timeline, ARecordingOfSomethingElseIsRefused) {
  Recording recording = recorded("2,1", Collective::kAlltoall, "linear", 100);
  const Programs programs = programs_of(recording);
  Recording other = recording;
  other.hash ^= 1;
  EXPECT_FALSE(activities_of(other, programs));
  other = recording;
  other.ranks[2].arrivals.clear();
  EXPECT_THAT(activities_of(other, programs).error().message,
              HasSubstr("to rank 2, which saw 0 come"));
  other = recording;
  other.ranks[0].ops.front().op = 1000;
  EXPECT_THAT(activities_of(other, programs).error().message, HasSubstr("operation 1000 of "));
}

TEST(Timeline, ClocksOfOneMachineAreOne) {
  JobOptions job;
  job.shape = Shape::single_server(3);
  EXPECT_EQ(run_job(job,
                    [](const RankView& rank) {
                      const auto clock =
                          measure::measure_clock_offset(rank.context.job().bootstrap());
                      if (!rank.good(clock, "clock")) return;
                      if (clock->offset_ns != 0 || clock->error_ns != 0) rank.complain("apart");
                    }),
            "");
}

}  // namespace
}  // namespace ibcoll
