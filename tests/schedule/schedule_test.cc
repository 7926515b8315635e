/// Shapes, the builder, files of schedules, and the tool that shows and draws them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "engine/algorithms/registry.h"
#include "engine/base/json.h"
#include "engine/schedule/builder.h"
#include "engine/schedule/describe.h"
#include "engine/schedule/json.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/op_kinds.h"
#include "tests/algorithm_lists.h"
#include "tests/files.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

const Algorithm& algorithm_of(Collective collective, const char* name) {
  return *find_algorithm(collective, name).value();
}

std::string text_of(const Shape& shape, const Programs& programs) {
  std::string text = schedule_header_to_json(shape, *programs.front()).dump() + "\n";
  for (const auto& program : programs) text += program_to_json(*program).dump() + "\n";
  return text;
}

TEST(Layout, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_layout("3,1,2")->describe(), "3,1,2");
  EXPECT_EQ(parse_layout("24x8")->ranks(), 192);
  EXPECT_EQ(parse_layout("2x4,1")->servers(), 3);
  EXPECT_EQ(parse_layout("3,1,2", Placement::kCyclic)->describe(), "3,1,2 cyclic");
  const Shape cyclic = parse_layout("3,1,2", Placement::kCyclic).value();
  EXPECT_THAT(std::vector<Rank>(cyclic.members(0).begin(), cyclic.members(0).end()),
              ::testing::ElementsAre(0, 3, 5));
  EXPECT_EQ(Shape::create({1, 0, 0, 1})->describe(), "2x2 arbitrary");
  EXPECT_EQ(shape_from_options("", 7, 3, Placement::kBlock)->describe(), "3,2,2");
  EXPECT_EQ(shape_from_options("", 4, {}, Placement::kBlock)->servers(), 1);
}

TEST(Layout, RefusesWithTheValueAndTheLimit) {
  for (const char* text : {"", "0", "3,,1", "3,-1", "x8", "24x", "2x3x4", "a", "2000000", "1e3"}) {
    EXPECT_FALSE(parse_layout(text)) << text;
  }
  const auto refusal = [](std::string_view layout, std::optional<int64_t> ranks,
                          std::optional<int64_t> servers) {
    const auto shape = shape_from_options(layout, ranks, servers, Placement::kBlock);
    return shape ? "accepted" : shape.error().message;
  };
  EXPECT_THAT(refusal("", 3, 5), HasSubstr("5 servers for 3 ranks"));
  EXPECT_THAT(refusal("2x2", 5, {}), HasSubstr("has 4 ranks, but 5"));
  EXPECT_THAT(refusal("2x2", {}, 3), HasSubstr("has 2 servers, but 3"));
  EXPECT_THAT(refusal("", {}, 3), HasSubstr("number of ranks"));
  EXPECT_THAT(refusal("", 0, {}), HasSubstr("0 ranks"));
  EXPECT_THAT(Shape::create({0, 2, 2}).error().message, HasSubstr("server 1 of 3 has no rank"));
}

TEST(Shape, HashTellsPlacementsApart) {
  EXPECT_EQ(parse_layout("3,1,2")->hash(), Shape::create({0, 0, 0, 1, 2, 2})->hash());
  EXPECT_NE(parse_layout("3,1,2")->hash(), parse_layout("3,1,2", Placement::kCyclic)->hash());
  EXPECT_NE(parse_layout("4")->hash(), parse_layout("5")->hash());
}

TEST(Shape, CopiesOutliveWhatTheyAreCopiesOf) {
  std::optional<Shape> first = parse_layout("3,1,2", Placement::kCyclic).value();
  const Shape copy = *first;
  first.reset();
  EXPECT_THAT(copy.members(2), ::testing::ElementsAre(2, 4));
  EXPECT_EQ(copy.describe(), "3,1,2 cyclic");
}

/// Against a search through all ranks.
void expect_found(const std::vector<int>& server_of) {
  const Shape shape = Shape::create(server_of).value();
  ASSERT_EQ(shape.ranks(), static_cast<int>(server_of.size()));
  std::vector<std::vector<Rank>> members(static_cast<size_t>(shape.servers()));
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    const int server = server_of[static_cast<size_t>(rank)];
    std::vector<Rank>& there = members[static_cast<size_t>(server)];
    ASSERT_EQ(shape.server_of(rank), server) << rank;
    ASSERT_EQ(shape.local_of(rank), static_cast<int>(there.size())) << rank;
    ASSERT_EQ(shape.rank_at(server, static_cast<int>(there.size())), rank);
    there.push_back(rank);
  }
  for (int server = 0; server < shape.servers(); ++server) {
    const std::vector<Rank>& there = members[static_cast<size_t>(server)];
    ASSERT_EQ(shape.server_size(server), static_cast<int>(there.size()));
    ASSERT_THAT(shape.members(server), ::testing::ElementsAreArray(there));
    ASSERT_EQ(shape.consecutive(server),
              there.back() - there.front() + 1 == static_cast<int>(there.size()));
  }
}

TEST(Shape, FindsTheServersOfAllRanks) {
  std::mt19937 random(1);
  for (const bool shuffled : {false, true}) {
    for (const int largest : {1, 2, 9, 300}) {
      for (int servers = 1; servers <= 40; servers += 3) {
        std::vector<int> server_of;
        for (int server = 0; server < servers; ++server) {
          const int ranks =
              1 + static_cast<int>(random() % static_cast<uint32_t>(server % 7 == 3 ? largest : 2));
          server_of.insert(server_of.end(), static_cast<size_t>(ranks), server);
        }
        if (shuffled) std::shuffle(server_of.begin(), server_of.end(), random);
        ASSERT_NO_FATAL_FAILURE(expect_found(server_of)) << servers << " servers";
      }
    }
  }
}

TEST(Shape, FindsTheServersOfAllRanksWhereTheyAreEqual) {
  std::mt19937 random(1);
  for (const int ranks : {1, 2, 3, 4, 7, 64, 129}) {
    std::vector<int> server_of;
    for (int server = 0; server < 33; ++server)
      server_of.insert(server_of.end(), static_cast<size_t>(ranks), server);
    ASSERT_NO_FATAL_FAILURE(expect_found(server_of)) << ranks << " ranks each";
    ASSERT_NO_FATAL_FAILURE(expect_found({server_of.rbegin(), server_of.rend()}));
    std::shuffle(server_of.begin(), server_of.end(), random);
    ASSERT_NO_FATAL_FAILURE(expect_found(server_of)) << ranks << " ranks each, shuffled";
  }
}

TEST(Shape, GrowsWithServersWhereRanksAreInBlocks) {
  EXPECT_LE(parse_layout("100x1000")->memory_bytes(), 500u);
  EXPECT_LE(parse_layout("99x1000,1")->memory_bytes(), 2000u);
  EXPECT_LE(parse_layout("100x1000", Placement::kCyclic)->memory_bytes(), 8 * 100'000u + 500);
}

TEST(Builder, DerivesTheOrderOfData) {
  const Shape shape = parse_layout("2,1").value();
  ProgramBuilder builder(Collective::kAlltoall, "test", shape, 0, {});
  const Block block{1, 2};
  const Slice scratch = builder.add_scratch({&block, 1});
  builder.expect(1, scratch);                      // local
  builder.put(2, scratch, {Buffer::kRecv, 1, 1});  // relays it
  builder.expect(2, {Buffer::kRecv, 2, 1});        // exposed by itself, first of all
  builder.copy({Buffer::kRecv, 0, 1}, {Buffer::kSend, 0, 1});
  const auto program = builder.finish();
  const Op& put = program->lane(Lane::kSend)[0];
  EXPECT_THAT(put.after, ::testing::ElementsAre(0, 0, 1));
  EXPECT_EQ(program->lane(Lane::kRecv)[0].kind, OpKind::kExpose);
  EXPECT_EQ(program->lane(Lane::kRecv)[0].peer, 2);
  EXPECT_EQ(program->lane(Lane::kLocal).size(), 2u);
}

TEST(Builder, WindowsHoldStepsBack) {
  const Shape shape = parse_layout("1,1,1,1").value();
  for (const uint32_t window : {1, 2}) {
    const auto program =
        algorithm_of(Collective::kAlltoall, "ring").build(shape, 0, {Pacing::kFree, window});
    for (const Op& put : program->lane(Lane::kSend)) {
      EXPECT_EQ(put.after[0], put.step > window ? put.step - window : 0) << window;
    }
  }
}

TEST(Builder, SecondPutToAPeerBeginsARun) {
  const Shape shape = Shape::single_server(2);
  ProgramBuilder builder(Collective::kAlltoall, "test", shape, 0, {});
  builder.begin_relaxed();
  for (int i = 0; i < 2; ++i) builder.put(1, {Buffer::kSend, 1, 1}, {Buffer::kRecv, 0, 1});
  builder.end_relaxed();
  const auto program = builder.finish();
  EXPECT_EQ(program->lane(Lane::kLocal)[1].relaxed, Op::Relaxed::kFirstOfRun);
}

TEST(Builder, DividesPutsByPeer) {
  const Shape shape = parse_layout("1,1,1").value();
  const auto program_of = [&](const std::vector<Rank>& peers) {
    ProgramBuilder builder(Collective::kBcast, "test", shape, 0, {});
    builder.begin_strands(true);
    for (const Rank peer : peers) builder.put(peer, {Buffer::kSend, 0, 1}, {Buffer::kRecv, 0, 1});
    builder.end_stream();
    return builder.finish();
  };
  const auto program = program_of({2, 1, 1, 2});
  ASSERT_EQ(program->streams.size(), 1u);
  EXPECT_TRUE(program->streams[0].once);
  const Strands& strands = program->strands.at(program->streams[0].strands);
  EXPECT_THAT(strands.of, ::testing::ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(strands.ends, ::testing::ElementsAre(3, 2));
  EXPECT_TRUE(program_of({1, 1})->streams.empty());  // nobody to overtake
}

TEST(Builder, ProgramsOfTenThousandRanksStaySmall) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr const char* kLayout = "160x8";  // they would take minutes to build
#else
  constexpr const char* kLayout = "1280x8";
#endif
  for (const Placement placement : {Placement::kBlock, Placement::kCyclic}) {
    const Shape shape = parse_layout(kLayout, placement).value();
    for (const Algorithm& algorithm : algorithms()) {
      // A plan names every transfer between servers, and one rank of a server carries them all out.
      if (algorithm.spec->planned) continue;
      const auto program = algorithm.build(shape, shape.ranks() / 2, {});
      EXPECT_LE(program->memory_bytes(), reduces(algorithm.collective) ? 3'000'000u : 2'000'000u)
          << algorithm.name;
    }
  }
}

TEST(Registry, UnknownAlgorithmsListTheKnown) {
  const auto known = testing::algorithms_of(Collective::kAllgather);
  ASSERT_GT(known.size(), 1u);
  const auto found = find_algorithm(Collective::kAllgather, "no_such");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("unknown allgather algorithm 'no_such': one of " +
                                               testing::names_of(known)));
}

TEST(ScheduleJson, ReadsBackWhatItWrote) {
  std::set<OpKind> seen;
  for (const char* layout : {"3,1,2", "2x2"}) {
    const Shape shape = parse_layout(layout, Placement::kCyclic).value();
    for (const Algorithm& algorithm : algorithms()) {
      const Programs programs = build_all(algorithm, shape);
      const std::string text = text_of(shape, programs);
      const auto loaded = parse_schedule(text);
      ASSERT_TRUE(loaded) << algorithm.name << ": " << loaded.error().message;
      EXPECT_EQ(loaded->shape.hash(), shape.hash());
      EXPECT_EQ(loaded->programs.front()->hash, programs.front()->hash);
      EXPECT_EQ(text_of(loaded->shape, loaded->programs), text);
      for (size_t rank = 0; rank < programs.size(); ++rank) {
        EXPECT_EQ(list(*loaded->programs[rank]), list(*programs[rank]));
        for (const auto& lane : programs[rank]->lanes) {
          for (const Op& op : lane) seen.insert(op.kind);
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), kOpKinds);
}

TEST(ScheduleJson, RefusesWithThePlace) {
  const Shape shape = parse_layout("2,1").value();
  const std::string text =
      text_of(shape, build_all(algorithm_of(Collective::kAlltoall, "ring"), shape));
  const auto damaged = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    const auto loaded = parse_schedule(changed);
    return loaded ? "accepted" : loaded.error().message;
  };
  EXPECT_THAT(damaged("{\"schedule\":1", "{\"schedule\":9"), HasSubstr("line 1: the version"));
  EXPECT_THAT(damaged("{\"schedule\":1", "{\"x\":1"), HasSubstr("'schedule' is missing"));
  EXPECT_THAT(damaged("\"server_of\":[0,", "\"server_of\":[7,"), HasSubstr("server_of"));
  EXPECT_THAT(damaged("{\"rank\":0", "{\"rank\":"), HasSubstr("line 2: is not JSON, at byte"));
  EXPECT_THAT(damaged("{\"rank\":0", "{\"rank\":-1"), HasSubstr("line 2: 'rank' must be"));
  EXPECT_THAT(damaged("\"op\":\"put\"", "\"op\":\"pot\""),
              HasSubstr("line 2, lane send, op 0: unknown operation 'pot'"));
  EXPECT_THAT(damaged("\"peer\":2", "\"pear\":2"), HasSubstr("unknown 'pear'"));
  EXPECT_THAT(damaged("[\"send\",2,1]", "[\"sand\",2,1]"), HasSubstr("unknown buffer \"sand\""));
  EXPECT_THAT(damaged("[\"send\",2,1]", "[\"send\",2,-1]"), HasSubstr("a number of slots"));
  EXPECT_THAT(damaged("[\"send\",2,1]", "[\"send\",1,1]"), HasSubstr("is for block 0->2"));
  EXPECT_THAT(damaged("[\"send\",2,1]", "[\"send\",4000000000,1]"), HasSubstr("out of bounds"));
  EXPECT_THAT(damaged("\"hash\":\"0x", "\"hash\":\"zz"), HasSubstr("'hash'"));
  EXPECT_THAT(damaged("{\"rank\":1", "{\"rank\":0"), HasSubstr("place 1 is rank 0's"));
  EXPECT_FALSE(parse_schedule(""));
  EXPECT_FALSE(parse_schedule("[]"));
  EXPECT_FALSE(parse_schedule("{\"schedule\":1}"));
}

/// Runs ib_sched and gives its exit code; `output` gets standard output and error.
int ib_sched(const std::string& arguments, std::string& output) {
  auto ran =
      testing_tools::run_command(testing_tools::bin_dir() + "/ib_sched " + arguments + " 2>&1");
  output = std::move(ran.out);
  return ran.status;
}

TEST(IbSched, ListsTheAlgorithmsOfAllCollectives) {
  std::string output;
  ASSERT_EQ(ib_sched("list", output), 0) << output;
  for (const Algorithm& algorithm : algorithms()) {
    EXPECT_THAT(output, HasSubstr(algorithm.name));
    EXPECT_THAT(output, HasSubstr(algorithm.spec->summary));
  }
  const auto listed = testing_tools::run_tool("ib_sched", "list --json -");
  ASSERT_EQ(listed.status, 0) << listed.err;
  EXPECT_EQ(testing_tools::json_lines(listed.out).size(), algorithms().size());
}

TEST(Tool, ShowsVerifiesAndDraws) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("ib_sched_test_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string file = folder / "ring.json", picture = folder / "ring.svg";
  std::string output;
  EXPECT_EQ(ib_sched("show --algorithm ring --layout 2,1 --rank 2", output), 0);
  EXPECT_THAT(output, HasSubstr("put send[1] to rank 1 at recv[2]"));
  EXPECT_EQ(ib_sched("show --algorithm ring --layout 2,1 --json " + file, output), 0);
  EXPECT_EQ(ib_sched("verify --program " + file, output), 0);
  EXPECT_THAT(output, HasSubstr("holds"));
  const auto verified =
      testing_tools::run_tool("ib_sched", "verify --algorithm all --layout 3,1,2 --json -");
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_EQ(std::ssize(testing_tools::json_lines(verified.out)),
            std::ranges::count(algorithms(), Collective::kAlltoall, &Algorithm::collective));
  EXPECT_EQ(ib_sched("verify --layout 3,1,2", output), 0);
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == Collective::kAlltoall) {
      EXPECT_THAT(output, HasSubstr(std::string(algorithm.name)));
    }
  }
  const auto of_each = testing_tools::run_tool(
      "ib_sched", "verify --algorithm ring,bruck --layout 3,1,2 2x2 --json -");
  EXPECT_EQ(of_each.status, 0) << of_each.err;
  std::vector<std::string> verified_each;
  for (const auto& line : testing_tools::json_lines(of_each.out))
    verified_each.push_back(line["algorithm"].get<std::string>() + " " +
                            line["layout"].get<std::string>());
  EXPECT_THAT(verified_each,
              ::testing::ElementsAre("ring 3,1,2", "bruck 3,1,2", "ring 2x2", "bruck 2x2"));
  EXPECT_EQ(ib_sched("draw --program " + file + " --output " + picture, output), 0);
  EXPECT_GT(std::filesystem::file_size(picture), 1000u);

  std::string text = testing_tools::content_of(file);
  text.replace(text.find("\"step\":1"), 8, "\"step\":0");
  std::ofstream(file) << text;
  EXPECT_EQ(ib_sched("verify --program " + file, output), 1);
  EXPECT_THAT(output, HasSubstr(file + ": rank "));
  std::filesystem::remove_all(folder);
}

TEST(Tool, RefusesBadUsageWithOneLine) {
  for (const char* arguments :
       {"", "verify", "verify --algorithm nosuch --ranks 4", "verify --algorithm ring",
        "verify --algorithm ring --ranks 3 --servers 5", "verify --algorithm ring --layout 3,0",
        "verify --algorithm ring --ranks -1",
        "verify --algorithm ring --ranks 99999999999999999999",
        "verify --algorithm ring --ranks 4 --pacing fast",
        "show --algorithm ring --ranks 4 --rank 4",
        "verify --collective gather --algorithm ring --ranks 4",
        "verify --algorithm ring --ranks 4 --pieces 0x"}) {
    std::string output;
    EXPECT_EQ(ib_sched(arguments, output), 2) << arguments;
    EXPECT_THAT(output, ::testing::StartsWith("ib_sched: ")) << arguments;
    EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
  }
}

}  // namespace
}  // namespace ibcoll
