// Programs from files: what cuts each block into parts, which only they do, moves its bytes right,
// and what a file may call an algorithm.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/algorithms/imported.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"
#include "engine/schedule/json.h"
#include "tests/any_call.h"

namespace ibcoll {
namespace {

using testing::Item;
using testing::job_of;
using testing::Posted;
using testing::RankView;
using testing::run_job;

constexpr uint32_t kParts = 3;
constexpr Collective kInParts[] = {
    Collective::kAllgather,
    Collective::kAlltoall,
    Collective::kAllreduce,
    Collective::kGather,
    Collective::kScatter,
    Collective::kReduce,
    Collective::kReduceScatterBlock,
};

/// The program of a rank that sends every part of its blocks to whom it is for by itself, the last
/// part first, and combines parts in scratch.
class ScatteredParts {
 public:
  ScatteredParts(Collective collective, const Shape& shape, Rank me, Rank root)
      : collective_(collective),
        shape_(shape),
        me_(me),
        root_(root),
        program_(collective, "scattered_parts", shape, me, options(root)) {}

  ProgramPtr write() {
    program_.cut_block(kParts);
    const Rank ranks = shape_.ranks();
    if (reduces(collective_) && sends(0, me_)) add_scratch();
    program_.begin_relaxed();
    for (uint32_t part = kParts; part-- > 0;) {
      if (sends(me_, me_))
        program_.copy(recv_slot(to_slot(me_, part)), send_slot(from_slot(me_, part)));
      for (Rank i = 1; i < ranks; ++i) {
        const Rank to = (me_ + i) % ranks, from = (me_ - i + ranks) % ranks;
        if (sends(me_, to)) program_.put(to, send_slot(from_slot(to, part)), place(me_, to, part));
        if (sends(from, me_)) program_.expect(from, place(from, me_, part));
      }
    }
    program_.end_relaxed();
    for (uint32_t part = 0; part < kParts && !scratch_.empty(); ++part) {
      for (Rank from = 0; from < ranks; ++from) {
        if (from != me_)
          program_.reduce(recv_slot(to_slot(from, part)), place(from, me_, part), {});
      }
    }
    return program_.finish();
  }

 private:
  static AlgorithmOptions options(Rank root) {
    AlgorithmOptions options;
    options.root = root;
    return options;
  }
  bool sends(Rank from, Rank to) const {
    const CollectiveTraits& row = traits(collective_);
    return holds(row.send, from, root_) && holds(row.recv, to, root_);
  }
  static Rank slot(Rank block, uint32_t part) {
    return static_cast<Rank>(static_cast<uint32_t>(block) * kParts + part);
  }
  Rank from_slot(Rank to, uint32_t part) const {
    return slot(traits(collective_).send.slots == Slots::kEachRank ? to : 0, part);
  }
  Rank to_slot(Rank from, uint32_t part) const {
    return slot(traits(collective_).recv.slots == Slots::kEachRank ? from : 0, part);
  }
  void add_scratch() {
    const bool mine = traits(collective_).send.slots == Slots::kEachRank;
    for (Rank from = 1; from < shape_.ranks(); ++from) {
      for (uint32_t part = 0; part < kParts; ++part)
        scratch_.push_back({Block::kCombined, Block::kFirstPart - slot(mine ? me_ : 0, part)});
    }
    program_.add_scratch(scratch_);
  }
  /// Where a part of a rank's lands at whom it is for: what is combined beside those of others.
  Slice place(Rank from, Rank receiver, uint32_t part) const {
    const Rank before = (from - receiver - 1 + shape_.ranks()) % shape_.ranks();
    if (reduces(collective_))
      return {Buffer::kScratch, static_cast<uint32_t>(slot(before, part)), 1};
    return recv_slot(to_slot(from, part));
  }

  Collective collective_;
  Shape shape_;
  Rank me_, root_;
  ProgramBuilder program_;
  std::vector<Block> scratch_;
};

Programs scattered_parts(Collective collective, const Shape& shape, Rank root) {
  Programs programs;
  for (Rank me = 0; me < shape.ranks(); ++me)
    programs.push_back(ScatteredParts(collective, shape, me, root).write());
  return programs;
}

/// One of the calls, started twice.
void call_twice(const RankView& rank, const Item& item) {
  Posted call(rank.context.world(), item);
  if (!rank.good(call.prepare(), call.describe())) return;
  for (uint32_t times = 0; times < 2; ++times) {
    call.fill(item.number + 2 * times);
    if (!rank.good(call.call().start(), call.describe())) return;
    if (!rank.good(call.call().wait(), call.describe())) return;
    if (!call.right()) return rank.complain("wrong data in " + call.describe());
  }
}

/// A scatter whose root keeps its block where it is.
void scatter_in_place(const RankView& rank, Rank root, size_t bytes) {
  Group& world = rank.context.world();
  const Rank me = world.rank();
  const auto byte = [&](Rank to, size_t i) { return testing::pattern(root, to, i, 1); };
  std::vector<std::byte> all;
  for (Rank to = 0; to < world.size(); ++to) {
    for (size_t i = 0; i < bytes; ++i) all.push_back(byte(to, i));
  }
  const std::vector<std::byte> before = all;
  std::vector<std::byte> mine(bytes);
  CallArguments arguments;
  arguments.collective = Collective::kScatter;
  arguments.root = root;
  arguments.in_place = me == root;
  arguments.send = me == root ? all.data() : nullptr;
  arguments.recv = me == root ? nullptr : mine.data();
  arguments.block_bytes = bytes;
  arguments.options.algorithm = "scattered_parts";
  Call call(world);
  if (!rank.good(call.prepare(arguments), "prepare") || !rank.good(call.start(), "start") ||
      !rank.good(call.wait(), "wait"))
    return;
  if (all != before) rank.complain("the root's buffer has changed");
  for (size_t i = 0; i < bytes && me != root; ++i) {
    if (mine[i] != byte(me, i)) return rank.complain("wrong data");
  }
}

class PartsOfBlocks : public ::testing::TestWithParam<CheckMode> {};

// With sizes that parts do not divide, some smaller than the number of parts.
TEST_P(PartsOfBlocks, ArriveWhereTheirBlocksAre) {
  for (const std::vector<int>& layout : {std::vector{3}, std::vector{1, 1, 1}, std::vector{2, 1}}) {
    testing::JobOptions job = job_of(layout);
    job.context.check = GetParam();
    const Rank root = job.shape.ranks() - 1;
    for (const Collective collective : kInParts) {
      const Programs programs =
          scattered_parts(collective, job.shape, has_root(collective) ? root : 0);
      const auto report = verify(job.shape, programs);
      ASSERT_TRUE(report) << report.error().message;
      const Status added = add_imported(job.shape, programs);
      ASSERT_TRUE(added) << added.error().message;
    }
    EXPECT_EQ(
        run_job(
            job,
            [&](const RankView& rank) {
              uint32_t number = 0;
              for (const Collective collective : kInParts) {
                for (const size_t bytes : {size_t{8}, size_t{56}, size_t{50}, size_t{100'000}}) {
                  for (const bool in_place : {false, true}) {
                    if (in_place && collective == Collective::kScatter) continue;
                    Item item{.collective = collective, .root = root, .bytes = bytes};
                    item.number = number++;
                    item.in_place =
                        in_place && (!has_root(collective) || rank.context.rank() == root);
                    item.algorithm = "scattered_parts";
                    call_twice(rank, item);
                  }
                }
              }
              scatter_in_place(rank, root, 50);
              scatter_in_place(rank, root, 1);
            }),
        "")
        << job.shape.describe();
  }
}
std::string mode_name(const ::testing::TestParamInfo<CheckMode>& info) {
  return info.param == CheckMode::kOff ? "Unchecked" : "Checked";
}
INSTANTIATE_TEST_SUITE_P(Checks, PartsOfBlocks,
                         ::testing::Values(CheckMode::kOff, CheckMode::kData), mode_name);

/// The same programs, each changed by `change`.
Programs changed(const Programs& programs, const std::function<void(RankProgram&)>& change) {
  Programs result;
  for (const auto& program : programs) {
    RankProgram copy = *program;
    change(copy);
    result.push_back(std::make_shared<const RankProgram>(std::move(copy)));
  }
  return result;
}

TEST(ImportedPrograms, HaveOneMeaningByName) {
  const Shape shape = Shape::single_server(5);
  const Programs programs = scattered_parts(Collective::kAllgather, shape, 0);
  ASSERT_TRUE(add_imported(shape, programs));
  EXPECT_TRUE(add_imported(shape, programs)) << "the same again";
  EXPECT_FALSE(add_imported(shape, changed(programs, [](RankProgram& p) { p.hash ^= 1; })));
  const auto reorder = [](RankProgram& program) {
    std::vector<Op>& ops = program.lanes[static_cast<int>(Lane::kLocal)].edit();
    std::swap(ops[0], ops[1]);
  };
  EXPECT_FALSE(add_imported(shape, changed(programs, reorder))) << "the file's hash says the same";
  EXPECT_FALSE(add_imported(shape, changed(programs, [](RankProgram& p) { p.algorithm = "ring"; })))
      << "the engine has a ring of its own";
}

/// A directory of schedules, as IBCOLL_PROGRAMS names it, gone at the end.
class ProgramDirectory {
 public:
  ProgramDirectory()
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("ibcoll_programs_{}", getpid())) {
    std::filesystem::create_directory(path_);
  }
  ProgramDirectory(const ProgramDirectory&) = delete;
  ProgramDirectory& operator=(const ProgramDirectory&) = delete;
  ~ProgramDirectory() { std::filesystem::remove_all(path_); }
  void write(const std::string& name, const Shape& shape, const Programs& programs) const {
    std::ofstream file(path_ / name);
    file << schedule_header_to_json(shape, *programs.front()) << '\n';
    for (const auto& program : programs) file << program_to_json(*program) << '\n';
  }
  std::string path(const std::string& name = {}) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// What ranks have to say of a job whose calls are by that name.
std::string try_directory(const ProgramDirectory& directory, const Shape& shape,
                          const std::string& algorithm) {
  testing::JobOptions job;
  job.shape = shape;
  job.context.programs = directory.path();
  return run_job(job, [&](const RankView& rank) {
    call_twice(rank, {.collective = Collective::kAllgather, .bytes = 100, .algorithm = algorithm});
  });
}

TEST(ImportedPrograms, OfADirectoryAreOfEveryRank) {
  const ProgramDirectory directory;
  const Shape shape = Shape::single_server(3);
  const Programs good = changed(scattered_parts(Collective::kAllgather, shape, 0),
                                [](RankProgram& program) { program.algorithm = "of_directory"; });
  directory.write("a.jsonl", shape, good);
  const Shape larger = Shape::single_server(4);  // left out, proved or not
  directory.write("b.jsonl", larger,
                  changed(scattered_parts(Collective::kAllgather, larger, 0), [](RankProgram& p) {
                    p.algorithm = "of_directory";
                    p.lanes[static_cast<int>(Lane::kLocal)].edit().clear();
                  }));
  EXPECT_EQ(try_directory(directory, shape, "of_directory"), "");

  const Programs lame = changed(good, [](RankProgram& program) {
    program.algorithm = "lame";
    program.lanes[static_cast<int>(Lane::kLocal)].edit().clear();
  });
  directory.write("c.jsonl", shape, lame);
  const std::string error = try_directory(directory, shape, "lame");
  EXPECT_NE(error.find("IBCOLL_PROGRAMS: " + directory.path("c.jsonl")), std::string::npos)
      << error;
}

}  // namespace
}  // namespace ibcoll
