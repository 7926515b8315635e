#include "engine/core/call_arguments.h"

#include <algorithm>

namespace ibcoll {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto a0 = reinterpret_cast<uintptr_t>(a), b0 = reinterpret_cast<uintptr_t>(b);
  return a_bytes != 0 && b_bytes != 0 && a0 < b0 + b_bytes && b0 < a0 + a_bytes;
}

/// Checks counts and displacements of one side; gives the end of the last block.
Result<size_t> extent(bool sends, const int64_t* counts, const int64_t* displacements, int blocks,
                      bool of_neighbors) {
  const char* const what = sends ? "send" : "receive";
  const char* const who = of_neighbors ? "neighbour" : "rank";
  if (blocks == 0) return 0;
  if (counts == nullptr || displacements == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "the {} counts or displacements are null", what);
  }
  uint64_t end = 0, sum = 0;
  bool in_order = true;
  for (int i = 0; i < blocks; ++i) {
    if (counts[i] < 0 || displacements[i] < 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} count {} or displacement {} of {} {} is negative", what, counts[i],
                  displacements[i], who, i);
    }
    const uint64_t block_end =
        static_cast<uint64_t>(counts[i]) + static_cast<uint64_t>(displacements[i]);
    sum += static_cast<uint64_t>(counts[i]);
    if (block_end > kMaxBytes || sum > kMaxBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  "the {} counts add up to more than 2^62 bytes at {} {}", what, who, i);
    }
    if (counts[i] == 0) continue;
    in_order &= static_cast<uint64_t>(displacements[i]) >= end;
    end = std::max(end, block_end);
  }
  if (!in_order && !sends)
    IBCOLL_TRY(check_apart({counts, static_cast<size_t>(blocks)}, displacements, who));
  return end;
}

Status check_in_place(Rank me, const CallArguments& a) {
  if (has_graph(a.collective)) {
    return fail(ErrorCode::kInvalidArgument, "{} can't be in place", to_string(a.collective));
  }
  if (a.collective == Collective::kBcast) {
    return fail(ErrorCode::kInvalidArgument, "bcast has one buffer: it can't be in place");
  }
  if (has_root(a.collective) && me != a.root) {
    return fail(ErrorCode::kInvalidArgument,
                "rank {}: only the root of a {}, rank {}, can pass "
                "IBCOLL_IN_PLACE",
                me, to_string(a.collective), a.root);
  }
  return {};
}

/// The block that a rank sends itself is copied here: whoever counts it twice must count it alike.
/// Counts and places are known to be good.
Status check_own_block(Rank me, const CallArguments& a) {
  if (!is_unequal(a.collective) || reduces(a.collective) || a.in_place ||
      (has_root(a.collective) && me != a.root))
    return {};
  const int64_t sent = lists_all(a.collective, true) ? a.send_counts[me] : a.own_count;
  const int64_t received = lists_all(a.collective, false) ? a.recv_counts[me] : a.own_count;
  if (sent == received) return {};
  return fail(ErrorCode::kInvalidArgument,
              "{}: rank {} sends itself {} bytes where it receives {} from itself",
              to_string(a.collective), me, sent, received);
}

/// What all ranks of a reduce_scatter receive together.
Result<size_t> summed_bytes(const CallArguments& a, int ranks) {
  if (a.recv_counts == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "the receive counts are null");
  }
  const uint64_t most = kMaxBytes / a.reduction.element_bytes;
  uint64_t elements = 0;
  for (int i = 0; i < ranks; ++i) {
    if (a.recv_counts[i] < 0) {
      return fail(ErrorCode::kInvalidArgument, "receive count {} of rank {} is negative",
                  a.recv_counts[i], i);
    }
    if (static_cast<uint64_t>(a.recv_counts[i]) > most - elements) {
      return fail(ErrorCode::kInvalidArgument,
                  "the receive counts add up to more than 2^62 bytes at rank {}", i);
    }
    elements += static_cast<uint64_t>(a.recv_counts[i]);
  }
  return elements * a.reduction.element_bytes;
}

}  // namespace

Status check_buffer(const char* what, const void* buffer, size_t bytes, size_t limit) {
  if (bytes != 0 && buffer == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "the {} buffer is null, but {} bytes of it are used",
                what, bytes);
  }
  if (limit != 0 && bytes > limit) {
    return fail(ErrorCode::kInvalidArgument,
                "the {} buffer is too small: it has {} bytes, the call uses {}", what, limit,
                bytes);
  }
  return {};
}

Status check_own_edges(Rank me, const CallArguments& a,
                       const std::function<int64_t(size_t slot)>& sent,
                       const std::function<int64_t(size_t slot)>& received) {
  const auto sources = a.options.graph->sources(me),
             destinations = a.options.graph->destinations(me);
  size_t to = 0;
  for (size_t from = 0; from < sources.size(); ++from) {
    if (sources[from] != me) continue;
    while (destinations[to] != me) ++to;
    const int64_t given = sent(to++), taken = received(from);
    if (given == taken) continue;
    return fail(ErrorCode::kInvalidArgument,
                "{}: rank {} sends itself {} bytes where it receives {} from itself",
                to_string(a.collective), me, given, taken);
  }
  return {};
}

Result<size_t> used_bytes(const CallArguments& a, bool sends, uint32_t slots, Rank me, int ranks) {
  if (slots == 0) return 0;
  if (a.collective == Collective::kReduceScatter) {
    IBCOLL_ASSIGN(const size_t sum, summed_bytes(a, ranks));
    return sends ? sum : static_cast<size_t>(a.recv_counts[me]) * a.reduction.element_bytes;
  }
  if (has_graph(a.collective) && lists_all(a.collective, sends)) {
    const auto neighbors = static_cast<int>(slots);
    return sends ? extent(true, a.send_counts, a.send_displacements, neighbors, true)
                 : extent(false, a.recv_counts, a.recv_displacements, neighbors, true);
  }
  if (lists_all(a.collective, sends)) {
    return sends ? extent(true, a.send_counts, a.send_displacements, ranks, false)
                 : extent(false, a.recv_counts, a.recv_displacements, ranks, false);
  }
  if (is_unequal(a.collective)) {
    if (a.own_count < 0 || static_cast<uint64_t>(a.own_count) > kMaxBytes) {
      return fail(ErrorCode::kInvalidArgument, "the {} count {} must be 0 to 2^62",
                  sends ? "send" : "receive", a.own_count);
    }
    return static_cast<size_t>(a.own_count);
  }
  if (a.block_bytes > kMaxBytes / slots) {
    return fail(ErrorCode::kInvalidArgument, "{} blocks of {} bytes are more than 2^62 bytes",
                slots, a.block_bytes);
  }
  return a.block_bytes * slots;
}

bool moves_aside(Collective collective) { return is_alltoall(collective) || reduces(collective); }

bool lists_all(Collective collective, bool sends) {
  return is_unequal(collective) && (is_alltoall(collective) || is_neighbor_alltoall(collective) ||
                                    (collective == Collective::kScatterv) == sends);
}

int64_t mean_bytes(const CallArguments& a, int ranks) {
  int64_t elements = 0;
  for (int i = 0; i < ranks; ++i) elements += a.recv_counts[i];
  return elements * a.reduction.element_bytes / ranks;
}

Status check_arguments(const Shape& shape, Rank me, const CallArguments& a) {
  if (a.collective == Collective::kBarrier) return {};
  const int ranks = shape.ranks();
  if (has_root(a.collective) && (a.root < 0 || a.root >= ranks)) {
    return fail(ErrorCode::kInvalidArgument, "root {}: the group's ranks are 0 to {}", a.root,
                ranks - 1);
  }
  if (a.in_place) IBCOLL_TRY(check_in_place(me, a));
  const Graph* const graph = a.options.graph.get();
  if (has_graph(a.collective) && graph == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "{} needs a graph", to_string(a.collective));
  }
  if (a.send_blocks != nullptr || a.recv_blocks != nullptr || has_blocks(a.collective)) [[unlikely]]
    return check_blocks(shape, me, a);
  const bool keeps = a.collective == Collective::kScatter || a.collective == Collective::kScatterv;
  size_t send_bytes = 0, recv_bytes = 0;
  if (!a.in_place || keeps) {
    IBCOLL_ASSIGN(
        send_bytes,
        used_bytes(a, true, send_slots(a.collective, shape, me, a.root, graph), me, ranks));
  }
  if (!a.in_place || !keeps) {
    // What lies in place to be combined may be more than what is received.
    const bool reads = a.in_place && reduces(a.collective);
    const uint32_t slots = reads ? send_slots(a.collective, shape, me, a.root)
                                 : recv_slots(a.collective, shape, me, a.root, graph);
    IBCOLL_ASSIGN(recv_bytes, used_bytes(a, reads, slots, me, ranks));
  }
  if (!has_graph(a.collective)) {
    IBCOLL_TRY(check_own_block(me, a));
  } else if (is_unequal(a.collective)) {
    const bool lists = lists_all(a.collective, true);
    IBCOLL_TRY(check_own_edges(
        me, a, [&](size_t slot) { return lists ? a.send_counts[slot] : a.own_count; },
        [&](size_t slot) { return a.recv_counts[slot]; }));
  }
  IBCOLL_TRY(check_buffer("receive", a.recv, recv_bytes, a.recv_limit));
  IBCOLL_TRY(check_buffer("send", a.send, send_bytes, a.send_limit));
  if (overlap(a.send, send_bytes, a.recv, recv_bytes)) {
    return fail(ErrorCode::kInvalidArgument,
                "send and receive buffer overlap; for data in place pass IBCOLL_IN_PLACE");
  }
  return {};
}

}  // namespace ibcoll
