// Programs that cut each block into parts, which only files bring: in place and not, inside of
// servers and between them.

#include <gtest/gtest.h>

#include "engine/algorithms/imported.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"
#include "tests/exchange.h"

namespace ibcoll {
namespace {

using testing::job_of;
using testing::RankView;
using testing::run_job;

constexpr uint32_t kParts = 3;

/// Every rank sends every part of its block to every other by itself, the last part first.
Programs scattered_parts(Collective collective, const Shape& shape) {
  Programs programs;
  for (Rank me = 0; me < shape.ranks(); ++me) {
    ProgramBuilder program(collective, "scattered_parts", shape, me, {});
    program.cut_block(kParts);
    const bool exchanges = collective == Collective::kAlltoall;
    const auto part_slot = [](Rank block, uint32_t part) {
      return static_cast<Rank>(static_cast<uint32_t>(block) * kParts + part);
    };
    program.begin_relaxed();
    for (uint32_t part = kParts; part-- > 0;) {
      for (Rank i = 1; i < shape.ranks(); ++i) {
        const Rank to = (me + i) % shape.ranks();
        const Rank from = (me - i + shape.ranks()) % shape.ranks();
        program.put(to, send_slot(part_slot(exchanges ? to : 0, part)),
                    recv_slot(part_slot(me, part)));
        program.expect(from, recv_slot(part_slot(from, part)));
      }
      program.copy(recv_slot(part_slot(me, part)), send_slot(part_slot(exchanges ? me : 0, part)));
    }
    programs.push_back(program.finish());
  }
  return programs;
}

std::byte byte_of(Rank from, Rank to, size_t at) {
  return static_cast<std::byte>(31 * from + 7 * to + static_cast<int>(at));
}

/// Makes the call, in place or not, with blocks that parts do not divide.
void try_call(const RankView& rank, Collective collective, size_t bytes, bool in_place) {
  Group& world = rank.context.world();
  const auto ranks = static_cast<size_t>(world.size());
  const bool exchanges = collective == Collective::kAlltoall;
  std::vector<std::byte> send((exchanges ? ranks : 1) * bytes), recv(ranks * bytes);
  for (size_t i = 0; i < send.size(); ++i) {
    const Rank to = exchanges ? static_cast<Rank>(i / bytes) : 0;
    send[i] = byte_of(world.rank(), to, i % bytes);
  }
  if (in_place) {
    const size_t place = exchanges ? 0 : static_cast<size_t>(world.rank()) * bytes;
    std::copy(send.begin(), send.end(), recv.begin() + static_cast<ptrdiff_t>(place));
  }
  CallArguments arguments;
  arguments.collective = collective;
  arguments.send = in_place ? nullptr : send.data();
  arguments.recv = recv.data();
  arguments.block_bytes = bytes;
  arguments.in_place = in_place;
  arguments.options.algorithm = "scattered_parts";
  Call call(world);
  if (!rank.good(call.prepare(arguments), "prepare") || !rank.good(call.start(), "start") ||
      !rank.good(call.wait(), "wait"))
    return;
  for (size_t i = 0; i < recv.size(); ++i) {
    const Rank to = exchanges ? world.rank() : 0;
    if (recv[i] != byte_of(static_cast<Rank>(i / bytes), to, i % bytes)) {
      rank.complain("wrong data");
      return;
    }
  }
}

TEST(ImportedCalls, PartsArriveWhereTheirBlocksAre) {
  for (const std::vector<int>& layout : {std::vector{3}, std::vector{1, 1, 1}, std::vector{2, 1}}) {
    const Shape shape = Shape::from_layout(layout, Placement::kBlock).value();
    for (const Collective collective : {Collective::kAllgather, Collective::kAlltoall}) {
      const Programs programs = scattered_parts(collective, shape);
      const auto report = verify(shape, programs);
      ASSERT_TRUE(report) << report.error().message;
      const Status added = add_imported(shape, programs);
      ASSERT_TRUE(added) << added.error().message;
    }
    EXPECT_EQ(run_job(job_of(layout),
                      [](const RankView& rank) {
                        for (const size_t bytes : {size_t{1}, size_t{50}, size_t{100003}}) {
                          for (const bool in_place : {false, true}) {
                            try_call(rank, Collective::kAllgather, bytes, in_place);
                            try_call(rank, Collective::kAlltoall, bytes, in_place);
                          }
                        }
                      }),
              "");
  }
}

TEST(ImportedCalls, OtherProgramsOfTheSameNameAreRefused) {
  const Shape shape = Shape::single_server(5);
  Programs programs = scattered_parts(Collective::kAllgather, shape);
  ASSERT_TRUE(add_imported(shape, programs));
  EXPECT_TRUE(add_imported(shape, programs)) << "the same again";
  for (auto& program : programs) {
    RankProgram other = *program;
    other.hash ^= 1;
    program = std::make_shared<const RankProgram>(std::move(other));
  }
  EXPECT_FALSE(add_imported(shape, programs));
  for (auto& program : programs) {
    RankProgram own = *program;
    own.algorithm = "ring";
    program = std::make_shared<const RankProgram>(std::move(own));
  }
  EXPECT_FALSE(add_imported(shape, programs)) << "the engine has a ring of its own";
}

}  // namespace
}  // namespace ibcoll
