/// The verifier catches what goes wrong: programs of the real algorithms, damaged in every place.

#include "engine/schedule/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/algorithms/registry.h"
#include "engine/schedule/builder.h"
#include "engine/schedule/describe.h"
#include "engine/schedule/layout.h"
#include "tests/graphs.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

/// Where a program is damaged.
struct Spot {
  Rank rank;
  Lane lane;
  uint32_t op;
};

/// A schedule whose programs can be changed.
struct Schedule {
  const Shape& shape;
  std::vector<RankProgram> programs;

  Schedule(const Shape& shape, const Programs& all) : shape(shape) {
    for (const auto& program : all) programs.push_back(*program);
  }
  std::vector<Op>& lane(const Spot& spot) {
    return programs[spot.rank].lanes[static_cast<int>(spot.lane)].edit();
  }
  Op& at(const Spot& spot) { return lane(spot)[spot.op]; }

  /// Takes an operation out; the others keep their order.
  void drop(const Spot& spot) {
    lane(spot).erase(lane(spot).begin() + spot.op);
    if (spot.op < lane(spot).size() && at(spot).relaxed == Op::Relaxed::kInRun &&
        (spot.op == 0 || lane(spot)[spot.op - 1].relaxed == Op::Relaxed::kNo)) {
      at(spot).relaxed = Op::Relaxed::kFirstOfRun;
    }
    shift(spot, -1);
  }
  void duplicate(const Spot& spot) {
    const Op op = at(spot);
    lane(spot).insert(lane(spot).begin() + spot.op, op);
    lane(spot)[spot.op + 1].relaxed = Op::Relaxed::kNo;
    shift(spot, 1);
  }
  void shift(const Spot& spot, int by) {
    RankProgram& program = programs[spot.rank];
    for (OpList& ops : program.lanes) {
      for (Op& op : ops.edit()) {
        uint32_t& after = op.after[static_cast<int>(spot.lane)];
        if (after > spot.op) after += by;
      }
    }
    std::vector<Stream>& streams = program.streams.edit();
    for (auto stream = streams.begin(); stream != streams.end();) {
      if (stream->lane == spot.lane) {
        if (stream->first > spot.op) {
          stream->first += by;
        } else if (stream->first + stream->count > spot.op) {
          stream->count += by;
          if (stream->in_strands()) {
            const auto strands = divide_by_peer(*stream, program.lane(spot.lane));
            if (strands) {
              program.strands[stream->strands] = *strands;
            } else {
              stream->strands = Stream::kInOrder;
              if (stream->once) stream->count = 0;
            }
          }
        }
      }
      stream = stream->count == 0 ? streams.erase(stream) : stream + 1;
    }
  }

  Result<ScheduleReport> verified() const {
    Programs all;
    for (const RankProgram& program : programs) {
      all.push_back(std::make_shared<const RankProgram>(program));
    }
    return verify(shape, all);
  }
};

std::vector<Shape> awkward_shapes() {
  return {parse_layout("3,1,2").value(), parse_layout("3x2", Placement::kCyclic).value(),
          parse_layout("1,2,1,1").value()};
}

/// Calls `damage` for each operation of each algorithm; what it returns true for must be refused.
template <class Damage>
void expect_caught(const AlgorithmOptions& options, const Damage& damage) {
  size_t tried = 0;
  for (const Shape& shape : awkward_shapes()) {
    for (const Algorithm& algorithm : algorithms()) {
      if (options.ordered && !algorithm.keeps_order(shape)) continue;
      AlgorithmOptions how = options;
      if (has_graph(algorithm.collective)) how.graph = graphs_for(shape).back().graph;
      const Schedule whole(shape, build_all(algorithm, shape, how));
      ASSERT_TRUE(whole.verified()) << whole.verified().error().message;
      for (Rank rank = 0; rank < shape.ranks(); rank += 2) {
        for (const Lane lane : {Lane::kSend, Lane::kRecv, Lane::kLocal}) {
          for (uint32_t op = 0; op < whole.programs[rank].lane(lane).size(); ++op) {
            Schedule damaged = whole;
            if (!damage(damaged, Spot{rank, lane, op})) continue;
            ++tried;
            const auto result = damaged.verified();
            ASSERT_FALSE(result.has_value())
                << to_string(algorithm.collective) << " " << algorithm.name << " on "
                << shape.describe() << ": " << describe(whole.programs[rank], lane, op) << "\n"
                << list(whole.programs[rank]);
            EXPECT_EQ(result.error().code, ErrorCode::kInvalidProgram);
            EXPECT_THAT(result.error().message, HasSubstr("rank "));
          }
        }
      }
    }
  }
  EXPECT_GT(tried, 20u);
}

bool moves(const Op& op) {
  return op.kind == OpKind::kCopy || op.kind == OpKind::kPut || op.kind == OpKind::kExpect;
}

TEST(Verifier, CatchesDroppedOperations) {
  expect_caught({}, [](Schedule& schedule, const Spot& spot) {
    const OpKind kind = schedule.at(spot).kind;
    if (kind == OpKind::kWaitExposed || kind == OpKind::kGateWait) return false;  // below
    schedule.drop(spot);
    return true;
  });
}

TEST(Verifier, CatchesDuplicatedOperations) {
  expect_caught({}, [](Schedule& schedule, const Spot& spot) {
    const OpKind kind = schedule.at(spot).kind;
    if (!moves(schedule.at(spot)) && kind != OpKind::kExpose && kind != OpKind::kSignal) {
      return false;
    }
    schedule.duplicate(spot);
    return true;
  });
}

TEST(Verifier, CatchesChangedSlots) {
  expect_caught({}, [](Schedule& schedule, const Spot& spot) {
    ++schedule.at(spot).dst_first;
    return moves(schedule.at(spot));
  });
  expect_caught({}, [](Schedule& schedule, const Spot& spot) {
    Op& op = schedule.at(spot);
    op.src_first += op.src_first == 0 ? 1 : -1;
    return moves(op) && op.kind != OpKind::kExpect;
  });
  expect_caught({}, [](Schedule& schedule, const Spot& spot) {
    ++schedule.at(spot).count;
    return moves(schedule.at(spot));
  });
}

TEST(Verifier, CatchesChangedPeersAndExposures) {
  expect_caught({}, [](Schedule& schedule, const Spot& spot) {
    Op& op = schedule.at(spot);
    if (op.peer < 0 || op.kind == OpKind::kWaitExposed) return false;
    const int peers = op.to_server ? schedule.shape.servers() : schedule.shape.ranks();
    op.peer = (op.peer + 1) % peers;
    return true;
  });
  expect_caught({}, [](Schedule& schedule, const Spot& spot) {
    Op& op = schedule.at(spot);
    ++op.exposure;
    return op.kind == OpKind::kPut || op.kind == OpKind::kExpect;
  });
  expect_caught({}, [](Schedule& schedule, const Spot& spot) {
    ++schedule.at(spot).threshold;
    return schedule.at(spot).kind == OpKind::kForward ||
           schedule.at(spot).kind == OpKind::kWaitExposed;
  });
}

TEST(Verifier, CatchesPlacesSwappedBetweenOperations) {
  expect_caught({}, [](Schedule& schedule, const Spot& spot) {
    auto& lane = schedule.lane(spot);
    if (spot.op + 1 == lane.size()) return false;
    Op &a = lane[spot.op], &b = lane[spot.op + 1];
    if (a.kind == OpKind::kExpect && a.dst_first == b.dst_first) return false;
    if (!moves(a) || a.kind != b.kind || a.dst_buffer != b.dst_buffer) return false;
    if (a.kind == OpKind::kExpect) {
      std::swap(a.dst_first, b.dst_first);
    } else if (a.src_buffer == b.src_buffer && a.src_first != b.src_first) {
      std::swap(a.src_first, b.src_first);
    } else {
      return false;
    }
    return true;
  });
}

TEST(Verifier, CatchesReductionsInAnotherOrder) {
  AlgorithmOptions ordered;
  ordered.ordered = true;
  expect_caught(ordered, [](Schedule& schedule, const Spot& spot) {
    Op& op = schedule.at(spot);
    op.before = !op.before;
    return op.ordered;
  });
  expect_caught({}, [](Schedule& schedule, const Spot& spot) {
    Op& op = schedule.at(spot);
    op.combines = !op.combines;
    return op.kind == OpKind::kExpect;
  });
}

TEST(Verifier, CatchesRemovedOrderOfData) {
  // Without windows and gates all order is of data. An operation that is the first of its lane to
  // come after something needs that.
  expect_caught({Pacing::kFree, 0}, [](Schedule& schedule, const Spot& spot) {
    const RankProgram& program = schedule.programs[spot.rank];
    if (program.collective == Collective::kBarrier) return false;
    // Where algorithms let ranks send one after the other, that is order in time.
    if (program.algorithm == "one_at_a_time" ||
        look_up_algorithm(program.collective, program.algorithm)->spec->planned)
      return false;
    const auto before = schedule.at(spot).after;
    std::array<uint32_t, kLanes> known{};
    for (uint32_t op = 0; op < spot.op; ++op) {
      for (int lane = 0; lane < kLanes; ++lane) {
        known[lane] = std::max(known[lane], schedule.lane(spot)[op].after[lane]);
      }
    }
    schedule.at(spot).after = {};
    return before[0] > known[0] || before[1] > known[1] || before[2] > known[2];
  });
}

TEST(Verifier, PutsThatLostTheirTokensAreFreeRunning) {
  const Shape shape = parse_layout("4x2").value();
  const auto* algorithm = find_algorithm(Collective::kAlltoall, "two_level_ring").value();
  for (const Pacing pacing : {Pacing::kToken, Pacing::kGateToken}) {
    const Schedule whole(shape, build_all(*algorithm, shape, {pacing, 1}));
    EXPECT_TRUE(whole.verified()->paced);
    Schedule damaged = whole;
    std::vector<Op>& lane = damaged.programs[3].lanes[static_cast<int>(Lane::kSend)].edit();
    for (uint32_t op = 0; op < lane.size();) {
      if (lane[op].kind == OpKind::kWaitExposed) {
        damaged.drop({3, Lane::kSend, op});
      } else {
        ++op;
      }
    }
    const auto report = damaged.verified();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_FALSE(report->paced);
    EXPECT_THAT(report->witness, HasSubstr("rank 3, lane send, step"));
  }
}

TEST(Verifier, FreeRunningWalksAreNotPaced) {
  const Shape shape = parse_layout("4x2").value();
  for (const char* name : {"linear", "ring", "two_level_ring", "aggregate", "bruck"}) {
    const auto* algorithm = find_algorithm(Collective::kAlltoall, name).value();
    EXPECT_FALSE(verify(shape, build_all(*algorithm, shape, {Pacing::kFree, 1}))->paced) << name;
  }
}

TEST(Verifier, AggregateSendsOneMessageAServer) {
  for (const char* layout : {"2x1", "3x4", "8x2", "24x8"}) {
    const Shape shape = parse_layout(layout).value();
    const auto* algorithm = find_algorithm(Collective::kAlltoall, "aggregate").value();
    const auto report = verify(shape, build_all(*algorithm, shape));
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->net_messages, shape.servers() - 1u);
    EXPECT_EQ(report->all_net_messages,
              static_cast<uint64_t>(shape.ranks()) * (shape.servers() - 1));
  }
}

/// Programs of two ranks on two servers, or on one, for single faults.
Result<ScheduleReport> verify_pair(const Shape& shape, auto&& write) {
  Programs programs;
  for (const Rank me : {0, 1}) {
    ProgramBuilder program(Collective::kAlltoall, "test", shape, me, {});
    program.copy({Buffer::kRecv, static_cast<uint32_t>(me), 1},
                 {Buffer::kSend, static_cast<uint32_t>(me), 1});
    write(program, 1 - me, Slice{Buffer::kSend, static_cast<uint32_t>(1 - me), 1},
          Slice{Buffer::kRecv, static_cast<uint32_t>(me), 1},
          Slice{Buffer::kRecv, static_cast<uint32_t>(1 - me), 1});
    programs.push_back(program.finish());
  }
  return verify(shape, programs);
}

TEST(Verifier, RefusesDeadlock) {
  for (const char* layout : {"2", "1,1"}) {
    const Shape shape = parse_layout(layout).value();
    const auto result = verify_pair(
        shape, [](ProgramBuilder& program, Rank peer, Slice src, Slice there, Slice here) {
          program.expect(peer, here);
          program.hold(program.shape().servers() == 1 ? Lane::kLocal : Lane::kSend,
                       program.shape().servers() == 1 ? Lane::kLocal : Lane::kRecv);
          program.put(peer, src, there);
        });
    ASSERT_FALSE(result.has_value());
    EXPECT_THAT(result.error().message, HasSubstr("no progress"));
    EXPECT_THAT(result.error().message, HasSubstr("to send its data"));
  }
}

/// Inside a server a put waits until the peer has taken the one before.
TEST(Verifier, RefusesPutsInsideAServerThatWaitForEachOther) {
  const auto result =
      verify_pair(parse_layout("2").value(),
                  [](ProgramBuilder& program, Rank peer, Slice src, Slice there, Slice here) {
                    const Block block{peer, program.me()};
                    const Slice again = program.add_scratch({&block, 1});
                    program.put(peer, src, there);
                    program.put(peer, src, again);
                    program.expect(peer, here);
                    program.expect(peer, again);
                  });
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("to take the put before"));
}

TEST(Verifier, SaysInWhatPutAndExpectDiffer) {
  const auto message = [](auto&& write) {
    const auto result = verify_pair(parse_layout("1,1").value(), write);
    return result ? "" : result.error().message;
  };
  EXPECT_THAT(message([](ProgramBuilder& program, Rank peer, Slice src, Slice there, Slice here) {
                program.begin_step(program.me());
                program.put(peer, src, there);
                program.expect(peer, here);
              }),
              HasSubstr("they differ in the step"));
  EXPECT_THAT(message([](ProgramBuilder& program, Rank peer, Slice src, Slice there, Slice here) {
                program.put(peer, src, program.me() == 0 ? there : here);
                program.expect(peer, here);
              }),
              HasSubstr("they differ in the place"));
}

TEST(Verifier, TakesStrandsInAnyOrder) {
  const Shape shape = parse_layout("8x1").value();
  const auto* algorithm = find_algorithm(Collective::kBcast, "binomial").value();
  Schedule schedule(shape, build_all(*algorithm, shape));
  RankProgram& relay = schedule.programs[4];
  std::vector<Op>& puts = relay.lanes[static_cast<int>(Lane::kSend)].edit();
  ASSERT_EQ(puts.size(), 2u);
  puts[1].after = {};  // else it may overtake the first one, which waits for the block
  const auto result = schedule.verified();
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("rank 4, lane send"));
  for (Stream& stream : relay.streams.edit()) stream.strands = Stream::kInOrder;
  EXPECT_TRUE(schedule.verified().has_value());
}

TEST(Verifier, RefusesToComeAfterAPartOfWhatHasNoOrder) {
  const Shape shape = parse_layout("1,1,2").value();
  const auto* algorithm = find_algorithm(Collective::kBcast, "scatter_ring").value();
  Schedule schedule(shape, build_all(*algorithm, shape));
  auto& root = schedule.programs[0];
  ASSERT_GT(root.lane(Lane::kSend).size(), 2u);
  Op wait{.kind = OpKind::kWait, .lane = Lane::kLocal, .peer = 1};
  for (const uint32_t after : {1u, static_cast<uint32_t>(root.lane(Lane::kSend).size())}) {
    wait.after[static_cast<int>(Lane::kSend)] = after;
    RankProgram changed = root;
    changed.lanes[static_cast<int>(Lane::kLocal)].edit().push_back(wait);
    const Status checked = check_program(shape, changed);
    EXPECT_EQ(checked.has_value(), after > 1);
    if (checked) continue;
    EXPECT_THAT(checked.error().message, HasSubstr("comes after a part"));
  }
}

TEST(Verifier, RefusesTokensLeftOver) {
  const Shape shape = parse_layout("1,1").value();
  const auto result = verify_pair(
      shape, [](ProgramBuilder& program, Rank peer, Slice src, Slice there, Slice here) {
        program.put(peer, src, there);
        program.expect(peer, here);
        program.signal(peer);
      });
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("tokens"));
}

TEST(Verifier, RefusesScratchWrittenTwice) {
  const Shape shape = parse_layout("1,1").value();
  const auto result = verify_pair(
      shape, [](ProgramBuilder& program, Rank peer, Slice src, Slice there, Slice here) {
        const Block mine{program.me(), peer}, theirs{peer, program.me()};
        const Slice out = program.add_scratch({&mine, 1}), in = program.add_scratch({&theirs, 1});
        (void)there;
        program.copy(out, src);
        program.copy(out, src);
        program.put(peer, out, in);
        program.expect(peer, in);
        program.copy(here, in);
      });
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message,
              HasSubstr("block 0->1 is written to scratch[0], which holds"));
}

}  // namespace
}  // namespace ibcoll
