#include "tests/strided_sweep.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "tests/graphs.h"
#include "tests/strided_blocks.h"
#include "tests/sweep.h"

namespace ibcoll::testing {
namespace {

/// One side of a call: what is in its memory, and what the call is told.
struct StridedBuffers {
  std::vector<Block> blocks;
  std::vector<int64_t> lengths;
  bool strided;
  StridedSide side;
  std::vector<int64_t> counts, places;  ///< of one that is not strided

  static std::vector<int64_t> lengths_of(const std::vector<Block>& blocks, const Case& c) {
    std::vector<int64_t> lengths;
    for (const Block& block : blocks)
      lengths.push_back(static_cast<int64_t>(block_length(block, c)));
    return lengths;
  }
  StridedBuffers(std::vector<Block> given, const Case& c, bool is_strided, std::mt19937& random)
      : blocks(std::move(given)),
        lengths(lengths_of(blocks, c)),
        strided(is_strided),
        side(lengths, is_strided,
             is_strided || (is_unequal(c.algorithm->collective) && blocks.size() > 1), random) {
    for (const ibcoll_block& block : side.blocks) {
      counts.push_back(ibcoll_block_bytes(block));
      places.push_back(block.offset);
    }
  }
  const ibcoll_block* layouts() const { return strided ? side.blocks.data() : nullptr; }
  /// Calls use(place, i) for each byte of a slot.
  template <class Use>
  void for_each(size_t slot, Use&& use) const {
    const ibcoll_block& block = side.blocks[slot];
    const auto bytes = static_cast<size_t>(block.bytes);
    size_t i = 0;
    for_each_run(block, [&](int64_t run) {
      const auto begin = static_cast<size_t>(run + side.base);
      for (size_t byte = 0; byte < bytes; ++byte) use(begin + byte, i++);
    });
  }
};

void run_strided_case(const RankView& rank, Group& group, Case c, CaseMemory& memory) {
  const Collective collective = c.algorithm->collective;
  const Shape& shape = group.shape();
  const Rank me = group.rank(), root = c.root(shape.ranks());
  const bool keeps = traits(collective).in_place == InPlace::kSend;
  if (has_one_buffer(collective) || (has_root(collective) && me != root)) c.in_place = false;
  std::mt19937 random(c.number * 64 + static_cast<uint32_t>(me));
  std::vector<Block> out, in;
  std::shared_ptr<const Graph> owned;
  if (c.graph >= 0) owned = graphs_for(shape)[static_cast<size_t>(c.graph)].graph;
  const Graph* const graph = owned.get();
  for (uint32_t i = 0; i < send_slots(collective, shape, me, root, graph); ++i)
    out.push_back(send_block(collective, me, root, i, graph));
  for (uint32_t i = 0; i < recv_slots(collective, shape, me, root, graph); ++i)
    in.push_back(recv_block(collective, me, root, i, graph));
  const bool all = has_blocks(collective);
  const StridedBuffers sends(out, c, all || random() % 3 != 0, random);
  const StridedBuffers receives(in, c, all || random() % 3 != 0, random);
  std::byte* const send = memory.send.take(sends.side.bytes + 1, c.shared_memory);
  std::byte* const recv = memory.recv.take(receives.side.bytes + 1, c.shared_memory);
  const bool from_recv = c.in_place && !keeps;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t slot = !from_recv ? i : out.size() == 1 ? static_cast<size_t>(me) : i;
    (from_recv ? receives : sends).for_each(slot, [&](size_t place, size_t at) {
      (from_recv ? recv : send)[place] = pattern(out[i].origin, out[i].target, at, c.number);
    });
  }
  CallArguments a;
  a.collective = collective;
  a.root = root;
  a.in_place = c.in_place;
  a.send = from_recv ? nullptr : send + sends.side.base;
  a.recv = c.in_place && keeps ? nullptr : recv + receives.side.base;
  a.block_bytes = block_length({me, root}, c);
  a.send_counts = sends.counts.data();
  a.send_displacements = sends.places.data();
  a.recv_counts = receives.counts.data();
  a.recv_displacements = receives.places.data();
  if (sends.counts.size() == 1) a.own_count = sends.counts[0];
  if (keeps && receives.counts.size() == 1) a.own_count = receives.counts[0];
  a.send_blocks = sends.layouts();
  a.recv_blocks = receives.layouts();
  a.options = {c.algorithm->name, c.pacing, c.pieces, c.ordered, owned};
  std::vector<std::byte>& expected = memory.expected;
  expected.assign(recv, recv + receives.side.bytes);
  for (size_t i = 0; i < in.size() && !(c.in_place && keeps); ++i) {
    receives.for_each(i, [&](size_t place, size_t at) {
      expected[place] = pattern(in[i].origin, in[i].target, at, c.number);
    });
  }
  memory.sent.assign(send, send + sends.side.bytes);
  Call call(group);
  if (!rank.good(call.prepare(a), c.name())) return;
  // Twice: a call that is started again finds no traces of the first time.
  for (int round = 0; round < 2; ++round) {
    if (!rank.good(call.start(), c.name()) || !rank.good(call.wait(), c.name())) return;
    const auto differ =
        std::mismatch(expected.begin(), expected.end(), recv, recv + expected.size());
    if (differ.first != expected.end()) {
      return rank.complain(fmt::format("{}, round {}: byte {} of the receive memory is wrong",
                                       c.name(), round, differ.first - expected.begin()));
    }
    if (!std::equal(memory.sent.begin(), memory.sent.end(), send))
      return rank.complain(fmt::format("{}: wrote to what it sends", c.name()));
    if (from_recv && traits(collective).in_place == InPlace::kAside) break;  // what is sent is gone
    if (from_recv || keeps) continue;
    for (size_t i = 0; i < expected.size(); ++i) recv[i] = kPoison;
  }
}

}  // namespace

void strided_sweep(const JobOptions& job, const std::vector<size_t>& sizes, uint32_t first,
                   LongRuns long_runs) {
  std::vector<Case> all = cases(sizes, first);
  std::erase_if(all, [](const Case& c) {
    return reduces(c.algorithm->collective) || !moves_data(c.algorithm->collective);
  });
  // Where runs are to be put from where they lie, enough calls must stay in which all is strided.
  all = affordable(std::move(all), first, [&](const Case& c) {
    return long_runs != LongRuns::kSome || !has_blocks(c.algorithm->collective);
  });
  const std::string complaints = run_job(job, [&](const RankView& rank) {
    CaseMemory memory(rank.context);
    for (const Case& c : all) {
      run_strided_case(rank, rank.context.world(), c, memory);
      if (rank.context.executor().failed()) return;
    }
    if (long_runs == LongRuns::kSome && rank.context.rank() == 0 &&
        rank.context.job().network()->counters().gathers == 0)
      rank.complain("all of it was packed");
  });
  EXPECT_EQ(complaints, "") << job.shape.describe() << (job.threads ? ", threads" : ", processes")
                            << ", loopback seed " << job.context.loopback_seed;
}

}  // namespace ibcoll::testing
