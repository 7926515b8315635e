/// Whether blocks that a rank receives overlap. Looked at closely only where they do not follow
/// each other in memory: mostly they do, which whoever goes through them sees by the way.

#include <algorithm>
#include <vector>

#include "engine/base/strided_copy.h"
#include "engine/core/call_arguments.h"
#include "engine/core/call_blocks.h"

namespace ibcoll {
namespace {

/// Of a block, from its first byte to its last.
struct BlockHull {
  int64_t begin, end;
  uint32_t slot;
};

/// The block_hulls of this thread's call, so that no call needs memory once there has been one like
/// it.
std::vector<BlockHull>& block_hulls() {
  static thread_local std::vector<BlockHull> t_hulls;
  t_hulls.clear();
  return t_hulls;
}

void sort(std::vector<BlockHull>& all) {
  std::sort(all.begin(), all.end(),
            [](const BlockHull& a, const BlockHull& b) { return a.begin < b.begin; });
}

/// The integers from `first` to `last`, if there is one.
struct Range {
  int64_t first, last;
};

int64_t floor_divided(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// The i of 0 <= i < count for which [place + i * stride, that + bytes) meets [begin, end).
Range meeting(int64_t place, int64_t stride, uint64_t count, int64_t bytes, int64_t begin,
              int64_t end) {
  const auto most = static_cast<int64_t>(count) - 1;
  if (most == 0) return place < end && begin < place + bytes ? Range{0, 0} : Range{0, -1};
  // place + i * stride > begin - bytes, and < end.
  return {std::max<int64_t>(0, floor_divided(begin - bytes - place, stride) + 1),
          std::min<int64_t>(most, floor_divided(end - 1 - place, stride))};
}

/// A block whose strides are not negative: runs of the same bytes in another order.
struct Rows {
  int64_t place, run, stride, outer_stride;
  uint64_t count, outer_count;

  explicit Rows(const StridedBlock& b)
      : place(b.reach().begin),
        run(static_cast<int64_t>(b.run)),
        stride(b.stride < 0 ? -b.stride : b.stride),
        outer_stride(b.outer_stride < 0 ? -b.outer_stride : b.outer_stride),
        count(b.count),
        outer_count(b.outer_count) {}
  int64_t row_bytes() const { return static_cast<int64_t>(count - 1) * stride + run; }
};

/// Looks for a byte that two blocks share, as long as that is cheap.
class Comparison {
 public:
  /// `looks`: how many there may be in all.
  explicit Comparison(size_t looks) : left_(looks) {}
  bool exhausted() const { return left_ == 0; }

  /// False also where there was no time to find out.
  bool overlap(const StridedBlock& first, const StridedBlock& second) {
    Rows a(first), b(second);
    if (a.outer_count > b.outer_count) std::swap(a, b);
    const int64_t a_bytes = a.row_bytes(), b_bytes = b.row_bytes();
    for (uint64_t i = 0; i < a.outer_count && look(); ++i) {
      const int64_t begin = a.place + static_cast<int64_t>(i) * a.outer_stride;
      const Range rows =
          meeting(b.place, b.outer_stride, b.outer_count, b_bytes, begin, begin + a_bytes);
      for (int64_t j = rows.first; j <= rows.last && look(); ++j) {
        if (rows_overlap(a, begin, b, b.place + j * b.outer_stride)) return true;
      }
    }
    return false;
  }

 private:
  bool look() { return left_ != 0 && left_-- != 0; }

  /// The same of one row of runs of each.
  bool rows_overlap(Rows a, int64_t a_place, Rows b, int64_t b_place) {
    if (a.count > b.count) {
      std::swap(a, b);
      std::swap(a_place, b_place);
    }
    if (a.count > 1 && a.stride == b.stride) {
      // All that counts is how many strides the two runs are apart.
      const int64_t back = static_cast<int64_t>(a.count) - 1;
      const Range apart =
          meeting(b_place - back * b.stride, b.stride, b.count + static_cast<uint64_t>(back), b.run,
                  a_place, a_place + a.run);
      return apart.first <= apart.last;
    }
    for (uint64_t i = 0; i < a.count && look(); ++i) {
      const int64_t begin = a_place + static_cast<int64_t>(i) * a.stride;
      const Range runs = meeting(b_place, b.stride, b.count, b.run, begin, begin + a.run);
      if (runs.first <= runs.last) return true;
    }
    return false;
  }

  size_t left_;
};

tl::unexpected<Error> overlapping(const BlockHull& a, const BlockHull& b, const char* who) {
  const auto& [low, high] =
      std::minmax(a, b, [](const BlockHull& x, const BlockHull& y) { return x.slot < y.slot; });
  return fail(ErrorCode::kInvalidArgument,
              "the receive blocks of {}s {} and {} overlap: they reach from byte {} to {} and from "
              "byte {} to {} of the buffer",
              who, low.slot, high.slot, low.begin, low.end, high.begin, high.end);
}

}  // namespace

Status check_apart(std::span<const int64_t> counts, const int64_t* displacements, const char* who) {
  std::vector<BlockHull>& all = block_hulls();
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    all.push_back({displacements[i], displacements[i] + counts[i], static_cast<uint32_t>(i)});
  }
  sort(all);
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].begin < all[i - 1].end) return overlapping(all[i - 1], all[i], who);
  }
  return {};
}

Status check_apart(std::span<const ibcoll_block> blocks, const char* who) {
  static thread_local std::vector<StridedBlock> t_blocks;
  std::vector<StridedBlock>& layouts = t_blocks;
  std::vector<BlockHull>& all = block_hulls();
  layouts.resize(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    layouts[i] = strided(blocks[i]);
    if (layouts[i].bytes == 0) continue;
    const StridedBlock::Reach reach = layouts[i].reach();
    // Sums of places stay in 63 bits. There is no memory there.
    constexpr int64_t kFar = int64_t{1} << 60;
    if (reach.begin < -kFar || reach.end > kFar) continue;
    all.push_back({reach.begin, reach.end, static_cast<uint32_t>(i)});
  }
  sort(all);
  // Those of a matrix whose columns or tiles they are have few neighbours that they interleave
  // with.
  constexpr size_t kLooks = 16;
  Comparison comparison(256 + kLooks * all.size());
  size_t first = 0;  // all before it end before the next one begins
  for (size_t i = 1; i < all.size() && !comparison.exhausted(); ++i) {
    while (first < i && all[first].end <= all[i].begin) ++first;
    for (size_t j = first; j < i; ++j) {
      if (all[j].end <= all[i].begin) continue;
      if (comparison.overlap(layouts[all[j].slot], layouts[all[i].slot]))
        return overlapping(all[j], all[i], who);
    }
  }
  return {};
}

}  // namespace ibcoll
