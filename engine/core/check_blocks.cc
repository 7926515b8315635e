// Checks of blocks that have layouts of the program's own; call_arguments.cc has all others.

#include <algorithm>

#include "engine/base/strided_copy.h"
#include "engine/core/call_arguments.h"

namespace ibcoll {
namespace {

constexpr __int128 kMaxSpan = __int128{1} << 62;

/// The blocks of one side of a call.
class Layouts {
 public:
  Layouts(const CallArguments& a, bool sends, std::span<const ibcoll_block> blocks)
      : a_(a), row_(traits(a.collective)), sends_(sends), blocks_(blocks) {}

  Result<size_t> check() const {
    __int128 sum = 0;
    Order order;
    for (size_t slot = 0; slot < blocks_.size(); ++slot) {
      IBCOLL_TRY(check(slot, order));
      sum += ibcoll_block_bytes(blocks_[slot]);
      if (sum > kMaxSpan) {
        return fail(ErrorCode::kInvalidArgument,
                    "the {} blocks add up to more than 2^62 bytes at block {}", what(), slot);
      }
    }
    if (!sends_ && !order.ascending && !order.side_by_side())
      IBCOLL_TRY(check_apart(blocks_, row_.has_graph ? "neighbour" : "rank"));
    return static_cast<size_t>(sum);
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

  Status check(size_t slot, Order& order) const {
    const ibcoll_block& b = blocks_[slot];
    if (b.bytes < 0 || b.count < 0 || b.outer_count < 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} block {} has {} times {} runs of {} bytes: none may be negative", what(),
                  slot, b.outer_count, b.count, b.bytes);
    }
    const __int128 runs = __int128{b.count} * b.outer_count;
    if (b.bytes != 0 && runs > kMaxSpan / b.bytes) {
      return fail(ErrorCode::kInvalidArgument, "{} block {} has more than 2^62 bytes", what(),
                  slot);
    }
    const int64_t bytes = ibcoll_block_bytes(b);
    if (!row_.unequal && bytes != static_cast<int64_t>(a_.block_bytes)) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} block {} has {} bytes where the blocks of this {} have {}", what(), slot,
                  bytes, row_.name, a_.block_bytes);
    }
    return bytes == 0 ? Status{} : check_reach(slot, order);
  }

  Status check_reach(size_t slot, Order& order) const {
    const size_t limit = sends_ ? a_.send_limit : a_.recv_limit;
    const ibcoll_block& b = blocks_[slot];
    const __int128 inner = __int128{b.count - 1} * b.stride;
    const __int128 outer = __int128{b.outer_count - 1} * b.outer_stride;
    const __int128 none = 0;
    const __int128 begin = b.offset + std::min(inner, none) + std::min(outer, none);
    const __int128 end = b.offset + std::max(inner, none) + std::max(outer, none) + b.bytes;
    if (begin < -kMaxSpan || end > kMaxSpan) {
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
  const CollectiveTraits& row_;
  const bool sends_;
  const std::span<const ibcoll_block> blocks_;
};

}  // namespace

Result<size_t> used_by_layouts(const CallArguments& a, bool sends,
                               std::span<const ibcoll_block> blocks) {
  return Layouts(a, sends, blocks).check();
}

}  // namespace ibcoll
