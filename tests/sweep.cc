#include "tests/sweep.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/graphs.h"

namespace ibcoll::testing {
namespace {

/// One side's blocks: equal ones side by side, others in falling order with gaps between them,
/// since displacements may be anything.
struct Side {
  std::vector<Block> blocks;
  std::vector<int64_t> counts, places;
  std::vector<ibcoll_block> layouts;  ///< the same
  size_t bytes = 0;

  Side(uint32_t slots, const Case& c, const std::function<Block(uint32_t)>& block_of) {
    const bool unequal = !lies_side_by_side(c.algorithm->collective) && slots > 1;
    counts.resize(slots), places.resize(slots);
    for (uint32_t i = 0; i < slots; ++i) blocks.push_back(block_of(i));
    bytes = unequal ? 3 : 0;
    for (uint32_t n = 0; n < slots; ++n) {
      const uint32_t i = unequal ? slots - 1 - n : n;
      counts[i] = static_cast<int64_t>(block_length(blocks[i], c));
      places[i] = static_cast<int64_t>(bytes);
      bytes += static_cast<size_t>(counts[i]) + (unequal ? 5 : 0);
    }
    for (uint32_t i = 0; i < slots; ++i)
      layouts.push_back(ibcoll_block_contiguous(places[i], counts[i]));
  }
};

void run_case(const RankView& rank, Group& group, Case c, CaseMemory& memory) {
  const Collective collective = c.algorithm->collective;
  const Shape& shape = group.shape();
  const Rank me = group.rank(), root = c.root(shape.ranks());
  const bool combines = reduces(collective);
  if (!c.algorithm->keeps_order(shape)) c.ordered = false;
  const bool keeps = traits(collective).in_place == InPlace::kSend;
  // What in place means differs; only roots do it where there is one.
  if (has_one_buffer(collective) || (has_root(collective) && me != root)) c.in_place = false;
  std::shared_ptr<const Graph> owned;
  if (c.graph >= 0) owned = graphs_for(shape)[static_cast<size_t>(c.graph)].graph;
  const Graph* const graph = owned.get();
  const Side sends(send_slots(collective, shape, me, root, graph), c,
                   [&](uint32_t i) { return send_block(collective, me, root, i, graph); });
  const Side receives(recv_slots(collective, shape, me, root, graph), c,
                      [&](uint32_t i) { return recv_block(collective, me, root, i, graph); });
  std::byte* const send = memory.send.take(sends.bytes, c.shared_memory);
  // What is to be combined in place may be more than what is received.
  std::byte* const recv = memory.recv.take(
      combines ? std::max(sends.bytes, receives.bytes) : receives.bytes, c.shared_memory);
  const auto byte_of = [&](const Block& block, size_t at) {
    return pattern(block.origin, block.target, at, c.number);
  };
  for (size_t i = 0; i < sends.blocks.size(); ++i) {
    std::byte* place = send + sends.places[i];
    if (c.in_place && combines) {
      place = recv + sends.places[i];
    } else if (c.in_place && !keeps) {
      const size_t slot = sends.blocks.size() == 1 ? static_cast<size_t>(me) : i;
      place = recv + receives.places[slot];
    }
    const Block block = {combines ? me : sends.blocks[i].origin, sends.blocks[i].target};
    for (int64_t k = 0; k < sends.counts[i]; ++k) place[k] = byte_of(block, k);
  }
  CallArguments arguments;
  arguments.collective = collective;
  arguments.root = root;
  arguments.in_place = c.in_place;
  arguments.send = c.in_place && !keeps ? nullptr : send;
  arguments.recv = c.in_place && keeps ? nullptr : recv;
  arguments.block_bytes = block_length({me, root}, c);
  arguments.send_counts = sends.counts.data();
  arguments.send_displacements = sends.places.data();
  arguments.recv_counts = receives.counts.data();
  arguments.recv_displacements = receives.places.data();
  if (has_blocks(collective)) {
    arguments.send_blocks = sends.layouts.data();
    arguments.recv_blocks = receives.layouts.data();
  }
  if (sends.counts.size() == 1) arguments.own_count = sends.counts[0];
  if (keeps && receives.counts.size() == 1) arguments.own_count = receives.counts[0];
  std::vector<int64_t> elements;
  for (const int64_t bytes : sends.counts) elements.push_back(bytes / 4);
  if (traits(collective).recv.lengths == Lengths::kElements)
    arguments.recv_counts = elements.data();
  if (combines) arguments.reduction = find_reduction(ElementType::kUint32, Operator::kSum).value();
  arguments.options = {c.algorithm->name, c.pacing, c.pieces, c.ordered, owned};
  Call call(group);
  if (!rank.good(call.prepare(arguments), c.name()) || !rank.good(call.start(), c.name()) ||
      !rank.good(call.wait(), c.name())) {
    return;
  }
  std::vector<std::byte>& expected = memory.expected;
  expected.assign(receives.bytes, kPoison);
  for (size_t i = 0; i < receives.blocks.size(); ++i) {
    std::byte* place = expected.data() + receives.places[i];
    for (int64_t k = 0; k < receives.counts[i] && !combines; ++k) {
      place[k] = byte_of(receives.blocks[i], k);
    }
    for (int64_t k = 0; k < receives.counts[i] && combines; k += 4) {
      uint32_t sum = 0;
      for (Rank origin = 0; origin < contributors(collective, shape, me); ++origin) {
        std::array<std::byte, 4> bytes;
        for (int64_t j = 0; j < 4; ++j)
          bytes[j] = byte_of({origin, receives.blocks[i].target}, k + j);
        sum += std::bit_cast<uint32_t>(bytes);
      }
      std::memcpy(place + k, &sum, 4);
    }
  }
  const std::byte* got = recv;
  if (c.in_place && keeps) {  // the root's own block stays
    got = send + sends.places[me];
  }
  for (size_t i = 0; i < receives.bytes; ++i) {
    if (got[i] != expected[i]) {
      rank.complain(fmt::format("{}: byte {} of the receive buffer is wrong", c.name(), i));
      return;
    }
  }
}

}  // namespace

Rank Case::root(int ranks) const {
  return has_root(algorithm->collective) ? static_cast<Rank>(number) % ranks : 0;
}

std::string Case::name() const {
  return fmt::format("{} {} ({}), {} bytes, {}{} memory, {} pieces{}",
                     to_string(algorithm->collective), algorithm->name, to_string(pacing),
                     block_bytes, in_place ? "in place, " : "",
                     shared_memory ? "shared" : "private", pieces, ordered ? ", ordered" : "") +
         (graph < 0 ? "" : fmt::format(", graph {}", graph));
}

Memory::~Memory() {
  if (shared_ != nullptr) (void)context_.free(shared_);
  ASAN_UNPOISON_MEMORY_REGION(private_.data(), private_.size());
}

std::byte* Memory::take(size_t bytes, bool shared) {
  std::byte* data = nullptr;
  if (shared) {
    if (shared_bytes_ < bytes || shared_ == nullptr) {
      if (shared_ != nullptr) (void)context_.free(std::exchange(shared_, nullptr));
      shared_ = static_cast<std::byte*>(context_.allocate(bytes).value());
      shared_bytes_ = bytes;
    }
    data = shared_;
  } else {
    ASAN_UNPOISON_MEMORY_REGION(private_.data(), private_.size());
    if (private_.size() <= bytes) private_.resize(bytes + 1);
    data = private_.data();
    ASAN_POISON_MEMORY_REGION(data + bytes, private_.size() - bytes);
  }
  std::fill_n(data, bytes, kPoison);
  return data;
}

size_t block_length(const Block& block, const Case& c) {
  // Of a reduction, whole elements.
  const size_t grain = reduces(c.algorithm->collective) ? 4 : 1;
  if (!is_unequal(c.algorithm->collective)) return c.block_bytes / grain * grain;
  Rank a = block.origin, b = block.target;
  // In place sends to a rank what it receives from it, so the lengths must be symmetric.
  if (c.in_place && is_alltoall(c.algorithm->collective) && a > b) std::swap(a, b);
  const uint32_t x =
      static_cast<uint32_t>(a * 31 + b * 17 + static_cast<int>(c.number)) * 2654435761u;
  return (x >> 28) < 5 ? 0 : c.block_bytes * (1 + (x >> 27) % 3) / 2 / grain * grain;
}

std::vector<Case> cases(const std::vector<size_t>& sizes, uint32_t number) {
  std::vector<Case> all;
  for (const Algorithm& algorithm : algorithms()) {
    const bool barrier = algorithm.collective == Collective::kBarrier;
    for (const Pacing pacing : {Pacing::kGateToken, Pacing::kFree, Pacing::kGate, Pacing::kToken}) {
      if (pacing != Pacing::kGateToken && !algorithm.paced) continue;
      for (const size_t bytes : barrier ? std::vector<size_t>{0} : sizes) {
        ++number;
        if (has_graph(algorithm.collective)) {
          for (int graph = 0; graph < static_cast<int>(kGraphs); ++graph) {
            all.push_back({&algorithm, pacing, bytes, false, (number + graph) % 2 == 0,
                           1 + number % 4, number, false, graph});
          }
          continue;
        }
        all.push_back({&algorithm, pacing, bytes, !barrier && number % 3 == 0, number % 2 == 0,
                       1 + number % 4, number, false});
        if (algorithm.spec->keeps_order == nullptr) continue;
        all.push_back(all.back());
        all.back().ordered = true;
      }
    }
  }
  return all;
}

std::vector<Case> affordable(std::vector<Case> all, uint32_t first,
                             const std::function<bool(const Case&)>& may_go) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // What cases do goes by their numbers modulo 2, 3 and 4.
  constexpr uint32_t kStep = 7;
  uint32_t number = first;
  std::erase_if(all, [&](const Case& c) { return may_go(c) && number++ % kStep != 0; });
#else
  (void)first, (void)may_go;
#endif
  return all;
}

std::function<void(const RankView&)> all_cases(const std::vector<size_t>& sizes, uint32_t first) {
  constexpr size_t kLong = size_t{128} << 10;
  const auto is_long = [](const Case& c) { return c.block_bytes >= kLong; };
  return [all = affordable(cases(sizes, first), first, is_long)](const RankView& rank) {
    CaseMemory memory(rank.context);
    for (const Case& c : all) {
      run_case(rank, rank.context.world(), c, memory);
      if (rank.context.executor().failed()) return;
    }
  };
}

void sweep(const JobOptions& job, const std::vector<size_t>& sizes, uint32_t first) {
  const std::string complaints = run_job(job, all_cases(sizes, first));
  EXPECT_EQ(complaints, "") << job.shape.describe() << (job.threads ? ", threads" : ", processes")
                            << ", loopback seed " << job.context.loopback_seed;
}

Shape shape_of(std::vector<int> ranks_of_server, Placement placement) {
  return Shape::from_layout(ranks_of_server, placement).value();
}

std::vector<Shape> shapes(int ranks) {
  std::vector<Shape> result{Shape::single_server(ranks)};
  if (ranks == 1) return result;
  result.push_back(shape_of(std::vector<int>(ranks, 1)));
  std::vector<std::vector<int>> layouts;
  if (ranks % 2 == 0) layouts.push_back(std::vector<int>(2, ranks / 2));
  if (ranks > 2) {
    std::vector<int> unequal;
    for (int left = ranks, next = (ranks + 1) / 2; left > 0; next = std::max(1, next * 2 / 3)) {
      unequal.push_back(std::min(next, left));
      left -= unequal.back();
    }
    layouts.push_back(unequal);
  }
  for (const auto& layout : layouts) {
    result.push_back(shape_of(layout));
    result.push_back(shape_of(layout, Placement::kCyclic));
    std::vector<int> server_of;
    for (size_t s = 0; s < layout.size(); ++s)
      server_of.insert(server_of.end(), layout[s], static_cast<int>(s));
    std::reverse(server_of.begin(), server_of.end());
    std::rotate(server_of.begin(), server_of.begin() + server_of.size() / 3, server_of.end());
    result.push_back(Shape::create(server_of).value());
  }
  return result;
}

}  // namespace ibcoll::testing
