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
Result<size_t> extent(bool sends, const int64_t* counts, const int64_t* displacements,
                      uint32_t blocks, const char* who) {
  const char* const what = sends ? "send" : "receive";
  if (counts == nullptr || displacements == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "the {} counts or displacements are null", what);
  }
  uint64_t end = 0, sum = 0;
  bool in_order = true;
  for (uint32_t i = 0; i < blocks; ++i) {
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
  if (!in_order && !sends) IBCOLL_TRY(check_apart({counts, blocks}, displacements, who));
  return end;
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

/// One side of a call, as this rank has it.
class ArgumentSide {
 public:
  ArgumentSide(const Shape& shape, Rank me, const CallArguments& a, bool sends)
      : a_(a),
        row_(sends ? traits(a.collective).send : traits(a.collective).recv),
        me_(me),
        ranks_(shape.ranks()),
        sends_(sends),
        slots_(sends ? send_slots(a.collective, shape, me, a.root, a.options.graph.get())
                     : recv_slots(a.collective, shape, me, a.root, a.options.graph.get())),
        blocks_(sends ? a.send_blocks : a.recv_blocks) {}

  /// Bytes of its buffer that are used: up to the end of the last block, or what blocks with
  /// layouts have together.
  Result<size_t> used() const {
    if (slots_ == 0) return 0;
    if (blocks_ != nullptr) [[unlikely]]
      return used_by_layouts(a_, sends_, {blocks_, slots_});
    switch (row_.lengths) {
      case Lengths::kEqual:
        if (a_.block_bytes > kMaxBytes / slots_) {
          return fail(ErrorCode::kInvalidArgument, "{} blocks of {} bytes are more than 2^62 bytes",
                      slots_, a_.block_bytes);
        }
        return a_.block_bytes * slots_;
      case Lengths::kOwn:
        if (a_.own_count < 0 || static_cast<uint64_t>(a_.own_count) > kMaxBytes) {
          return fail(ErrorCode::kInvalidArgument, "the {} count {} must be 0 to 2^62", what(),
                      a_.own_count);
        }
        return static_cast<size_t>(a_.own_count);
      case Lengths::kElements: {
        IBCOLL_ASSIGN(const size_t sum, summed_bytes(a_, ranks_));
        return sends_ ? sum : static_cast<size_t>(a_.recv_counts[me_]) * a_.reduction.element_bytes;
      }
      case Lengths::kLists: {
        const char* const who = row_.slots == Slots::kEachNeighbor ? "neighbour" : "rank";
        return sends_ ? extent(true, a_.send_counts, a_.send_displacements, slots_, who)
                      : extent(false, a_.recv_counts, a_.recv_displacements, slots_, who);
      }
      case Lengths::kLayouts:
        break;
    }
    return fail(ErrorCode::kInvalidArgument, "{}: the {} blocks are null", to_string(a_.collective),
                what());
  }

  /// That there is memory for so many.
  Status check_buffer(size_t bytes) const {
    const void* const buffer = sends_ ? a_.send : a_.recv;
    if (bytes != 0 && buffer == nullptr) {
      return fail(ErrorCode::kInvalidArgument, "the {} buffer is null, but {} bytes of it are used",
                  what(), bytes);
    }
    // How far layouts reach has been looked at.
    const size_t limit = blocks_ != nullptr ? 0 : sends_ ? a_.send_limit : a_.recv_limit;
    if (limit != 0 && bytes > limit) {
      return fail(ErrorCode::kInvalidArgument,
                  "the {} buffer is too small: it has {} bytes, the call uses {}", what(), limit,
                  bytes);
    }
    return {};
  }

  /// Of a block where they may differ, if all of them are right.
  int64_t bytes_of(size_t slot) const {
    if (blocks_ != nullptr)
      return ibcoll_block_bytes(blocks_[row_.slots == Slots::kOne ? 0 : slot]);
    if (!row_.lists()) return a_.own_count;
    return sends_ ? a_.send_counts[slot] : a_.recv_counts[slot];
  }

 private:
  const char* what() const { return sends_ ? "send" : "receive"; }

  const CallArguments& a_;
  const SideTraits& row_;
  const Rank me_;
  const int ranks_;
  const bool sends_;
  const uint32_t slots_;
  const ibcoll_block* const blocks_;
};

Status check_in_place(const CollectiveTraits& row, Rank me, const CallArguments& a) {
  if (row.in_place == InPlace::kNever)
    return fail(ErrorCode::kInvalidArgument, "{} can't be in place", row.name);
  if (row.in_place == InPlace::kOneBuffer) {
    return fail(ErrorCode::kInvalidArgument, "{} has one buffer: it can't be in place", row.name);
  }
  if (row.has_root && me != a.root) {
    return fail(ErrorCode::kInvalidArgument,
                "rank {}: only the root of a {}, rank {}, can pass "
                "IBCOLL_IN_PLACE",
                me, row.name, a.root);
  }
  return {};
}

/// What a rank sends itself is copied here: where it says twice how long that is, it must say it
/// alike.
Status check_own_blocks(const CollectiveTraits& row, Rank me, const CallArguments& a,
                        const ArgumentSide& send, const ArgumentSide& recv) {
  if (!row.unequal || row.reduces || a.in_place || (row.has_root && me != a.root)) return {};
  const auto compare = [&](size_t to, size_t from) -> Status {
    const int64_t sent = send.bytes_of(to), received = recv.bytes_of(from);
    if (sent == received) return {};
    return fail(ErrorCode::kInvalidArgument,
                "{}: rank {} sends itself {} bytes where it receives {} from itself", row.name, me,
                sent, received);
  };
  if (!row.has_graph) return compare(static_cast<size_t>(me), static_cast<size_t>(me));
  const auto sources = a.options.graph->sources(me),
             destinations = a.options.graph->destinations(me);
  size_t to = 0;
  for (size_t from = 0; from < sources.size(); ++from) {
    if (sources[from] != me) continue;
    while (destinations[to] != me) ++to;
    IBCOLL_TRY(compare(to++, from));
  }
  return {};
}

}  // namespace

int64_t mean_bytes(const CallArguments& a, int ranks) {
  int64_t elements = 0;
  for (int i = 0; i < ranks; ++i) elements += a.recv_counts[i];
  return elements * a.reduction.element_bytes / ranks;
}

Status check_arguments(const Shape& shape, Rank me, const CallArguments& a) {
  const CollectiveTraits& row = traits(a.collective);
  if (!row.moves_data) return {};
  // What the call is.
  if (row.has_root && (a.root < 0 || a.root >= shape.ranks())) {
    return fail(ErrorCode::kInvalidArgument, "root {}: the group's ranks are 0 to {}", a.root,
                shape.ranks() - 1);
  }
  if (a.in_place) IBCOLL_TRY(check_in_place(row, me, a));
  if (row.has_graph && a.options.graph == nullptr)
    return fail(ErrorCode::kInvalidArgument, "{} needs a graph", row.name);
  const bool laid_out =
      a.send_blocks != nullptr || a.recv_blocks != nullptr || row.send.lengths == Lengths::kLayouts;
  if (laid_out && row.reduces) [[unlikely]] {
    return fail(ErrorCode::kInvalidArgument,
                "{} takes no blocks: what is combined must be contiguous", row.name);
  }
  // Each side by itself; in place one of them says for both. What lies there to be combined may be
  // more than what is received.
  const ArgumentSide send(shape, me, a, true), recv(shape, me, a, false);
  const bool keeps = row.in_place == InPlace::kSend;
  size_t send_bytes = 0, recv_bytes = 0;
  if (!a.in_place || keeps) {
    IBCOLL_ASSIGN(send_bytes, send.used());
    if (laid_out) IBCOLL_TRY(send.check_buffer(send_bytes));
  }
  if (!a.in_place || !keeps) {
    IBCOLL_ASSIGN(recv_bytes, a.in_place && row.reduces ? send.used() : recv.used());
    if (laid_out) IBCOLL_TRY(recv.check_buffer(recv_bytes));
  }
  // One against the other.
  IBCOLL_TRY(check_own_blocks(row, me, a, send, recv));
  // Blocks with layouts may lie between those of the other side.
  if (laid_out) [[unlikely]]
    return {};
  IBCOLL_TRY(recv.check_buffer(recv_bytes));
  IBCOLL_TRY(send.check_buffer(send_bytes));
  if (overlap(a.send, send_bytes, a.recv, recv_bytes)) {
    return fail(ErrorCode::kInvalidArgument,
                "send and receive buffer overlap; for data in place pass IBCOLL_IN_PLACE");
  }
  return {};
}

}  // namespace ibcoll
