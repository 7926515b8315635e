#pragma once
/// What is behind a packed list: its entries told in numbers, and those in pages of code.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/schedule/even_records.h"

namespace ibcoll {

class PackedRecords {
 public:
  /// As many numbers as an operation has; what has fewer leaves the others 0, which costs nothing.
  using Code = EvenRecords<11>;
  using Record = Code::Record;
  /// A page has as many records at least.
  static constexpr uint32_t kLeastPage = 64;

  /// Of `size` records, of which `at(list, i)` gives number i.
  PackedRecords(uint32_t size, Record (*at)(const void* list, uint32_t place), const void* list);

  uint32_t size() const { return size_; }
  uint32_t page_records() const { return uint32_t{1} << page_bits_; }
  uint32_t page_of(uint32_t place) const { return place >> page_bits_; }
  size_t memory_bytes() const {
    return sizeof *this + pages_.capacity() * sizeof(uint32_t) + code_.capacity();
  }
  /// Reads a page, and gives how many records it has.
  uint32_t read(uint32_t page, Record* records) const;

 private:
  uint32_t size_, period_;
  uint32_t page_bits_ = 0;       ///< a page has 2^page_bits_ records, the last one what is left
  std::vector<uint32_t> pages_;  ///< where their code begins
  std::vector<uint8_t> code_;
};

}  // namespace ibcoll
