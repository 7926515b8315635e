#pragma once
/// Long lists of records that go on evenly, in little memory. Of each record only that is kept in
/// which it differs from what the records before it let expect.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ibcoll {

/// How records of `kNumbers` numbers of 32 bits are packed. A list has a *period*: each number of a
/// record is expected to have grown since the record one period before as it grew in the period
/// before that; those whose bits `kSteady` has, to be as one period before. The first two periods
/// are expected to be all alike. Where one of the first seven numbers differs, a byte less is taken
/// than where another one does.
template <int kNumbers, uint32_t kSteady = 0>
struct EvenRecords {
  using Record = std::array<uint32_t, kNumbers>;

  /// What record `i` of a list is expected to be; `at(j)` gives those from 2 * period before it on.
  template <class At>
  static Record expected(uint32_t i, uint32_t period, const At& at) {
    if (i < 2 * period) return i == 0 ? Record{} : Record(at(i - 1));
    Record record = at(i - period);
    const Record& before = at(i - 2 * period);
    for (int n = 0; n < kNumbers; ++n) {
      if ((kSteady >> n & 1) == 0) record[n] += record[n] - before[n];
    }
    return record;
  }

  /// The period of a list of `size` records, up to `longest`, which those in its middle decide.
  /// `likely` is tried first, and kept if hardly anything differs.
  template <class At>
  static uint32_t period_of(uint32_t size, uint32_t likely, uint32_t longest, const At& at) {
    constexpr uint32_t kSample = 256;
    const uint32_t begin = size / 2 - std::min(size / 2, kSample / 2);
    const uint32_t end = std::min(size, begin + kSample);
    const auto misses = [&](uint32_t period) {
      uint32_t sum = 0;
      for (uint32_t i = begin; i < end; ++i)
        sum += static_cast<uint32_t>(Record(at(i)) != expected(i, period, at));
      return sum;
    };
    uint32_t best = likely, fewest = misses(likely);
    for (uint32_t period = 1; period <= longest && fewest > (end - begin) / 16; ++period) {
      const uint32_t here = misses(period);
      if (here >= fewest) continue;
      fewest = here;
      best = period;
    }
    return best;
  }

  /// Appends the code of a list to `code`, which must outlive it.
  class Writer {
   public:
    explicit Writer(std::vector<uint8_t>& code) : code_(code) {}

    void add(const Record& record, const Record& expected) {
      if (record == expected) {
        ++as_expected_;
        return;
      }
      end();
      Record differences;
      uint32_t mask = 0;  // which are not 0
      for (int n = 0; n < kNumbers; ++n) {
        differences[n] = fold(record[n] - expected[n]);
        mask |= differences[n] != 0 ? 1u << n : 0;
      }
      put(mask);
      for (const uint32_t difference : differences) {
        if (difference != 0) put(difference);
      }
    }
    /// To be called after the last record.
    void end() { put(std::exchange(as_expected_, 0)); }

   private:
    /// Small numbers for small differences of either sign.
    static uint32_t fold(uint32_t difference) {
      return difference << 1 ^ (difference >> 31 != 0 ? ~uint32_t{0} : 0);
    }
    void put(uint32_t number) {
      for (; number >= 128; number >>= 7) code_.push_back(static_cast<uint8_t>(number | 128));
      code_.push_back(static_cast<uint8_t>(number));
    }

    std::vector<uint8_t>& code_;
    uint32_t as_expected_ = 0;
  };

  /// Reads a list from its code, which is handed to it each time: that may move.
  class Reader {
   public:
    /// Before the first record of the list whose code begins there.
    explicit Reader(const uint8_t* code, size_t begin = 0) : at_(begin) {
      as_expected_ = number(code);
    }
    /// The next record, of which `record` is what is expected.
    Record next(const uint8_t* code, Record record) {
      if (as_expected_ > 0) {
        --as_expected_;
        return record;
      }
      const uint32_t mask = number(code);
      for (int n = 0; n < kNumbers; ++n) {
        if ((mask & 1u << n) != 0) record[n] += unfold(number(code));
      }
      as_expected_ = number(code);
      return record;
    }

   private:
    static uint32_t unfold(uint32_t number) {
      return number >> 1 ^ ((number & 1) != 0 ? ~uint32_t{0} : 0);
    }
    uint32_t number(const uint8_t* code) {
      uint32_t number = 0;
      for (int shift = 0;; shift += 7) {
        const uint8_t byte = code[at_++];
        number |= static_cast<uint32_t>(byte & 127) << shift;
        if (byte < 128) return number;
      }
    }

    size_t at_ = 0;
    uint32_t as_expected_ = 0;  ///< records that are as expected before the next that is not
  };
};

}  // namespace ibcoll
