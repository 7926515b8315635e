/// Checks of blocks that have layouts of the program's own; call_arguments.cc has all others.

#include <algorithm>

#include "engine/base/strided_copy.h"
#include "engine/core/call_arguments.h"

namespace ibcoll {
namespace {

constexpr __int128 kMaxBytes = __int128{1} << 62;

/// One side of a call.
class Side {
 public:
  Side(const Shape& shape, Rank me, const CallArguments& a, bool sends)
      : a_(a),
        me_(me),
        ranks_(shape.ranks()),
        sends_(sends),
        slots_(sends ? send_slots(a.collective, shape, me, a.root, a.options.graph.get())
                     : recv_slots(a.collective, shape, me, a.root, a.options.graph.get())),
        blocks_(sends ? a.send_blocks : a.recv_blocks) {}

  Status check() const {
    if (slots_ == 0) return {};
    const void* const buffer = sends_ ? a_.send : a_.recv;
    const size_t limit = sends_ ? a_.send_limit : a_.recv_limit;
    if (blocks_ == nullptr) {
      if (has_blocks(a_.collective)) {
        return fail(ErrorCode::kInvalidArgument, "{}: the {} blocks are null",
                    to_string(a_.collective), what());
      }
      IBCOLL_ASSIGN(const size_t used, used_bytes(a_, sends_, slots_, me_, ranks_));
      return check_buffer(what(), buffer, used, limit);
    }
    __int128 sum = 0;
    Order order;
    for (uint32_t slot = 0; slot < slots_; ++slot) {
      IBCOLL_TRY(check(slot, limit, order));
      const ibcoll_block& block = blocks_[slot];
      sum += ibcoll_block_bytes(block);
      if (sum > kMaxBytes) {
        return fail(ErrorCode::kInvalidArgument,
                    "the {} blocks add up to more than 2^62 bytes at block {}", what(), slot);
      }
    }
    if (!sends_ && !order.ascending && !order.side_by_side()) {
      IBCOLL_TRY(check_apart({blocks_, slots_}, has_graph(a_.collective) ? "neighbour" : "rank"));
    }
    return check_buffer(what(), buffer, static_cast<size_t>(sum), 0);
  }
  int64_t bytes_of(size_t slot) const {
    if (blocks_ != nullptr) return ibcoll_block_bytes(blocks_[slot]);
    if (!is_unequal(a_.collective)) return static_cast<int64_t>(a_.block_bytes);
    if (!lists_all(a_.collective, sends_)) return a_.own_count;
    return sends_ ? a_.send_counts[slot] : a_.recv_counts[slot];
  }
  /// Whether all neighbours get one block.
  bool has_one() const { return slots_ <= 1; }
  /// Of the block that this rank sends to itself.
  int64_t own_bytes() const {
    const bool all = slots_ == static_cast<uint32_t>(ranks_) &&
                     (!is_unequal(a_.collective) || lists_all(a_.collective, sends_));
    return bytes_of(all ? static_cast<size_t>(me_) : 0);
  }

 private:
  const char* what() const { return sends_ ? "send" : "receive"; }

  /// What the blocks show of themselves as they are gone through: whether each begins where those
  /// before have ended, or they are columns of one matrix from left to right.
  struct Order {
    bool ascending = true, columns = true;
    int64_t end = 0, first_column = 0, last_column_end = 0, row_bytes = 0;
    bool any = false;

    void add(const ibcoll_block& b, int64_t begin, int64_t block_end) {
      if (!any) {
        first_column = last_column_end = b.offset;
        row_bytes = b.stride;
        end = begin;
        any = true;
      }
      ascending &= begin >= end;
      end = std::max(end, block_end);
      columns &= b.outer_count == 1 && (b.stride == row_bytes || b.count == 1) &&
                 b.offset >= last_column_end;
      last_column_end = b.offset + b.bytes;
    }
    bool side_by_side() const { return columns && last_column_end - first_column <= row_bytes; }
  };

  Status check(uint32_t slot, size_t limit, Order& order) const {
    const ibcoll_block& b = blocks_[slot];
    if (b.bytes < 0 || b.count < 0 || b.outer_count < 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} block {} has {} times {} runs of {} bytes: none may be negative", what(),
                  slot, b.outer_count, b.count, b.bytes);
    }
    const __int128 runs = __int128{b.count} * b.outer_count;
    if (b.bytes != 0 && runs > kMaxBytes / b.bytes) {
      return fail(ErrorCode::kInvalidArgument, "{} block {} has more than 2^62 bytes", what(),
                  slot);
    }
    const int64_t bytes = ibcoll_block_bytes(b);
    if (!is_unequal(a_.collective) && bytes != static_cast<int64_t>(a_.block_bytes)) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} block {} has {} bytes where the blocks of this {} have {}", what(), slot,
                  bytes, to_string(a_.collective), a_.block_bytes);
    }
    return bytes == 0 ? Status{} : check_reach(slot, limit, order);
  }

  Status check_reach(uint32_t slot, size_t limit, Order& order) const {
    const ibcoll_block& b = blocks_[slot];
    const __int128 inner = __int128{b.count - 1} * b.stride;
    const __int128 outer = __int128{b.outer_count - 1} * b.outer_stride;
    const __int128 none = 0;
    const __int128 begin = b.offset + std::min(inner, none) + std::min(outer, none);
    const __int128 end = b.offset + std::max(inner, none) + std::max(outer, none) + b.bytes;
    if (begin < -kMaxBytes || end > kMaxBytes) {
      return fail(ErrorCode::kInvalidArgument, "{} block {} reaches further than 2^62 bytes",
                  what(), slot);
    }
    if (limit != 0 && (begin < 0 || end > static_cast<__int128>(limit))) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} block {} reaches from byte {} to {} of a buffer of {} bytes", what(), slot,
                  static_cast<int64_t>(begin), static_cast<int64_t>(end), limit);
    }
    order.add(b, static_cast<int64_t>(begin), static_cast<int64_t>(end));
    if (sends_ || !overlaps_itself({.run = static_cast<uint64_t>(b.bytes),
                                    .count = static_cast<uint64_t>(b.count),
                                    .stride = b.stride,
                                    .outer_count = static_cast<uint64_t>(b.outer_count),
                                    .outer_stride = b.outer_stride}))
      return {};
    return fail(ErrorCode::kInvalidArgument,
                "receive block {} has runs of {} bytes that overlap (strides {} and {})", slot,
                b.bytes, b.stride, b.outer_stride);
  }

  const CallArguments& a_;
  const Rank me_;
  const int ranks_;
  const bool sends_;
  const uint32_t slots_;
  const ibcoll_block* const blocks_;
};

}  // namespace

Status check_blocks(const Shape& shape, Rank me, const CallArguments& a) {
  if (reduces(a.collective)) {
    return fail(ErrorCode::kInvalidArgument,
                "{} takes no blocks: what is combined must be contiguous", to_string(a.collective));
  }
  const Side send(shape, me, a, true), recv(shape, me, a, false);
  const bool keeps = a.collective == Collective::kScatter || a.collective == Collective::kScatterv;
  if (!a.in_place || keeps) IBCOLL_TRY(send.check());
  if (!a.in_place || !keeps) IBCOLL_TRY(recv.check());
  // What a rank sends itself is copied here. Blocks of both sides may lie in one buffer, between
  // each other, so nothing is said of that.
  if (a.in_place || a.collective == Collective::kBcast || (has_root(a.collective) && me != a.root))
    return {};
  if (has_graph(a.collective)) {
    return check_own_edges(
        me, a, [&](size_t slot) { return send.bytes_of(send.has_one() ? 0 : slot); },
        [&](size_t slot) { return recv.bytes_of(slot); });
  }
  if (send.own_bytes() == recv.own_bytes()) return {};
  return fail(ErrorCode::kInvalidArgument,
              "{}: rank {} sends itself {} bytes where it receives {} from itself",
              to_string(a.collective), me, send.own_bytes(), recv.own_bytes());
}

}  // namespace ibcoll
