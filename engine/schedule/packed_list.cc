#include "engine/schedule/packed_list.h"

#include <array>

#include "engine/schedule/packed_records.h"
#include "engine/schedule/program.h"

namespace ibcoll {
namespace {

using PackedRecord = PackedRecords::Record;

template <class Value>
constexpr uint32_t byte(Value value, int at) {
  return static_cast<uint32_t>(value) << 8 * at;
}
template <class Value>
Value of_byte(uint32_t number, int at) {
  return static_cast<Value>(number >> 8 * at & 0xff);
}

/// Numbers that change most often come first (EvenRecords).
PackedRecord record_of(const Op& op) {
  return {static_cast<uint32_t>(op.peer),
          op.after[0],
          op.after[1],
          op.after[2],
          op.step,
          op.src_first,
          op.dst_first,
          op.count,
          byte(op.kind, 0) | byte(op.lane, 1) | byte(op.src_buffer, 2) | byte(op.dst_buffer, 3),
          byte(op.to_server | op.ordered << 1 | op.before << 2 | op.combines << 3, 0) |
              byte(op.relaxed, 1) | byte(op.exposure, 2),
          op.threshold};
}
void set(Op& op, const PackedRecord& record) {
  const uint32_t kinds = record[8], flags = record[9];
  op.peer = static_cast<int32_t>(record[0]);
  op.after = {record[1], record[2], record[3]};
  op.step = record[4];
  op.src_first = record[5];
  op.dst_first = record[6];
  op.count = record[7];
  op.kind = of_byte<OpKind>(kinds, 0);
  op.lane = of_byte<Lane>(kinds, 1);
  op.src_buffer = of_byte<Buffer>(kinds, 2);
  op.dst_buffer = of_byte<Buffer>(kinds, 3);
  op.to_server = (flags & 1) != 0;
  op.ordered = (flags & 2) != 0;
  op.before = (flags & 4) != 0;
  op.combines = (flags & 8) != 0;
  op.relaxed = of_byte<Op::Relaxed>(flags, 1);
  op.exposure = of_byte<uint8_t>(flags, 2);
  op.threshold = record[10];
}

PackedRecord record_of(const Stream& stream) {
  return {stream.first, stream.count, stream.strands, byte(stream.lane, 0) | byte(stream.once, 1)};
}
void set(Stream& stream, const PackedRecord& record) {
  stream.first = record[0];
  stream.count = record[1];
  stream.strands = record[2];
  stream.lane = of_byte<Lane>(record[3], 0);
  stream.once = of_byte<bool>(record[3], 1);
}

PackedRecord record_of(const Block& block) {
  return {static_cast<uint32_t>(block.origin), static_cast<uint32_t>(block.target)};
}
void set(Block& block, const PackedRecord& record) {
  block.origin = static_cast<Rank>(record[0]);
  block.target = static_cast<Rank>(record[1]);
}

}  // namespace

template <class T>
PackedList<T>::PackedList() = default;
template <class T>
PackedList<T>::PackedList(const PackedList& other) = default;
template <class T>
PackedList<T>::PackedList(PackedList&& other) noexcept = default;
template <class T>
PackedList<T>& PackedList<T>::operator=(const PackedList& other) = default;
template <class T>
PackedList<T>& PackedList<T>::operator=(PackedList&& other) noexcept = default;
template <class T>
PackedList<T>::~PackedList() = default;

template <class T>
size_t PackedList<T>::packed_size() const {
  return packed_->size();
}

template <class T>
T PackedList<T>::operator[](size_t place) const {
  return is_packed() ? T(PackedReader<T>(*this)[place]) : plain_[place];
}

template <class T>
size_t PackedList<T>::memory_bytes() const {
  return plain_.capacity() * sizeof(T) + (is_packed() ? packed_->memory_bytes() : 0);
}

template <class T>
PackedList<T> PackedList<T>::packed() const {
  PackedList list;
  if (empty()) return list;
  assert(!is_packed());
  list.packed_ = std::make_shared<const PackedRecords>(
      static_cast<uint32_t>(plain_.size()),
      [](const void* values, uint32_t place) {
        return record_of(static_cast<const T*>(values)[place]);
      },
      plain_.data());
  return list;
}

template <class T>
PackedList<T>::Iterator::Iterator(const PackedList& list) : list_(&list) {
  if (list.empty()) return;
  if (list.is_packed()) {
    reader_.open(list);
    next();
    return;
  }
  at_ = list.plain_.data();
  read_ = list.plain_.size();
  end_ = at_ + read_;
}

template <class T>
void PackedList<T>::Iterator::next() {
  if (read_ == list_->size()) return;
  const size_t count = std::min<size_t>(list_->packed_->page_records(), list_->size() - read_);
  at_ = &reader_[read_];
  end_ = at_ + count;
  read_ += count;
}

template <class T>
struct PackedReader<T>::Pages {
  static constexpr uint32_t kNone = ~uint32_t{0};
  std::array<uint32_t, 2> numbers{kNone, kNone};
  std::array<std::vector<T>, 2> values;
  std::vector<PackedRecord> records;  // of the page that is read
};

template <class T>
PackedReader<T>::PackedReader() = default;
template <class T>
PackedReader<T>::PackedReader(const PackedList<T>& list) {
  open(list);
}
template <class T>
PackedReader<T>::PackedReader(PackedReader&& other) noexcept = default;
template <class T>
PackedReader<T>& PackedReader<T>::operator=(PackedReader&& other) noexcept = default;
template <class T>
PackedReader<T>::~PackedReader() = default;

template <class T>
size_t PackedReader<T>::bytes_for(const PackedList<T>& list) {
  if (!list.is_packed()) return 0;
  return sizeof(Pages) + list.packed_->page_records() * (2 * sizeof(T) + sizeof(PackedRecord));
}

template <class T>
void PackedReader<T>::open_packed(const PackedRecords& packed) {
  plain_ = nullptr;
  packed_ = &packed;
  if (pages_ == nullptr) pages_ = std::make_unique<Pages>();
  pages_->numbers.fill(Pages::kNone);
  const size_t most = packed.page_records();
  if (pages_->records.size() >= most) return;
  for (std::vector<T>& values : pages_->values) values.resize(most);
  pages_->records.resize(most);
}

template <class T>
const T& PackedReader<T>::in_page(uint32_t place) const {
  assert(packed_ != nullptr && place < packed_->size());
  const uint32_t number = packed_->page_of(place);
  std::vector<T>& values = pages_->values[number & 1];
  if (uint32_t& known = pages_->numbers[number & 1]; known != number) {
    const uint32_t count = packed_->read(number, pages_->records.data());
    for (uint32_t i = 0; i < count; ++i) set(values[i], pages_->records[i]);
    known = number;
  }
  return values[place & (packed_->page_records() - 1)];
}

static_assert(PackedReader<Op>::kNear <= PackedRecords::kLeastPage);

template class PackedList<Op>;
template class PackedList<Stream>;
template class PackedList<Block>;
template class PackedReader<Op>;
template class PackedReader<Stream>;
template class PackedReader<Block>;

}  // namespace ibcoll
