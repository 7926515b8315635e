#include "engine/core/share.h"

#include <algorithm>
#include <array>

namespace ibcoll {

Status share(Bootstrap& bootstrap, std::vector<int>& numbers) {
  constexpr size_t kSlice = 256;  // every rank sends that much, of which only rank 0's counts
  std::array<int, kSlice> slice{};
  std::vector<std::array<int, kSlice>> all(static_cast<size_t>(bootstrap.size()));
  for (size_t begin = 0; begin < numbers.size(); begin += kSlice) {
    const size_t count = std::min(kSlice, numbers.size() - begin);
    std::copy_n(numbers.begin() + static_cast<ptrdiff_t>(begin), count, slice.begin());
    IBCOLL_TRY(bootstrap.allgather(slice.data(), sizeof slice, all.data()));
    std::copy_n(all[0].begin(), count, numbers.begin() + static_cast<ptrdiff_t>(begin));
  }
  return {};
}

Status share(Bootstrap& bootstrap, std::string& text) {
  constexpr size_t kSlice = 4096;
  std::vector<int> bytes{static_cast<int>(text.size())};
  IBCOLL_TRY(share(bootstrap, bytes));
  text.resize(static_cast<size_t>(bytes[0]));
  std::array<char, kSlice> slice{};
  std::vector<std::array<char, kSlice>> all(static_cast<size_t>(bootstrap.size()));
  for (size_t begin = 0; begin < text.size(); begin += kSlice) {
    const size_t count = std::min(kSlice, text.size() - begin);
    std::copy_n(text.data() + begin, count, slice.data());
    IBCOLL_TRY(bootstrap.allgather(slice.data(), sizeof slice, all.data()));
    std::copy_n(all[0].data(), count, text.data() + begin);
  }
  return {};
}

Status share(Bootstrap& bootstrap, const Status& status) {
  struct Outcome {
    int32_t code = 0;
    char text[1020] = {};
  };
  Outcome mine;
  if (!status) {
    const std::string& text = status.error().message;
    mine.code = static_cast<int32_t>(status.error().code);
    std::copy_n(text.data(), std::min(text.size(), sizeof mine.text - 1), mine.text);
  }
  std::vector<Outcome> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  const auto first =
      std::find_if(all.begin(), all.end(), [](const Outcome& o) { return o.code != 0; });
  if (first == all.end()) return {};
  const auto code = static_cast<ErrorCode>(first->code);
  if (first == all.begin()) return fail(code, "{}", first->text);
  return fail(code, "rank {}: {}", first - all.begin(), first->text);
}

}  // namespace ibcoll
