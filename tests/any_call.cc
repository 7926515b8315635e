#include "tests/any_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/graphs.h"

namespace ibcoll::testing {
namespace {

constexpr Rank kCombined = -4;  ///< target of what is reduced, less its slot, for the pattern

void write(std::byte* to, size_t bytes, Rank origin, Rank target, uint32_t number) {
  for (size_t i = 0; i < bytes; ++i) to[i] = pattern(origin, target, i, number);
}

}  // namespace

void Blocks::add(size_t count, bool gap) {
  counts.push_back(static_cast<int64_t>(count));
  places.push_back(static_cast<int64_t>(bytes));
  layouts.push_back(ibcoll_block_contiguous(places.back(), counts.back()));
  bytes += count + (gap ? 5 : 0);
}

Posted::Posted(Group& group, const Item& item)
    : item_(item), me_(group.rank()), ranks_(group.size()), call_(group) {
  if (has_graph(item.collective)) graph_ = graphs_for(group.shape())[item.number % kGraphs].graph;
  lay_out();
  fill(item.number);
}

Status Posted::prepare() {
  CallArguments a;
  a.collective = item_.collective;
  a.root = has_root(item_.collective) ? item_.root : 0;
  a.in_place = item_.in_place;
  a.block_bytes = block_bytes();
  a.options.algorithm = item_.algorithm;
  a.time_limit_ns = item_.time_limit_ns;
  a.send = item_.in_place ? nullptr : send_.data();
  a.recv = recv_.data();
  if (has_one_buffer(item_.collective)) a.send = recv_.data();
  a.send_counts = out_.counts.data();
  a.send_displacements = out_.places.data();
  a.recv_counts = in_.counts.data();
  a.recv_displacements = in_.places.data();
  if (has_blocks(item_.collective)) {
    a.send_blocks = out_.layouts.data();
    a.recv_blocks = in_.layouts.data();
  }
  a.options.graph = graph_;
  const CollectiveTraits& row = traits(item_.collective);
  if (row.recv.lengths == Lengths::kElements) {
    elements_.clear();
    for (const int64_t bytes : out_.counts) elements_.push_back(bytes / (xors() ? 8 : 1));
    a.recv_counts = elements_.data();
  } else if (row.send.lengths == Lengths::kOwn) {
    a.own_count = out_.counts[0];
  } else if (row.recv.lengths == Lengths::kOwn) {
    a.own_count = in_.counts[0];
  }
  if (reduces(item_.collective)) {
    IBCOLL_ASSIGN(a.reduction, xors() ? find_reduction(ElementType::kUint64, Operator::kBitXor)
                                      : find_reduction(ElementType::kUint8, Operator::kSum));
  }
  return call_.prepare(a);
}

void Posted::fill(uint32_t number) {
  std::fill(send_.begin(), send_.end(), kPoison);
  std::fill(recv_.begin(), recv_.end(), kPoison);
  expected_ = recv_;
  const Collective c = item_.collective;
  for (size_t i = 0; i < out_.counts.size(); ++i) {
    const Rank target =
        reduces(c) ? kCombined - static_cast<Rank>(i)
                   : send_block(c, me_, item_.root, static_cast<uint32_t>(i), graph_.get()).target;
    // What is sent in place lies where it would be received.
    const bool own = item_.in_place && traits(c).send.slots == Slots::kOne;
    const size_t place = own ? static_cast<size_t>(me_) : i;
    std::byte* to = item_.in_place && reduces(c) ? recv_.data() + out_.places[i]
                    : item_.in_place             ? recv_.data() + in_.places[place]
                    : has_one_buffer(c)          ? recv_.data()
                                                 : send_.data() + out_.places[i];
    write(to, static_cast<size_t>(out_.counts[i]), me_, target, number);
  }
  // What was to be combined in place may reach beyond what is received, or be all there is.
  if (has_one_buffer(c) || (reduces(c) && item_.in_place)) expected_ = recv_;
  for (size_t i = 0; i < in_.counts.size(); ++i) {
    std::byte* to = expected_.data() + in_.places[i];
    const auto bytes = static_cast<size_t>(in_.counts[i]);
    if (reduces(c)) {
      combine(to, bytes, number);
    } else {
      const Block block = recv_block(c, me_, item_.root, static_cast<uint32_t>(i), graph_.get());
      write(to, bytes, block.origin, block.target, number);
    }
  }
}

std::string Posted::describe() const {
  return fmt::format("call {} ({} of {} bytes, root {}, group {} of {} ranks{})", item_.number,
                     to_string(item_.collective), item_.bytes, item_.root, item_.group, ranks_,
                     item_.persistent ? ", persistent" : "");
}

size_t Posted::block_bytes() const {
  return reduces(item_.collective) ? item_.bytes / 8 * 8 : item_.bytes;
}

size_t Posted::length(Rank origin, Rank target) const {
  if (!is_unequal(item_.collective)) return block_bytes();
  if (reduces(item_.collective)) origin = 0;  // all send as much to one
  const auto mixed = static_cast<uint32_t>(origin * 5 + target * 3) + item_.number;
  const size_t bytes = item_.bytes * (mixed % 4) / 2;
  return reduces(item_.collective) ? bytes / 8 * 8 : bytes;
}

void Posted::lay_out() {
  const Collective c = item_.collective;
  const bool unequal = !lies_side_by_side(c);
  const Shape shape = Shape::single_server(ranks_);  // of the slots, which know no servers
  const Rank root = has_root(c) ? item_.root : 0;
  const Graph* const graph = graph_.get();
  for (uint32_t i = 0; i < send_slots(c, shape, me_, root, graph); ++i) {
    const Block block = send_block(c, me_, root, i, graph);
    out_.add(length(block.origin, std::max(block.target, 0)), unequal);
  }
  for (uint32_t i = 0; i < recv_slots(c, shape, me_, root, graph); ++i) {
    const Block block = recv_block(c, me_, root, i, graph);
    const bool known = block.target >= 0 && (block.origin >= 0 || reduces(c));
    in_.add(length(std::max(block.origin, 0), known ? block.target : 0), unequal);
  }
  // Past the end nothing may be written either.
  send_.resize(out_.bytes + 8);
  const bool holds_sent = has_one_buffer(c) || (reduces(c) && item_.in_place);
  recv_.resize(std::max(in_.bytes, holds_sent ? out_.bytes : 0) + 8);
}

void Posted::combine(std::byte* to, size_t bytes, uint32_t number) const {
  const Collective c = item_.collective;
  const Rank target = kCombined - (traits(c).recv.target == End::kMe ? me_ : 0);
  const Rank end = contributors(c, Shape::single_server(ranks_), me_);
  for (size_t i = 0; i < bytes; ++i) {
    std::byte sum{};
    for (Rank rank = 0; rank < end; ++rank) {
      const std::byte term = pattern(rank, target, i, number);
      sum = xors() ? sum ^ term
                   : static_cast<std::byte>(static_cast<uint8_t>(sum) + static_cast<uint8_t>(term));
    }
    to[i] = sum;
  }
}

}  // namespace ibcoll::testing
