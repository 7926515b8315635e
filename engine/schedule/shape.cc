#include "engine/schedule/shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "engine/base/hash.h"

namespace ibcoll {

namespace {

std::vector<int> deal(std::span<const int> ranks_of_server, Placement placement) {
  std::vector<int> server_of;
  const int servers = static_cast<int>(ranks_of_server.size());
  if (placement == Placement::kBlock) {
    for (int server = 0; server < servers; ++server) {
      server_of.insert(server_of.end(), ranks_of_server[server], server);
    }
    return server_of;
  }
  const int rounds = *std::max_element(ranks_of_server.begin(), ranks_of_server.end());
  for (int round = 0; round < rounds; ++round) {
    for (int server = 0; server < servers; ++server) {
      if (round < ranks_of_server[server]) server_of.push_back(server);
    }
  }
  return server_of;
}

/// Of runs of ranks on one server: each step waits for the one before, and mostly there are few.
uint64_t hash_of(const std::vector<int>& server_of) {
  uint64_t hash = mix(0, server_of.size());
  size_t run = 0;
  for (size_t rank = 0; rank < server_of.size(); ++rank) {
    if (server_of[rank] == server_of[run]) continue;
    hash = mix(hash, static_cast<uint64_t>(server_of[run]) << 32 | (rank - run));
    run = rank;
  }
  return mix(hash, static_cast<uint64_t>(server_of[run]) << 32 | (server_of.size() - run));
}

/// There are one to two parts of `1 << shift` positions per server, so that the search in one of
/// them looks at few servers.
int shift_for(int ranks, int servers) {
  return std::bit_width(static_cast<uint32_t>(ranks / servers)) - 1;
}

}  // namespace

Shape::Shape(Tables&& tables, uint64_t hash)
    : tables_(std::make_shared<const Tables>(std::move(tables))),
      first_(tables_->first.data()),
      ranks_(tables_->first.back()),
      servers_(static_cast<int>(tables_->first.size()) - 1),
      hash_(hash) {
  for (int server = 0; server < servers_; ++server)
    max_server_size_ = std::max(max_server_size_, server_size(server));
  if (!tables_->server_from.empty()) {
    server_from_ = tables_->server_from.data();
    shift_ = shift_for(ranks_, servers_);
  } else {
    // Exact for positions below 2^31: rounding up adds less than 1 / size to the quotient.
    const auto size = static_cast<uint64_t>(max_server_size_);
    shift_ = 31 + static_cast<int>(std::bit_width(size - 1));
    reciprocal_ = ((uint64_t{1} << shift_) + size - 1) / size;
  }
  if (!tables_->rank_at.empty()) {
    rank_at_ = tables_->rank_at.data();
    position_of_ = tables_->position_of.data();
  }
}

int Shape::search_server(int position) const {
  const int part = position >> shift_;
  const int* const after = std::upper_bound(first_ + server_from_[part] + 1,
                                            first_ + server_from_[part + 1] + 1, position);
  return static_cast<int>(after - first_) - 1;
}

Result<Shape> Shape::create(const std::vector<int>& server_of) {
  if (server_of.empty()) return fail(ErrorCode::kInvalidArgument, "a shape needs at least 1 rank");
  std::vector<int> sizes;
  for (size_t rank = 0; rank < server_of.size(); ++rank) {
    const int server = server_of[rank];
    if (server < 0 || static_cast<size_t>(server) >= server_of.size()) {
      return fail(ErrorCode::kInvalidArgument,
                  "rank {} is on server {}: servers of {} ranks are numbered 0 to {}", rank, server,
                  server_of.size(), server_of.size() - 1);
    }
    if (static_cast<size_t>(server) >= sizes.size()) sizes.resize(server + 1);
    ++sizes[server];
  }
  Tables tables;
  tables.first.reserve(sizes.size() + 1);
  tables.first.push_back(0);
  for (size_t server = 0; server < sizes.size(); ++server) {
    if (sizes[server] == 0) {
      return fail(ErrorCode::kInvalidArgument, "server {} of {} has no rank", server, sizes.size());
    }
    tables.first.push_back(tables.first.back() + sizes[server]);
  }
  const auto ranks = static_cast<int>(server_of.size());
  if (std::any_of(sizes.begin(), sizes.end(), [&](int size) { return size != sizes[0]; })) {
    const int shift = shift_for(ranks, static_cast<int>(sizes.size()));
    const int parts = ((ranks - 1) >> shift) + 1;
    tables.server_from.reserve(static_cast<size_t>(parts) + 1);
    int server = 0;
    for (int part = 0; part < parts; ++part) {
      while (tables.first[server + 1] <= part << shift) ++server;
      tables.server_from.push_back(server);
    }
    tables.server_from.push_back(static_cast<int>(sizes.size()) - 1);
  }
  if (!std::is_sorted(server_of.begin(), server_of.end())) {
    std::vector<int> next(tables.first.begin(), tables.first.end() - 1);
    tables.rank_at.resize(server_of.size());
    tables.position_of.resize(server_of.size());
    for (Rank rank = 0; rank < ranks; ++rank) {
      const int position = next[server_of[rank]]++;
      tables.position_of[rank] = position;
      tables.rank_at[position] = rank;
    }
  }
  return Shape(std::move(tables), hash_of(server_of));
}

Result<Shape> Shape::from_layout(std::span<const int> ranks_of_server, Placement placement) {
  if (ranks_of_server.empty()) {
    return fail(ErrorCode::kInvalidArgument, "a layout needs at least 1 server");
  }
  for (size_t server = 0; server < ranks_of_server.size(); ++server) {
    if (ranks_of_server[server] < 1) {
      return fail(ErrorCode::kInvalidArgument, "server {} of the layout has {} ranks: at least 1",
                  server, ranks_of_server[server]);
    }
  }
  return create(deal(ranks_of_server, placement));
}

Shape Shape::single_server(int ranks) {
  return create(std::vector<int>(std::max(ranks, 1), 0)).value();
}

std::string Shape::describe() const {
  std::vector<int> sizes;
  for (int server = 0; server < servers(); ++server) sizes.push_back(server_size(server));
  std::string text = equal_servers() ? fmt::format("{}x{}", servers(), max_server_size_)
                                     : fmt::format("{}", fmt::join(sizes, ","));
  if (rank_at_ == nullptr) return text;
  const std::vector<int> cyclic = deal(sizes, Placement::kCyclic);
  for (Rank rank = 0; rank < ranks(); ++rank) {
    if (server_of(rank) != cyclic[rank]) return text + " arbitrary";
  }
  return text + " cyclic";
}

size_t Shape::memory_bytes() const {
  return (tables_->first.capacity() + tables_->server_from.capacity() +
          tables_->rank_at.capacity() + tables_->position_of.capacity()) *
         sizeof(int);
}

}  // namespace ibcoll
