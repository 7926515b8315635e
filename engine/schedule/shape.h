#pragma once
/// Which ranks there are and which of them share memory: all an algorithm knows about the machine.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll {

using Rank = int32_t;

/// How consecutive ranks are dealt to servers: `kBlock` fills one server after the other, `kCyclic`
/// deals one rank to each server in turn (servers that are full are skipped).
enum class Placement { kBlock, kCyclic };

/// An immutable map of ranks to servers. Servers may have different numbers of ranks, and ranks may
/// be placed in any order. Local rank `l` of a server is the server's `l`-th rank in ascending rank
/// order. Copies share their tables, so that a copy takes neither memory nor time that goes with
/// the ranks.
class Shape {
 public:
  /// From the server of each rank: every server 0..max must have a rank.
  static Result<Shape> create(std::vector<int> server_of);
  /// From the number of ranks of each server.
  static Result<Shape> from_layout(std::span<const int> ranks_of_server, Placement placement);
  /// One server that holds all ranks.
  static Shape single_server(int ranks);
  // Copied, not moved: what is left of one that was moved from would have ranks, but no tables.
  Shape(const Shape&) = default;
  Shape& operator=(const Shape&) = default;

  int ranks() const { return ranks_; }
  int servers() const { return servers_; }
  int server_of(Rank rank) const { return server_of_[rank]; }
  int local_of(Rank rank) const { return local_of_[rank]; }
  int server_size(int server) const { return first_[server + 1] - first_[server]; }
  int max_server_size() const { return max_server_size_; }
  Rank rank_at(int server, int local) const { return members_[first_[server] + local]; }
  std::span<const Rank> members(int server) const {
    return {members_ + first_[server], static_cast<size_t>(server_size(server))};
  }
  bool same_server(Rank a, Rank b) const { return server_of_[a] == server_of_[b]; }
  /// True if the server's ranks are consecutive numbers, so that their blocks lie side by side.
  bool consecutive(int server) const {
    return members_[first_[server + 1] - 1] - members_[first_[server]] + 1 == server_size(server);
  }
  /// True if all servers have the same number of ranks.
  bool equal_servers() const { return max_server_size_ * servers() == ranks(); }

  /// Bytes of memory of its tables, which its copies share.
  size_t memory_bytes() const;

  /// The same on every process for the same shape.
  uint64_t hash() const { return hash_; }
  /// "24x8", "3,1,2", with "cyclic" or "arbitrary" behind where ranks are not placed in blocks.
  std::string describe() const;

 private:
  struct Tables {
    std::vector<int> server_of, local_of;
    std::vector<Rank> members;  ///< ranks ordered by (server, local rank)
    std::vector<int> first;     ///< index in members of each server's first rank, and the end
  };
  explicit Shape(Tables&& tables);
  std::shared_ptr<const Tables> tables_;
  // In these, without a way through them.
  const int *server_of_ = nullptr, *local_of_ = nullptr, *first_ = nullptr;
  const Rank* members_ = nullptr;
  int ranks_ = 0, servers_ = 0;
  int max_server_size_ = 0;
  uint64_t hash_ = 0;
};

}  // namespace ibcoll
