#include "engine/schedule/packed_records.h"

#include <algorithm>
#include <bit>

namespace ibcoll {
namespace {

/// A period that is looked for at most: the operations that a step has for each peer, of some
/// peers.
constexpr uint32_t kLongestPeriod = 64;
/// Of a page the first two periods are packed less well.
constexpr uint32_t kPeriodsOfPage = 8;

}  // namespace

PackedRecords::PackedRecords(uint32_t size, Record (*at)(const void* list, uint32_t place),
                             const void* list)
    : size_(size), period_(Code::period_of(size, 1, kLongestPeriod, [&](uint32_t place) {
        return at(list, place);
      })) {
  page_bits_ = static_cast<uint32_t>(
      std::countr_zero(std::bit_ceil(std::max(kLeastPage, kPeriodsOfPage * period_))));
  std::vector<Record> page(page_records());
  const auto in_page = [&](uint32_t i) -> const Record& { return page[i]; };
  for (uint32_t first = 0; first < size; first += page_records()) {
    pages_.push_back(static_cast<uint32_t>(code_.size()));
    Code::Writer writer(code_);
    for (uint32_t i = 0; i < std::min(page_records(), size - first); ++i) {
      page[i] = at(list, first + i);
      writer.add(page[i], Code::expected(i, period_, in_page));
    }
    writer.end();
  }
  code_.shrink_to_fit();
  pages_.shrink_to_fit();
}

uint32_t PackedRecords::read(uint32_t page, Record* records) const {
  const uint32_t count = std::min(page_records(), size_ - (page << page_bits_));
  const auto at = [&](uint32_t i) -> const Record& { return records[i]; };
  Code::Reader reader(code_.data(), pages_[page]);
  for (uint32_t i = 0; i < count; ++i)
    records[i] = reader.next(code_.data(), Code::expected(i, period_, at));
  return count;
}

}  // namespace ibcoll
