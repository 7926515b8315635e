#include "engine/schedule/shape.h"

#include <fmt/ranges.h>

#include <algorithm>

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

}  // namespace

Shape::Shape(Tables&& tables)
    : tables_(std::make_shared<const Tables>(std::move(tables))),
      server_of_(tables_->server_of.data()),
      local_of_(tables_->local_of.data()),
      first_(tables_->first.data()),
      members_(tables_->members.data()),
      ranks_(static_cast<int>(tables_->server_of.size())),
      servers_(static_cast<int>(tables_->first.size()) - 1) {
  for (int server = 0; server < servers_; ++server)
    max_server_size_ = std::max(max_server_size_, server_size(server));
  // Of runs of ranks on one server: each step waits for the one before, and mostly there are few.
  const std::vector<int>& server_of = tables_->server_of;
  uint64_t hash = mix(0, server_of.size());
  size_t run = 0;
  for (size_t rank = 0; rank < server_of.size(); ++rank) {
    if (server_of[rank] == server_of[run]) continue;
    hash = mix(hash, static_cast<uint64_t>(server_of[run]) << 32 | (rank - run));
    run = rank;
  }
  hash_ = mix(hash, static_cast<uint64_t>(server_of[run]) << 32 | (server_of.size() - run));
}

Result<Shape> Shape::create(std::vector<int> server_of) {
  if (server_of.empty()) return fail(ErrorCode::kInvalidArgument, "a shape needs at least 1 rank");
  Tables tables;
  std::vector<int> sizes;
  tables.local_of.reserve(server_of.size());
  for (size_t rank = 0; rank < server_of.size(); ++rank) {
    const int server = server_of[rank];
    if (server < 0 || static_cast<size_t>(server) >= server_of.size()) {
      return fail(ErrorCode::kInvalidArgument,
                  "rank {} is on server {}: servers of {} ranks are numbered 0 to {}", rank, server,
                  server_of.size(), server_of.size() - 1);
    }
    if (static_cast<size_t>(server) >= sizes.size()) sizes.resize(server + 1);
    tables.local_of.push_back(sizes[server]++);
  }
  tables.first.reserve(sizes.size() + 1);
  tables.first.push_back(0);
  for (size_t server = 0; server < sizes.size(); ++server) {
    if (sizes[server] == 0) {
      return fail(ErrorCode::kInvalidArgument, "server {} of {} has no rank", server, sizes.size());
    }
    tables.first.push_back(tables.first.back() + sizes[server]);
  }
  tables.members.resize(server_of.size());
  for (size_t rank = 0; rank < server_of.size(); ++rank)
    tables.members[tables.first[server_of[rank]] + tables.local_of[rank]] = static_cast<Rank>(rank);
  tables.server_of = std::move(server_of);
  return Shape(std::move(tables));
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
  const std::vector<int>& server_of = tables_->server_of;
  if (server_of == deal(sizes, Placement::kBlock)) return text;
  return text + (server_of == deal(sizes, Placement::kCyclic) ? " cyclic" : " arbitrary");
}

size_t Shape::memory_bytes() const {
  return (tables_->server_of.capacity() + tables_->local_of.capacity() +
          tables_->first.capacity()) *
             sizeof(int) +
         tables_->members.capacity() * sizeof(Rank);
}

}  // namespace ibcoll
