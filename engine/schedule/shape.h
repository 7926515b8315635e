#pragma once
/// Which ranks there are and which of them share memory: all an algorithm knows about the machine.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/ranks.h"

namespace ibcoll {

/// How consecutive ranks are dealt to servers: `kBlock` fills one server after the other, `kCyclic`
/// deals one rank to each server in turn (servers that are full are skipped).
enum class Placement { kBlock, kCyclic };

/// An immutable map of ranks to servers. Servers may have different numbers of ranks, and ranks may
/// be placed in any order. Local rank `l` of a server is the server's `l`-th rank in ascending rank
/// order. Its tables grow with the servers where ranks are placed in blocks, and with the ranks
/// where they are not. Copies share them, so that a copy takes neither memory nor time that goes
/// with the ranks.
class Shape {
 public:
  /// From the server of each rank: every server 0..max must have a rank.
  static Result<Shape> create(const std::vector<int>& server_of);
  /// From the number of ranks of each server.
  static Result<Shape> from_layout(std::span<const int> ranks_of_server, Placement placement);
  /// One server that holds all ranks.
  static Shape single_server(int ranks);
  // Copied, not moved: what is left of one that was moved from would have ranks, but no tables.
  Shape(const Shape&) = default;
  Shape& operator=(const Shape&) = default;

  int ranks() const { return ranks_; }
  int servers() const { return servers_; }
  int server_of(Rank rank) const { return server_at(position_of(rank)); }
  int local_of(Rank rank) const {
    const int position = position_of(rank);
    return position - first_[server_at(position)];
  }
  int server_size(int server) const { return first_[server + 1] - first_[server]; }
  int max_server_size() const { return max_server_size_; }
  Rank rank_at(int server, int local) const {
    const int position = first_[server] + local;
    return rank_at_ != nullptr ? rank_at_[position] : position;
  }
  RankSpan members(int server) const {
    const auto size = static_cast<size_t>(server_size(server));
    return rank_at_ != nullptr ? RankSpan(rank_at_ + first_[server], size)
                               : RankSpan::consecutive(first_[server], size);
  }
  bool same_server(Rank a, Rank b) const {
    const int server = server_of(b), position = position_of(a);
    return first_[server] <= position && position < first_[server + 1];
  }
  /// True if the server's ranks are consecutive numbers, so that their blocks lie side by side.
  bool consecutive(int server) const {
    return members(server).back() - members(server).front() + 1 == server_size(server);
  }
  /// True if all servers have the same number of ranks.
  bool equal_servers() const { return server_from_ == nullptr; }

  /// Bytes of memory of its tables, which its copies share.
  size_t memory_bytes() const;

  /// The same on every process for the same shape.
  uint64_t hash() const { return hash_; }
  /// "24x8", "3,1,2", with "cyclic" or "arbitrary" behind where ranks are not placed in blocks.
  std::string describe() const;

 private:
  /// A rank's position is its number when ranks are counted server by server.
  struct Tables {
    std::vector<int> first;        ///< position of each server's first rank, and the end
    std::vector<int> server_from;  ///< of every `1 << shift` positions the server of the first one;
                                   ///< empty where all servers have the same number of ranks
    std::vector<Rank> rank_at;     ///< by position; empty where ranks are their positions
    std::vector<int> position_of;  ///< by rank; as `rank_at`
  };
  Shape(Tables&& tables, uint64_t hash);

  int position_of(Rank rank) const { return position_of_ != nullptr ? position_of_[rank] : rank; }
  int server_at(int position) const {
    // Divided by the number of ranks of a server: an integer division takes as long as a miss of
    // the cache.
    if (server_from_ == nullptr)
      return static_cast<int>(static_cast<uint64_t>(position) * reciprocal_ >> shift_);
    return search_server(position);
  }
  int search_server(int position) const;

  std::shared_ptr<const Tables> tables_;
  // In these, without a way through them.
  const int *first_ = nullptr, *server_from_ = nullptr, *position_of_ = nullptr;
  const Rank* rank_at_ = nullptr;
  int ranks_ = 0, servers_ = 0;
  int max_server_size_ = 0;
  int shift_ = 0;            ///< of `reciprocal_`, or of the positions of `server_from_`
  uint64_t reciprocal_ = 0;  ///< 2^shift_ / ranks of a server, rounded up
  uint64_t hash_ = 0;
};

}  // namespace ibcoll
