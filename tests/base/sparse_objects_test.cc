// Objects by number, few of many.

#include <gtest/gtest.h>

#include "engine/base/sparse_objects.h"

namespace ibcoll {
namespace {

TEST(SparseObjects, FindWhatWasPutThereAndNothingElse) {
  SparseObjects<int> objects;
  objects.resize(1000);
  for (const size_t number : {0, 63, 64, 999}) objects.put(number, std::make_unique<int>(number));
  for (size_t number = 0; number < 1000; ++number) {
    const int* const found = objects.find(number);
    const bool there = number == 0 || number == 63 || number == 64 || number == 999;
    ASSERT_EQ(found != nullptr, there) << number;
    if (there) {
      EXPECT_EQ(*found, static_cast<int>(number));
    }
  }
  int* const before = objects.find(63);
  objects.put(1, std::make_unique<int>(5));
  EXPECT_EQ(objects.find(63), before);
  EXPECT_EQ(objects.put(63, std::make_unique<int>(7)), 7);
  EXPECT_EQ(*objects.find(63), 7);
}

}  // namespace
}  // namespace ibcoll
