#include "studies/measure/traffic.h"

#include <algorithm>
#include <set>

namespace ibcoll::measure {

int64_t element_bytes(Collective collective) {
  return reduces(collective) ? static_cast<int64_t>(sizeof(double)) : 1;
}

namespace {

/// Each rank has one block, and receives one: for everyone, of several ranks combined.
bool is_one_to_one(Collective collective) {
  return reduces(collective) && traits(collective).send.target == End::kEveryone;
}
/// The root alone sends, or receives.
bool root_sends(Collective collective) { return traits(collective).send.holders == Holders::kRoot; }
bool root_receives(Collective collective) {
  return traits(collective).recv.holders == Holders::kRoot;
}

int64_t end_of(const std::vector<Traffic::Slot>& slots) {
  return slots.empty() ? 0 : slots.back().offset + slots.back().bytes;
}

}  // namespace

int64_t Traffic::of_class(int which) const {
  const int64_t element = element_bytes(collective_);
  const int64_t half = bytes_ / 2 / element * element;
  return which % 3 == 0 ? half : which % 3 == 1 ? bytes_ : 2 * bytes_ - half;
}

int64_t Traffic::bytes(Rank origin, Rank target) const {
  const CollectiveTraits& row = traits(collective_);
  if (!row.moves_data) return 0;
  if (root_sends(collective_) && origin != root_) return 0;
  // The first rank of an exscan gets nothing, but all send as if it did.
  if (row.has_root && !holds(row.recv, target, root_)) return 0;
  if (!row.unequal) return bytes_;
  // Of the ends that tell blocks apart.
  return of_class((row.reduces ? 0 : origin) + (same_for_all() ? 0 : target));
}

int64_t Traffic::mean_bytes() const {
  if (!is_unequal(collective_) || !knows_all_lengths(collective_)) return bytes_;
  int64_t sum = 0;
  for (Rank rank = 0; rank < ranks_; ++rank) sum += of_class(rank);
  return sum / ranks_;
}

int64_t Traffic::send_offset(Rank origin, Rank target) const {
  if (same_for_all() || is_one_to_one(collective_)) return 0;
  if (root_receives(collective_)) return target > root_ ? bytes(origin, root_) : 0;
  // Every three neighbours make the same sum.
  const Rank whole = target / 3 * 3;
  int64_t sum =
      whole > 0 ? whole / 3 * (bytes(origin, 0) + bytes(origin, 1) + bytes(origin, 2)) : 0;
  for (Rank peer = whole; peer < target; ++peer) sum += bytes(origin, peer);
  return sum;
}

int64_t Traffic::receive_offset(Rank target, Rank origin) const {
  if (reduces(collective_)) return 0;
  if (root_sends(collective_)) return origin > root_ ? bytes(root_, target) : 0;
  const Rank whole = origin / 3 * 3;
  int64_t sum =
      whole > 0 ? whole / 3 * (bytes(0, target) + bytes(1, target) + bytes(2, target)) : 0;
  for (Rank peer = whole; peer < origin; ++peer) sum += bytes(peer, target);
  return sum;
}

std::vector<Traffic::Slot> Traffic::slots(Rank rank, bool sent) const {
  const Shape shape = Shape::single_server(ranks_);  // who shares a server is of no account
  const uint32_t count = sent ? send_slots(collective_, shape, rank, 0, graph_.get())
                              : recv_slots(collective_, shape, rank, 0, graph_.get());
  std::vector<Slot> all;
  int64_t offset = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Block block = sent ? send_block(collective_, rank, 0, i, graph_.get())
                             : recv_block(collective_, rank, 0, i, graph_.get());
    const int64_t length = bytes(block.origin, same_for_all() ? rank : block.target % ranks_);
    all.push_back({block, length, offset});
    offset += length;
  }
  return all;
}

int64_t Traffic::send_bytes(Rank rank) const {
  if (has_graph(collective_)) return end_of(sent_slots(rank));
  if (has_one_buffer(collective_)) return rank == root_ ? bytes_ : 0;
  return same_for_all() || is_one_to_one(collective_) ? bytes(rank, rank)
                                                      : send_offset(rank, ranks_);
}

int64_t Traffic::receive_bytes(Rank rank) const {
  if (has_graph(collective_)) return end_of(received_slots(rank));
  if (!holds(traits(collective_).recv, rank, root_)) return 0;
  if (reduces(collective_)) return bytes(rank, rank);
  return receive_offset(rank, ranks_);
}

int64_t Traffic::total_bytes() const {
  int64_t sum = 0;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    sum += reduces(collective_) ? send_bytes(rank) : receive_bytes(rank);
  }
  return sum;
}

/// What a block of an allgather is for on one server crosses once.
int64_t Traffic::busiest_server_of_graph(const Shape& shape) const {
  std::vector<int64_t> out(static_cast<size_t>(shape.servers()));
  for (Rank rank = 0; rank < ranks_ && graph_ != nullptr; ++rank) {
    std::set<int> reached;
    for (const Rank to : graph_->destinations(rank)) {
      const int server = shape.server_of(to);
      if (shape.same_server(rank, to) || (same_for_all() && !reached.insert(server).second))
        continue;
      out[static_cast<size_t>(shape.server_of(rank))] += bytes(rank, to);
    }
  }
  return *std::max_element(out.begin(), out.end());
}

int64_t Traffic::busiest_server_bytes(const Shape& shape) const {
  if (has_graph(collective_)) return busiest_server_of_graph(shape);
  const CollectiveTraits& row = traits(collective_);
  if (row.has_root && has_one_block(collective_)) return shape.servers() > 1 ? bytes_ : 0;
  if (is_one_to_one(collective_)) {
    const int64_t servers = shape.servers();
    if (row.combines == Combines::kOfAll) return 2 * bytes_ * (servers - 1) / servers;
    return servers > 1 ? bytes_ : 0;
  }
  const bool in = root_receives(collective_);
  int64_t busiest = 0;
  for (int server = 0; server < shape.servers(); ++server) {
    int64_t crossing = 0;
    if (reduces(collective_)) {  // sums
      for (Rank other = 0; other < ranks_; ++other)
        crossing += shape.server_of(other) == server ? 0 : bytes(other, other);
      busiest = std::max(busiest, crossing);
      continue;
    }
    for (const Rank rank : shape.members(server)) {
      for (Rank other = 0; other < ranks_; ++other) {
        if (shape.server_of(other) == server) continue;
        crossing += in ? bytes(other, rank) : bytes(rank, other);
      }
    }
    busiest = std::max(busiest, crossing);
  }
  return busiest;
}

int64_t Traffic::footprint_bytes() const {
  int64_t sum = 0;
  for (Rank rank = 0; rank < ranks_; ++rank) sum += send_bytes(rank) + receive_bytes(rank);
  return sum;
}

}  // namespace ibcoll::measure
