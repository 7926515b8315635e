#pragma once
/// Neighbour collectives through the C interface, and what they must bring.

#include <ibcoll/ibcoll.h>
#include <algorithm>
#include <string>
#include <vector>

#include "tests/algorithm_lists.h"
#include "tests/api_job.h"

namespace ibcoll::testing {

/// A rank's lists. What goes over the edge of that copy from a to b in a call is told by a, b, copy
/// and the call's number.
struct Lists {
  std::vector<int> sources, destinations;
};

struct Layout {
  const char* servers;
  int ranks;
  const char* placement = nullptr;
};
/// What every rank would pass, of all of them the same on all ranks: a random graph with loops and
/// parallel edges, in which some have no neighbours.
inline std::vector<Lists> random_lists(int ranks, uint32_t seed) {
  std::vector<Lists> all(static_cast<size_t>(ranks));
  uint32_t state = seed * 2654435761u + 12345;
  const auto next = [&](uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>((state >> 8) % below);
  };
  for (int i = 0; i < 3 * ranks; ++i) {
    const int from = next(static_cast<uint32_t>(ranks)), to = next(static_cast<uint32_t>(ranks));
    for (int copies = 1 + next(2); copies > 0; --copies) {
      all[static_cast<size_t>(from)].destinations.push_back(to);
      // In another order than the sender's.
      auto& sources = all[static_cast<size_t>(to)].sources;
      sources.insert(sources.begin() + next(static_cast<uint32_t>(sources.size()) + 1), from);
    }
  }
  return all;
}

/// The algorithms of a collective, as options name them.
inline std::vector<const char*> algorithms_for(ibcoll_collective collective) {
  std::vector<const char*> names;
  for (const Algorithm* const one : algorithms_of(static_cast<Collective>(collective)))
    names.push_back(one->name.data());
  return names;
}

inline ibcoll_status create(ibcoll_group* group, const Lists& lists, ibcoll_graph** graph) {
  return ibcoll_graph_create(group, static_cast<int>(lists.sources.size()), lists.sources.data(),
                             static_cast<int>(lists.destinations.size()), lists.destinations.data(),
                             graph);
}

/// By slot: which copy of its edge it is.
inline std::vector<int> copies_of(const std::vector<int>& peers) {
  std::vector<int> copies;
  for (size_t i = 0; i < peers.size(); ++i)
    copies.push_back(static_cast<int>(
        std::count(peers.begin(), peers.begin() + static_cast<ptrdiff_t>(i), peers[i])));
  return copies;
}

inline int64_t value(int from, int to, int copy, int call, size_t at) {
  return ((int64_t{from} * 100 + to) * 100 + copy) * 100000 + call * 1000 +
         static_cast<int>(at % 997);
}

inline size_t length(int from, int to, int copy, int call, size_t most) {
  return most == 0 ? 0 : static_cast<size_t>(from * 7 + to * 3 + copy * 5 + call) % most;
}

/// One call's buffers, for each of the five collectives.
struct NeighborExchange {
  const Lists& lists;
  int me, number;
  ibcoll_collective collective;
  size_t most;  ///< int64_t's of a block
  std::vector<int64_t> send, recv, expected;
  std::vector<int64_t> send_counts, send_places, recv_counts, recv_places;
  std::vector<ibcoll_block> send_blocks, recv_blocks;  ///< every second word

  bool gathers() const {
    return collective == IBCOLL_NEIGHBOR_ALLGATHER || collective == IBCOLL_NEIGHBOR_ALLGATHERV;
  }
  bool unequal() const {
    return collective == IBCOLL_NEIGHBOR_ALLGATHERV || collective == IBCOLL_NEIGHBOR_ALLTOALLV ||
           lays_out();
  }
  bool lays_out() const { return collective == IBCOLL_NEIGHBOR_ALLTOALLW; }

  NeighborExchange(const Lists& all, int rank, int call, ibcoll_collective which, size_t words)
      : lists(all), me(rank), number(call), collective(which), most(words) {
    const auto block = [&](int from, int to, int copy) {
      if (gathers()) to = copy = 0;
      std::vector<int64_t> words_of(unequal() ? length(from, to, copy, number, most) : most);
      for (size_t i = 0; i < words_of.size(); ++i) words_of[i] = value(from, to, copy, number, i);
      return words_of;
    };
    const auto add = [&](const std::vector<int64_t>& words_of, std::vector<int64_t>& buffer,
                         std::vector<int64_t>& counts, std::vector<int64_t>& places,
                         std::vector<ibcoll_block>& blocks) {
      if (unequal()) buffer.push_back(-7);  // gaps
      if (lays_out()) {
        blocks.push_back(ibcoll_block_vector(static_cast<int64_t>(buffer.size() * 8), 8,
                                             static_cast<int64_t>(words_of.size()), 16));
        for (const int64_t word : words_of) buffer.insert(buffer.end(), {word, -7});
        return;
      }
      counts.push_back(static_cast<int64_t>(words_of.size() * 8));
      places.push_back(static_cast<int64_t>(buffer.size() * 8));
      buffer.insert(buffer.end(), words_of.begin(), words_of.end());
    };
    const std::vector<int> to = copies_of(lists.destinations), from = copies_of(lists.sources);
    if (gathers()) {
      send = block(me, 0, 0);
    } else {
      for (size_t i = 0; i < to.size(); ++i)
        add(block(me, lists.destinations[i], to[i]), send, send_counts, send_places, send_blocks);
    }
    for (size_t i = 0; i < from.size(); ++i)
      add(block(lists.sources[i], me, from[i]), expected, recv_counts, recv_places, recv_blocks);
    recv.assign(expected.size(), -7);
  }

  ibcoll_call call(ibcoll_graph* graph, const ibcoll_options* options) {
    switch (collective) {
      case IBCOLL_NEIGHBOR_ALLGATHER:
        return ibcoll_call_neighbor_allgather(graph, send.data(), recv.data(), most * 8, options);
      case IBCOLL_NEIGHBOR_ALLGATHERV:
        return ibcoll_call_neighbor_allgatherv(graph, send.data(),
                                               static_cast<int64_t>(send.size() * 8), recv.data(),
                                               recv_counts.data(), recv_places.data(), options);
      case IBCOLL_NEIGHBOR_ALLTOALL:
        return ibcoll_call_neighbor_alltoall(graph, send.data(), recv.data(), most * 8, options);
      case IBCOLL_NEIGHBOR_ALLTOALLW:
        return ibcoll_call_neighbor_alltoallw(graph, send.data(), send_blocks.data(), recv.data(),
                                              recv_blocks.data(), options);
      default:
        return ibcoll_call_neighbor_alltoallv(graph, send.data(), send_counts.data(),
                                              send_places.data(), recv.data(), recv_counts.data(),
                                              recv_places.data(), options);
    }
  }
  ibcoll_status blocking(ibcoll_graph* graph, const ibcoll_options* options) {
    switch (collective) {
      case IBCOLL_NEIGHBOR_ALLGATHER:
        return ibcoll_neighbor_allgather(graph, send.data(), recv.data(), most * 8, options);
      case IBCOLL_NEIGHBOR_ALLGATHERV:
        return ibcoll_neighbor_allgatherv(graph, send.data(), static_cast<int64_t>(send.size() * 8),
                                          recv.data(), recv_counts.data(), recv_places.data(),
                                          options);
      case IBCOLL_NEIGHBOR_ALLTOALL:
        return ibcoll_neighbor_alltoall(graph, send.data(), recv.data(), most * 8, options);
      case IBCOLL_NEIGHBOR_ALLTOALLW:
        return ibcoll_neighbor_alltoallw(graph, send.data(), send_blocks.data(), recv.data(),
                                         recv_blocks.data(), options);
      default:
        return ibcoll_neighbor_alltoallv(graph, send.data(), send_counts.data(), send_places.data(),
                                         recv.data(), recv_counts.data(), recv_places.data(),
                                         options);
    }
  }
  void check(const ApiRank& rank, const std::string& what) const {
    if (recv != expected)
      rank.complain(fmt::format("{}: collective {}, {} words: wrong data", what,
                                static_cast<int>(collective), most));
  }
};

inline constexpr ibcoll_collective kAll[] = {IBCOLL_NEIGHBOR_ALLGATHER, IBCOLL_NEIGHBOR_ALLGATHERV,
                                             IBCOLL_NEIGHBOR_ALLTOALL, IBCOLL_NEIGHBOR_ALLTOALLV,
                                             IBCOLL_NEIGHBOR_ALLTOALLW};

}  // namespace ibcoll::testing
