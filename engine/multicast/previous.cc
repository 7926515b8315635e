#include <algorithm>
#include <limits>

#include "engine/multicast/numbers.h"
#include "engine/multicast/window.h"

namespace ibcoll {
namespace {

/// In front of a number of two halves, which one that is too long for append_number() takes.
constexpr uint32_t kLong = std::numeric_limits<uint32_t>::max();

/// How far the previous counter lies back; 0: there is none.
void append_back(std::vector<std::byte>& out, uint64_t back) {
  if (back < kLong) return append_number(out, static_cast<uint32_t>(back));
  append_number(out, kLong);
  append_number(out, static_cast<uint32_t>(back >> 32));
  append_number(out, static_cast<uint32_t>(back));
}

Result<uint64_t> take_back(std::span<const std::byte>& in) {
  constexpr const char* kWhat = "the distance to a previous multicast";
  IBCOLL_ASSIGN(const uint32_t number, take_number(in, kLong, kWhat));
  if (number != kLong) return number;
  IBCOLL_ASSIGN(const uint32_t high, take_number(in, kLong, kWhat));
  IBCOLL_ASSIGN(const uint32_t low, take_number(in, kLong, kWhat));
  const uint64_t back = uint64_t{high} << 32 | low;
  if (back < kLong) return fail(ErrorCode::kMismatch, "{}, {}, in two halves", kWhat, back);
  return back;
}

}  // namespace

// The number of runs; of each the distance, and the length, but for the last, which takes the rest.
void encode_previous(std::span<const uint64_t> previous, uint64_t counter,
                     std::vector<std::byte>& out) {
  uint32_t runs = 0;
  bool is_any = false;
  for (size_t id = 0; id < previous.size(); ++id) {
    if (id == 0 || previous[id] != previous[id - 1]) ++runs;
    is_any |= previous[id] != 0;
  }
  append_number(out, is_any ? runs : 0);
  for (size_t id = 0; is_any && id < previous.size();) {
    const size_t begin = id;
    while (++id < previous.size() && previous[id] == previous[begin]) {
    }
    append_back(out, previous[begin] == 0 ? 0 : counter - previous[begin]);
    if (id < previous.size()) append_number(out, static_cast<uint32_t>(id - begin));
  }
}

Result<std::vector<uint64_t>> decode_previous(std::span<const std::byte>& in, uint64_t counter,
                                              size_t members) {
  const auto limit = static_cast<uint32_t>(std::min<size_t>(members, kLong));
  IBCOLL_ASSIGN(const uint32_t runs, take_number(in, limit, "the number of runs of members"));
  std::vector<uint64_t> previous;
  bool is_any = false;
  for (uint32_t run = 0; run < runs; ++run) {
    IBCOLL_ASSIGN(const uint64_t back, take_back(in));
    if (back >= counter && back != 0) {
      return fail(ErrorCode::kMismatch, "multicast {} names one that lies {} before it", counter,
                  back);
    }
    const uint64_t before = back == 0 ? 0 : counter - back;
    size_t length = members - previous.size();
    if (run + 1 < runs) {
      // Each of the runs behind it has a member at least.
      const size_t most = length - std::min<size_t>(length, runs - run - 1);
      IBCOLL_ASSIGN(length, take_number(in, static_cast<uint32_t>(most), "a run of members"));
    }
    if (length == 0) return fail(ErrorCode::kMismatch, "a run of no members");
    if (run > 0 && previous.back() == before) {
      return fail(ErrorCode::kMismatch, "two runs of members behind the same multicast, {}",
                  before);
    }
    previous.insert(previous.end(), length, before);
    is_any |= before != 0;
  }
  if (runs > 0 && !is_any) return fail(ErrorCode::kMismatch, "runs of members behind no multicast");
  return previous;
}

}  // namespace ibcoll
