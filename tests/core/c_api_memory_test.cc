// The C interface: what memory may be registered, freed and asked about, and what is left of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <ibcoll/ibcoll.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/expect_invalid.h"

namespace ibcoll {
namespace {

using testing::expect_invalid;
using ::testing::HasSubstr;

/// A job of this process alone.
class CApiMemory : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(ibcoll_init(&context_), IBCOLL_OK) << ibcoll_last_error(); }
  void TearDown() override {
    if (ibcoll_rank(context_) == -1) return;
    EXPECT_EQ(ibcoll_finalize(context_), IBCOLL_OK) << ibcoll_last_error();
  }
  ibcoll_context* context_ = nullptr;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(100);
};

TEST_F(CApiMemory, WhatCantBeMemoryIsRefused) {
  ibcoll_memory* memory = nullptr;
  expect_invalid(ibcoll_memory_register(nullptr, bytes_.data(), 8, &memory), "context is null");
  expect_invalid(ibcoll_memory_register(context_, bytes_.data(), 8, nullptr), "null");
  expect_invalid(ibcoll_memory_register(context_, nullptr, 8, &memory),
                 "the address of 8 bytes is null");
  expect_invalid(ibcoll_memory_register(context_, bytes_.data(), SIZE_MAX, &memory),
                 "do not fit the address space");
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(ibcoll_memory_deregister(nullptr), IBCOLL_OK);
  EXPECT_EQ(ibcoll_memory_register(context_, nullptr, 0, &memory), IBCOLL_OK);
  EXPECT_EQ(ibcoll_memory_deregister(memory), IBCOLL_OK);
  expect_invalid(ibcoll_memory_deregister(memory), "this registered memory is none any more");
}

TEST_F(CApiMemory, IsNotFreedBeforeItIsDeregistered) {
  void* whole = nullptr;
  ibcoll_memory* memory = nullptr;
  ASSERT_EQ(ibcoll_alloc(context_, 10000, &whole), IBCOLL_OK);
  ASSERT_EQ(ibcoll_memory_register(context_, static_cast<std::byte*>(whole) + 9000, 8, &memory),
            IBCOLL_OK);
  expect_invalid(ibcoll_free(context_, whole), "deregister it before it is freed");
  expect_invalid(ibcoll_free(context_, static_cast<std::byte*>(whole) + 9004), "not allocated");
  EXPECT_EQ(ibcoll_memory_deregister(memory), IBCOLL_OK);
  EXPECT_EQ(ibcoll_free(context_, whole), IBCOLL_OK);
}

TEST_F(CApiMemory, ThatIsLeftAtTheEndIsCounted) {
  std::array<ibcoll_memory*, 3> memories{};
  ASSERT_EQ(ibcoll_memory_register(context_, bytes_.data(), 100, memories.data()), IBCOLL_OK);
  expect_invalid(ibcoll_finalize(context_), "but 1 registered buffer had not been freed");
  expect_invalid(ibcoll_memory_deregister(memories[0]), "this registered memory is none any more");
  ASSERT_EQ(ibcoll_init(&context_), IBCOLL_OK) << ibcoll_last_error();
  for (ibcoll_memory*& memory : memories)
    ASSERT_EQ(ibcoll_memory_register(context_, bytes_.data(), 100, &memory), IBCOLL_OK);
  const int rank = 0;
  ibcoll_group* group = nullptr;
  ASSERT_EQ(ibcoll_group_create(context_, &rank, 1, &group), IBCOLL_OK);
  const ibcoll_call barrier = ibcoll_call_barrier(nullptr);
  ibcoll_request* request = nullptr;
  ASSERT_EQ(ibcoll_call_init(group, &barrier, &request), IBCOLL_OK);
  expect_invalid(ibcoll_finalize(context_),
                 "1 group, 3 registered buffers and 1 request: 1 barrier");
}

TEST_F(CApiMemory, IsSharedIfItWasAllocatedHere) {
  void* whole = nullptr;
  ASSERT_EQ(ibcoll_alloc(context_, 10000, &whole), IBCOLL_OK);
  auto* const memory = static_cast<std::byte*>(whole);
  const ibcoll::context context(context_);
  EXPECT_TRUE(context.is_shared(std::span(memory, 10000)));
  EXPECT_TRUE(context.is_shared(std::span(memory + 9999, 1)));
  EXPECT_FALSE(context.is_shared(std::span(bytes_)));
  EXPECT_FALSE(context.is_shared(std::span<const int>()));
  const ibcoll::registered_memory registered = context.register_memory(std::span(bytes_));
  EXPECT_FALSE(context.is_shared(std::span(bytes_))) << "the network only knows it";
  EXPECT_FALSE(context.is_shared(std::span(memory, size_t{1} << 46))) << "past the end of all";
  int shared = -1;
  expect_invalid(ibcoll_memory_is_shared(nullptr, memory, 1, &shared), "context is null");
  expect_invalid(ibcoll_memory_is_shared(context_, memory, 1, nullptr), "null");
  expect_invalid(ibcoll_memory_is_shared(context_, memory, SIZE_MAX, &shared),
                 "do not fit the address space");
  EXPECT_EQ(shared, -1);
  EXPECT_EQ(ibcoll_free(context_, whole), IBCOLL_OK);
}

TEST_F(CApiMemory, LastsAsLongAsItsObject) {
  const ibcoll::context context(context_);
  {
    ibcoll::registered_memory first = context.register_memory(std::span(bytes_)), second;
    second = std::move(first);
    const ibcoll::registered_memory third(std::move(second));
  }
  ibcoll::registered_memory registered = context.register_memory(std::span<const int>());
  registered.deregister();
  registered.deregister();  // nothing happens
}

}  // namespace
}  // namespace ibcoll
