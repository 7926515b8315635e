/// What an operation means is said once (engine/schedule/op_kinds.h): those who check, describe,
/// write, read and explain operations agree.

#include "engine/schedule/op_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/base/json.h"
#include "engine/schedule/builder.h"
#include "engine/schedule/describe.h"
#include "engine/schedule/json.h"
#include "engine/schedule/layout.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

constexpr Lane kAllLanes[] = {Lane::kSend, Lane::kRecv, Lane::kLocal};

/// Rank 0 has rank 1 beside it, and rank 2 on server 1.
const Shape& shape() {
  static const Shape shape = parse_layout("2,1").value();
  return shape;
}

/// An operation of rank 0 that has all it needs, with a peer inside the server or outside.
Op operation(OpKind kind, bool inside) {
  const OpMeaning& means = meaning(kind);
  Op op;
  op.kind = kind;
  op.to_server = means.peer == OpMeaning::Peer::kRankOrServer;
  if (means.peer != OpMeaning::Peer::kNone) op.peer = addresses_server(op) || inside ? 1 : 2;
  if (means.reads) op.src_buffer = Buffer::kSend;
  if (means.writes != OpMeaning::Writes::kNone) op.dst_buffer = Buffer::kRecv, op.count = 1;
  return op;
}

RankProgram program_of(Op op, Lane lane) {
  RankProgram program;
  program.collective =
      op.kind == OpKind::kReduce || op.combines ? Collective::kReduce : Collective::kAlltoall;
  program.steps = 1;
  op.lane = lane;
  program.lanes[static_cast<int>(lane)].edit().push_back(op);
  return program;
}

std::string complaint(const Op& op, Lane lane) {
  const Status status = check_program(shape(), program_of(op, lane));
  return status ? "" : status.error().message;
}

TEST(OpKinds, OneInALaneItMayNotStandInIsRefusedByName) {
  for (const OpMeaning& means : kOpMeanings) {
    for (const bool inside : {true, false}) {
      const Lanes& lanes = inside ? means.inside : means.between;
      if (lanes.empty()) continue;
      const Op op = operation(means.kind, inside);
      for (const Lane lane : kAllLanes) {
        if (lanes.contains(lane)) {
          EXPECT_EQ(complaint(op, lane), "");
        } else {
          EXPECT_THAT(complaint(op, lane), HasSubstr(describe(op) + "): belongs in lane"));
        }
      }
    }
  }
  EXPECT_EQ(complaint(operation(OpKind::kPut, false), Lane::kRecv),
            "rank 0, lane recv, step 0, op 0 (put send[0] to rank 2 at recv[0]): belongs in lane "
            "send");
  EXPECT_THAT(complaint(operation(OpKind::kCopy, true), Lane::kSend),
              HasSubstr("(copy send[0] to recv[0]): belongs in lane local"));
}

TEST(OpKinds, FieldsTheyHaveNoUseForAreRefused) {
  for (const OpMeaning& means : kOpMeanings) {
    const bool inside = !means.inside.empty();
    const Lane lane = (inside ? means.inside : means.between).first();
    const auto refused = [&](const std::function<void(Op&)>& change) {
      Op op = operation(means.kind, inside);
      change(op);
      return !complaint(op, lane).empty();
    };
    EXPECT_EQ(refused([](Op& op) { op.exposure = 1; }), !means.exposure) << means.name;
    EXPECT_EQ(refused([](Op& op) { op.threshold = 1; }), !means.threshold) << means.name;
    EXPECT_EQ(refused([](Op& op) { op.combines = true; }), !means.combines) << means.name;
    const auto folds = [&](Op& op) { op.combines = means.combines; };
    EXPECT_EQ(refused([&](Op& op) { folds(op), op.ordered = true; }), !means.ordered) << means.name;
    EXPECT_EQ(refused([&](Op& op) { folds(op), op.before = true; }), !means.ordered) << means.name;
    EXPECT_EQ(refused([](Op& op) { op.src_buffer = Buffer::kSend; }), !means.reads) << means.name;
    EXPECT_EQ(refused([](Op& op) { op.dst_buffer = Buffer::kRecv; }),
              means.writes == OpMeaning::Writes::kNone)
        << means.name;
    EXPECT_EQ(refused([](Op& op) { op.relaxed = Op::Relaxed::kFirstOfRun; }), !means.relaxed)
        << means.name;
  }
}

TEST(OpKinds, FilesNeedWhatAnOperationUses) {
  for (const OpMeaning& means : kOpMeanings) {
    RankProgram program =
        program_of(operation(means.kind, true), means.inside.empty() ? Lane::kRecv : Lane::kLocal);
    const auto message = [&](const char* key, bool there) {
      nlohmann::ordered_json object = program_to_json(program);
      auto& op = object[means.inside.empty() ? "recv" : "local"][0];
      op.erase(key);
      if (there) op[key] = key[0] == 'p' ? nlohmann::json(1) : nlohmann::json{"recv", 0, 1};
      const auto read = parse_schedule(json_text(schedule_header_to_json(shape(), program)) + "\n" +
                                       json_text(object));
      return read ? "accepted" : read.error().message;
    };
    const std::pair<const char*, bool> uses[] = {{"peer", means.peer != OpMeaning::Peer::kNone},
                                                 {"src", means.reads},
                                                 {"dst", means.writes != OpMeaning::Writes::kNone}};
    for (const auto& [key, used] : uses) {
      EXPECT_THAT(message(key, !used),
                  HasSubstr(fmt::format("{} {} '{}'", means.name, used ? "needs" : "has no", key)));
    }
  }
}

TEST(OpKinds, WhatIsWaitedForInVainIsSaid) {
  using Write = std::function<void(ProgramBuilder&, Rank)>;
  struct Case {
    const char* layout;
    Write write;
    const char* waits;
  };
  const Slice slot{Buffer::kRecv, 0, 1}, source{Buffer::kSend, 0, 1};
  const Case cases[] = {
      {"2", [&](ProgramBuilder& program, Rank peer) { program.expect(peer, slot); },
       "(expect recv[0] from rank 1) waits for rank 1 to send its data"},
      {"1,1", [&](ProgramBuilder& program, Rank peer) { program.put(peer, source, slot); },
       "(put send[0] to rank 1 at recv[0]) waits for rank 1 to be ready to receive"},
      {"1,1", [](ProgramBuilder& program, Rank peer) { program.wait_exposed(peer); },
       "(wait until server 1 has exposed 1x) waits for rank 1 to be ready to receive"},
      {"1,1", [](ProgramBuilder& program, Rank) { program.forward(2); },
       "(forward 2 exposures) waits for exposures to pass on"},
      {"2", [](ProgramBuilder& program, Rank peer) { program.wait(peer); },
       "(wait for rank 1) waits for rank 1 to send a token"},
      {"2", [](ProgramBuilder& program, Rank) { program.gate_wait(1, Lane::kLocal); },
       "(wait for gate 1 of all local ranks) waits for rank 0 to pass a gate"},
  };
  for (const Case& each : cases) {
    const Shape layout = parse_layout(each.layout).value();
    Programs programs;
    for (const Rank me : {0, 1}) {
      ProgramBuilder program(Collective::kAlltoall, "test", layout, me, {});
      each.write(program, 1 - me);
      programs.push_back(program.finish());
    }
    const auto result = verify(layout, programs);
    ASSERT_FALSE(result.has_value()) << each.waits;
    EXPECT_THAT(result.error().message, HasSubstr(each.waits));
  }
}

}  // namespace
}  // namespace ibcoll
