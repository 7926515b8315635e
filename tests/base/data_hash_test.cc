// Hashes by which data and reductions are checked.

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "engine/base/data_hash.h"
#include "engine/execute/linear_hash.h"
#include "engine/execute/same_elements.h"

namespace ibcoll {
namespace {

using Bytes = std::vector<std::byte>;

Bytes some_bytes(std::mt19937_64& random, size_t bytes) {
  Bytes data(bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

TEST(DataHash, IsTheSameHoweverBytesLie) {
  std::mt19937_64 random(1);
  for (const uint64_t run : {1, 3, 8, 100, 1023, 1024, 5000}) {
    for (const uint64_t count : {1, 2, 7, 64}) {
      const Bytes packed = some_bytes(random, run * count);
      for (const int64_t gap : {0, 1, 64}) {
        const auto stride = static_cast<int64_t>(run) + gap;
        Bytes spread(static_cast<size_t>(stride) * count + 5);
        for (uint64_t i = 0; i < count; ++i)
          std::memcpy(spread.data() + 5 + static_cast<int64_t>(i) * stride, packed.data() + i * run,
                      run);
        const StridedBlock block = canonical(
            {.offset = 5, .bytes = run * count, .run = run, .count = count, .stride = stride});
        EXPECT_EQ(hash_data({spread.data(), &block, 1}, run * count),
                  hash_data({const_cast<std::byte*>(packed.data())}, run * count))
            << count << " runs of " << run << ", gap " << gap;
      }
    }
  }
}

TEST(DataHash, ChangesWithEveryBit) {
  std::mt19937_64 random(2);
  for (const size_t bytes : {1, 7, 16, 100, 240, 241, 5000}) {
    Bytes data = some_bytes(random, bytes);
    const uint64_t hash = hash_data({data.data()}, bytes);
    for (int flip = 0; flip < 300; ++flip) {
      const size_t bit = random() % (8 * bytes);
      data[bit / 8] ^= std::byte{1} << bit % 8;
      EXPECT_NE(hash_data({data.data()}, bytes), hash) << bytes << " bytes, bit " << bit;
      data[bit / 8] ^= std::byte{1} << bit % 8;
    }
  }
}

struct Kind {
  ElementType type;
  Operator op;
};
const Kind kKinds[] = {
    {ElementType::kInt8, Operator::kSum},     {ElementType::kUint16, Operator::kSum},
    {ElementType::kInt32, Operator::kSum},    {ElementType::kUint64, Operator::kSum},
    {ElementType::kInt64, Operator::kBitXor}, {ElementType::kByte, Operator::kBitXor}};
constexpr size_t kSizes[] = {0, 8, 64, 72, 104, 1000, 4096, 4104, 8192, 100'000};

using Hash = std::array<std::byte, kLinearHashBytes>;
Hash hash_of(const Reduction& reduction, const Bytes& data) {
  Hash hash;
  linear_hash(reduction, data.data(), data.size(), hash.data());
  return hash;
}

TEST(LinearHash, OfACombinationIsTheCombinationOfHashes) {
  std::mt19937_64 random(3);
  for (const Kind& kind : kKinds) {
    const Reduction reduction = find_reduction(kind.type, kind.op).value();
    ASSERT_TRUE(has_linear_hash(reduction));
    for (const size_t bytes : kSizes) {
      Bytes sum(bytes);
      Hash sum_of_hashes{};
      for (int rank = 0; rank < 5; ++rank) {
        const Bytes data = some_bytes(random, bytes);
        const Hash hash = hash_of(reduction, data);
        reduction.combine(sum.data(), data.data(), bytes, nullptr);
        reduction.combine(sum_of_hashes.data(), hash.data(), hash.size(), nullptr);
      }
      EXPECT_EQ(hash_of(reduction, sum), sum_of_hashes)
          << to_string(kind.type) << " " << to_string(kind.op) << ", " << bytes << " bytes";
    }
  }
}

TEST(LinearHash, ChangesWithEveryBitAndWithEveryPieceThatIsInAnothersPlace) {
  std::mt19937_64 random(4);
  for (const Kind& kind : kKinds) {
    const Reduction reduction = find_reduction(kind.type, kind.op).value();
    for (const size_t bytes : kSizes) {
      if (bytes == 0) continue;
      Bytes data = some_bytes(random, bytes);
      const Hash hash = hash_of(reduction, data);
      for (int flip = 0; flip < 200; ++flip) {
        const size_t bit = random() % (8 * bytes);
        data[bit / 8] ^= std::byte{1} << bit % 8;
        EXPECT_NE(hash_of(reduction, data), hash) << bytes << " bytes, bit " << bit;
        data[bit / 8] ^= std::byte{1} << bit % 8;
      }
      for (const size_t piece : {size_t{64}, size_t{4096}, size_t{16384}}) {
        const size_t pieces = bytes / piece;
        if (pieces < 2) continue;
        // The last one with the first one, and with its neighbour.
        for (const size_t other : {size_t{0}, pieces - 2}) {
          Bytes swapped = data;
          const auto place = [&](size_t number) {
            return swapped.begin() + static_cast<ptrdiff_t>(number * piece);
          };
          std::swap_ranges(place(other), place(other + 1), place(pieces - 1));
          EXPECT_NE(hash_of(reduction, swapped), hash)
              << bytes << " bytes, pieces " << other << " and the last of " << piece;
        }
      }
    }
  }
}

TEST(LinearHash, IsThereForNothingElse) {
  for (const Kind& kind :
       {Kind{ElementType::kInt32, Operator::kMin}, Kind{ElementType::kInt32, Operator::kProduct},
        Kind{ElementType::kDouble, Operator::kSum}, Kind{ElementType::kBool, Operator::kXor}})
    EXPECT_FALSE(has_linear_hash(find_reduction(kind.type, kind.op).value()));
  EXPECT_FALSE(has_linear_hash(Reduction{}));
}

/// Arrays of so many elements, of which each in turn is a NaN, are the same whatever the NaN.
template <class T, class Word>
void expect_any_nan(ElementType type, Word one_nan, Word other_nan) {
  const Reduction sum = find_reduction(type, Operator::kSum).value();
  for (size_t count = 1; count <= 20; ++count) {
    for (size_t at = 0; at < count; ++at) {
      std::vector<Word> one(count, Word{1}), other(count, Word{1});
      one[at] = one_nan;
      other[at] = other_nan;
      const auto* const a = reinterpret_cast<const std::byte*>(one.data());
      const auto* const b = reinterpret_cast<const std::byte*>(other.data());
      EXPECT_EQ(hash_elements(sum, a, count * sizeof(T)), hash_elements(sum, b, count * sizeof(T)))
          << to_string(type) << " " << at << " of " << count;
      EXPECT_EQ(first_difference(sum, a, b, count * sizeof(T)), std::nullopt)
          << to_string(type) << " " << at << " of " << count;
    }
  }
}

TEST(SameElements, ANaNIsANaNWhereverItStands) {
  expect_any_nan<double, uint64_t>(ElementType::kDouble, 0x7ff0'0000'0000'0001,
                                   0xfff8'0000'0000'0000);
  expect_any_nan<float, uint32_t>(ElementType::kFloat, 0x7f80'0001, 0xffc0'0000);
  expect_any_nan<uint16_t, uint16_t>(ElementType::kFloat16, 0x7c01, 0xfe00);
  expect_any_nan<uint16_t, uint16_t>(ElementType::kBfloat16, 0x7f81, 0xffc0);
}

TEST(SameElements, LeaveOutWhatReductionsDoNotPromise) {
  const Reduction doubles = find_reduction(ElementType::kDouble, Operator::kSum).value();
  const double one[] = {1, std::numeric_limits<double>::quiet_NaN(), 3};
  double other[] = {1, -std::numeric_limits<double>::signaling_NaN(), 3};
  const auto bytes = [](const auto& array) { return reinterpret_cast<const std::byte*>(&array); };
  EXPECT_EQ(hash_elements(doubles, bytes(one), sizeof one),
            hash_elements(doubles, bytes(other), sizeof other));
  EXPECT_EQ(first_difference(doubles, bytes(one), bytes(other), sizeof one), std::nullopt);
  other[2] = 4;
  EXPECT_NE(hash_elements(doubles, bytes(one), sizeof one),
            hash_elements(doubles, bytes(other), sizeof other));
  EXPECT_EQ(first_difference(doubles, bytes(one), bytes(other), sizeof one), 16u);

  struct Pair {
    double value;
    int index, between;
  };
  const Reduction pairs = find_reduction(ElementType::kDoubleInt, Operator::kMaxLoc).value();
  const Pair x[] = {{1, 2, 3}, {4, 5, 6}};
  Pair y[] = {{1, 2, 7}, {4, 5, 8}};
  EXPECT_EQ(hash_elements(pairs, bytes(x), sizeof x), hash_elements(pairs, bytes(y), sizeof y));
  EXPECT_EQ(first_difference(pairs, bytes(x), bytes(y), sizeof x), std::nullopt);
  y[1].index = 9;
  EXPECT_NE(hash_elements(pairs, bytes(x), sizeof x), hash_elements(pairs, bytes(y), sizeof y));
  EXPECT_EQ(first_difference(pairs, bytes(x), bytes(y), sizeof x), 16u);

  const Reduction halves = find_reduction(ElementType::kBfloat16, Operator::kSum).value();
  const uint16_t a[] = {0x7f81, 0xffff, 0x7f80}, b[] = {0x7fc0, 0x7fc0, 0x7f80};
  EXPECT_EQ(first_difference(halves, bytes(a), bytes(b), sizeof a), std::nullopt);
}

}  // namespace
}  // namespace ibcoll
