// Operators of the program's own: on elements of any size, in the order of ranks where they do not
// commute, in either direction. How long they live, what is refused, who disagrees, what happens
// where they fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ibcoll/ibcoll.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/api_job.h"
#include "tests/cxx_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::expect;
using ::testing::HasSubstr;
using testing::launched;

/// The product of such does not commute. Of 12 bytes, and any numbers fit.
struct Affine {
  uint32_t factor, offset, ranks;  ///< x -> factor * x + offset
  friend bool operator==(const Affine&, const Affine&) = default;
};
Affine after(const Affine& a, const Affine& b) {
  return {a.factor * b.factor, a.factor * b.offset + a.offset, a.ranks + b.ranks};
}
Affine of_rank(int rank, size_t i) {
  return {static_cast<uint32_t>(2 * rank + 3 + i), static_cast<uint32_t>(7 * rank + i), 1};
}

const char* left_is_target(void* target, const void* source, size_t elements, void* context) {
  auto* a = static_cast<Affine*>(target);
  const auto* b = static_cast<const Affine*>(source);
  for (size_t i = 0; i < elements; ++i) a[i] = after(a[i], b[i]);
  *static_cast<size_t*>(context) += elements;
  return nullptr;
}
/// As functions of MPI do it.
const char* right_is_target(void* target, const void* source, size_t elements, void* context) {
  auto* b = static_cast<Affine*>(target);
  const auto* a = static_cast<const Affine*>(source);
  for (size_t i = 0; i < elements; ++i) b[i] = after(a[i], b[i]);
  *static_cast<size_t*>(context) += elements;
  return nullptr;
}

ibcoll_operator_description affine(ibcoll_combine combine, ibcoll_combine reversed,
                                   size_t* combined) {
  ibcoll_operator_description is = IBCOLL_OPERATOR_DESCRIPTION_INIT;
  is.element_bytes = sizeof(Affine);
  is.combine = combine;
  is.combine_reversed = reversed;
  is.context = combined;
  is.identifier = 12;
  return is;
}

/// Reductions to every root by one operator, of no elements, few, and more than one piece has.
void reduce_in_order(const ApiRank& rank, const ibcoll_operator_description& is) {
  ibcoll_operator op;
  if (!rank.good(ibcoll_operator_create(rank.context, &is, &op), "create")) return;
  ibcoll_group* const world = ibcoll_world(rank.context);
  const int me = ibcoll_rank(rank.context), ranks = ibcoll_size(rank.context);
  for (const size_t elements : {0, 1, 3, 30'001}) {
    for (int root = 0; root < ranks; root += 2) {
      std::vector<Affine> mine(elements + 1), all(elements + 1);
      for (size_t i = 0; i < elements; ++i) mine[i] = of_rank(me, i);
      if (!rank.good(ibcoll_reduce(world, mine.data(), all.data(), elements, IBCOLL_OWN, op, root,
                                   nullptr),
                     "reduce"))
        return;
      for (size_t i = 0; me == root && i < elements; ++i) {
        Affine want = of_rank(0, i);
        for (int r = 1; r < ranks; ++r) want = after(want, of_rank(r, i));
        if (all[i] != want) return rank.complain("element " + std::to_string(i) + " is wrong");
      }
    }
  }
  rank.good(ibcoll_operator_free(rank.context, op), "free");
}

TEST(OwnOperators, ThatDoNotCommuteCombineInTheOrderOfRanksWhicheverFunctionThereIs) {
  struct Layout {
    const char* servers;
    int ranks;
    const char* placement;
  };
  for (const Layout& l : {Layout{"1", 1, nullptr},
                          {"5", 5, nullptr},
                          {"3,1,2,1", 7, nullptr},
                          {"3,4,5", 12, "cyclic"},
                          {"1,1,1", 3, nullptr}}) {
    for (const bool forward : {true, false}) {
      for (const bool backward : {true, false}) {
        if (!forward && !backward) continue;
        SCOPED_TRACE(std::string(l.servers) + (forward ? " forward" : "") +
                     (backward ? " backward" : ""));
        EXPECT_EQ(launched(
                      l.servers, l.ranks,
                      [&](const ApiRank& rank) {
                        size_t combined = 0;
                        reduce_in_order(rank,
                                        affine(forward ? left_is_target : nullptr,
                                               backward ? right_is_target : nullptr, &combined));
                      },
                      nullptr, l.placement),
                  "");
      }
    }
  }
}

TEST(OwnOperators, TakeAnyCallableInCxxOnGroupsSetsAndInPlace) {
  EXPECT_EQ(testing::on_four_ranks([](const context& rank) {
              const own_operator<Affine> op = rank.make_operator<Affine>(after);
              uint32_t combined = 0;
              const auto farther = rank.make_operator<float>(
                  [&combined](float a, float b) {
                    ++combined;
                    return std::abs(a) < std::abs(b) ? b : a;
                  },
                  {.commutes = true});
              const int me = rank.rank();
              const std::vector<Affine> mine = {of_rank(me, 0), of_rank(me, 5)};
              std::vector<Affine> all = mine;
              Affine want = of_rank(0, 5);
              for (int r = 1; r < 4; ++r) want = after(want, of_rank(r, 5));
              if (me == 2)
                rank.world().reduce_in_place<Affine>(all, op);
              else
                rank.world().reduce<Affine>(mine, {}, op, 2);
              expect(me != 2 || all[1] == want, "in place");
              const float distance = me == 1 ? -9.0F : static_cast<float>(me);
              float farthest = 0;
              rank.world().reduce<float>(std::span(&distance, 1), std::span(&farthest, 1), farther,
                                         0);
              expect(me != 0 || farthest == -9.0F, "of floats");
              if (me != 3) {
                const set_group on = rank.on_set({0, 1, 2}, 8);
                request late = on.ireduce<Affine>(mine, all, op, 1);
                late.wait();
                want = after(after(of_rank(0, 0), of_rank(1, 0)), of_rank(2, 0));
                expect(me != 1 || all[0] == want, "on a set");
              }
              rank.world().barrier();
            }),
            "");
}

/// What may be loaded by one instruction only where it is aligned.
struct alignas(32) Wide {
  std::array<double, 4> sums;
};
const char* add_wide(void* target, const void* source, size_t elements, void*) {
  if (reinterpret_cast<uintptr_t>(target) % alignof(Wide) != 0) return "the target is not aligned";
  if (reinterpret_cast<uintptr_t>(source) % alignof(Wide) != 0) return "the source is not aligned";
  auto* to = static_cast<Wide*>(target);
  const auto* from = static_cast<const Wide*>(source);
  for (size_t i = 0; i < elements; ++i) {
    for (size_t k = 0; k < 4; ++k) to[i].sums[k] += from[i].sums[k];
  }
  return nullptr;
}

TEST(OwnOperators, AreCalledOnAlignedElements) {
  for (const bool commutes : {true, false}) {
    for (const char* layout : {"4", "2,2", "1,3"}) {
      EXPECT_EQ(launched(layout, 4,
                         [&](const ApiRank& rank) {
                           ibcoll_operator_description is = IBCOLL_OPERATOR_DESCRIPTION_INIT;
                           is.element_bytes = sizeof(Wide);
                           is.combine = add_wide;
                           is.commutes = commutes ? 1 : 0;
                           ibcoll_operator op;
                           if (!rank.good(ibcoll_operator_create(rank.context, &is, &op), "create"))
                             return;
                           ibcoll_group* const world = ibcoll_world(rank.context);
                           for (const size_t elements : {4, 36, 4000}) {
                             const std::vector<Wide> mine(elements, Wide{{1, 2, 3, 4}});
                             std::vector<Wide> all(elements);
                             if (!rank.good(ibcoll_allreduce(world, mine.data(), all.data(),
                                                             elements, IBCOLL_OWN, op, nullptr),
                                            "allreduce"))
                               return;
                             if (all.back().sums[3] != 16) rank.complain("another sum");
                             if (!rank.good(ibcoll_reduce_scatter_block(world, mine.data(),
                                                                        all.data(), elements / 4,
                                                                        IBCOLL_OWN, op, nullptr),
                                            "reduce_scatter_block"))
                               return;
                             if (all[0].sums[2] != 12) rank.complain("another scattered sum");
                           }
                           rank.good(ibcoll_operator_free(rank.context, op), "free");
                         }),
                "")
          << layout;
    }
  }
}

/// Counts what is alive of it.
class Counted {
 public:
  explicit Counted(int& alive) : alive_(&alive) { ++*alive_; }
  Counted(const Counted& other) : alive_(other.alive_) { ++*alive_; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*alive_; }
  int operator()(int a, int b) const { return a + b + 1; }

 private:
  int* alive_;
};

TEST(OwnOperators, LiveAsLongAsARequestThatUsesThem) {
  EXPECT_EQ(testing::on_four_ranks([](const context& rank) {
              int alive = 0;
              std::vector<int> mine = {rank.rank()}, all = {0};
              {
                request often;
                {
                  const auto op = rank.make_operator<int>(Counted(alive), {.commutes = true});
                  expect(alive == 1, "one is kept");
                  often = rank.world().reduce_init<int>(mine, all, op, 0);
                }
                expect(alive == 1, "the request keeps it");
                for (int times = 0; times < 2; ++times) {
                  often.start();
                  often.wait();
                  expect(rank.rank() != 0 || all[0] == 9, "the sum");
                }
                request once;
                {
                  const auto op = rank.make_operator<int>(Counted(alive), {.commutes = true});
                  once = rank.world().ireduce<int>(mine, all, op, 3);
                }
                once.wait();
                expect(alive == 1, "what has finished keeps nothing");
              }
              expect(alive == 0, "nor does what was freed");
              const auto op = rank.make_operator<int>(Counted(alive), {.commutes = true});
              rank.world().reduce<int>(mine, all, op, 1);
            }),
            "");
}

TEST(OwnOperators, ThatFailEndTheGroupOnAllRanksAndNoOther) {
  EXPECT_EQ(testing::on_four_ranks([](const context& rank) {
              const auto op = rank.make_operator<int64_t>([](int64_t a, int64_t b) -> int64_t {
                if (a + b > 3) throw std::runtime_error("there is no such sum");
                return a + b;
              });
              const std::vector<int> ranks = {0, 1, 2, 3};
              const subgroup some(rank.handle(), ranks, 5);
              std::vector<int64_t> mine = {rank.rank(), 0}, all = {0, 0};
              const auto thrown = testing::thrown_by([&] {
                some.reduce<int64_t>(mine, all, op, 0);
                for (int i = 0; i < 3; ++i) some.barrier();
              });
              expect(thrown.status == IBCOLL_ERR_CANCELLED && thrown.scope == IBCOLL_SCOPE_GROUP,
                     "not the group's end: " + thrown.text);
              expect(
                  thrown.text.find("the operator has failed: there is no such sum (in reduce (") !=
                      std::string::npos,
                  thrown.text);
              mine[0] = 0;
              rank.world().reduce<int64_t>(mine, all, op, 0);
            }),
            "");
}

TEST(OwnOperators, SayWhyTheyFailOnOneLine) {
  EXPECT_EQ(testing::on_four_ranks([](const context& rank) {
              const auto op = rank.make_operator<int64_t>([](int64_t, int64_t) -> int64_t {
                throw std::runtime_error("no\nsum \x1b[2J\x9b");
              });
              std::vector<int64_t> mine = {rank.rank()}, all = {0};
              const auto thrown = testing::thrown_by([&] {
                rank.world().reduce<int64_t>(mine, all, op, 0);
                for (int i = 0; i < 3; ++i) rank.world().barrier();
              });
              expect(thrown.text.find("the operator has failed: no sum \\x1b[2J\\x9b (in reduce") !=
                         std::string::npos,
                     thrown.text);
            }),
            "");
}

TEST(OwnOperators, OfOtherIdentifiersOrSizesAreADisagreement) {
  struct Case {
    uint32_t identifier;
    size_t bytes, elements;
    std::string text;
  };
  for (const char* layout : {"2", "1,1"}) {
    for (const Case& c : {Case{8, 4, 6,
                               "rank 0 combines own by an operator of its own, 7, rank 1 "
                               "own by an operator of its own, 8"},
                          Case{7, 8, 3, "their operators are for elements of other sizes"}}) {
      int status = 0;
      const std::string said = launched(
          layout, 2,
          [&](const ApiRank& rank) {
            const bool other = ibcoll_rank(rank.context) == 1;
            size_t combined = 0;
            ibcoll_operator_description is = affine(left_is_target, nullptr, &combined);
            is.identifier = other ? c.identifier : 7;
            is.element_bytes = other ? c.bytes : 4;
            ibcoll_operator op;
            rank.good(ibcoll_operator_create(rank.context, &is, &op), "create");
            std::array<uint32_t, 6> mine{}, all{};
            ibcoll_group* const world = ibcoll_world(rank.context);
            if (rank.good(ibcoll_reduce(world, mine.data(), all.data(), other ? c.elements : 6,
                                        IBCOLL_OWN, op, 0, nullptr),
                          "reduce"))
              rank.good(ibcoll_barrier(world, nullptr), "barrier");
          },
          &status);
      EXPECT_THAT(said, HasSubstr(c.text)) << layout;
    }
  }
}

/// A job of this process alone.
class OwnOperatorsAlone : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(ibcoll_init(&context_), IBCOLL_OK) << ibcoll_last_error();
    is_ = affine(left_is_target, nullptr, &combined_);
  }
  void TearDown() override {
    EXPECT_TRUE(context_ == nullptr || ibcoll_finalize(context_) == IBCOLL_OK);
  }
  void expect_refused(ibcoll_status status, const std::string& text) {
    EXPECT_EQ(status, IBCOLL_ERR_INVALID);
    EXPECT_THAT(ibcoll_last_error(), HasSubstr(text));
  }
  ibcoll_status reduce(ibcoll_type type, ibcoll_operator op) {
    Affine from{}, to{};
    return ibcoll_reduce(ibcoll_world(context_), &from, &to, 1, type, op, 0, nullptr);
  }
  ibcoll_context* context_ = nullptr;
  size_t combined_ = 0;
  ibcoll_operator_description is_;
  ibcoll_operator op_ = IBCOLL_FIRST_OWN;
};

TEST_F(OwnOperatorsAlone, ThatCanBeNoneAreRefused) {
  expect_refused(ibcoll_operator_create(context_, nullptr, &op_), "is null");
  expect_refused(ibcoll_operator_create(context_, &is_, nullptr), "is null");
  expect_refused(ibcoll_operator_create(nullptr, &is_, &op_), "the context is null");
  is_.combine = nullptr;
  expect_refused(ibcoll_operator_create(context_, &is_, &op_), "the operator has no function");
  is_.combine_reversed = right_is_target;
  for (const size_t bytes : {size_t{0}, (size_t{4} << 20) + 1, SIZE_MAX}) {
    is_.element_bytes = bytes;
    expect_refused(ibcoll_operator_create(context_, &is_, &op_),
                   std::to_string(bytes) + " bytes: they must have 1 to 4194304");
  }
  is_.element_bytes = size_t{4} << 20;
  for (const int value : {-1, 2}) {
    is_.commutes = value;
    expect_refused(ibcoll_operator_create(context_, &is_, &op_),
                   "commutes is " + std::to_string(value) + ": it must be 0 or 1");
  }
  is_.commutes = 0;
  EXPECT_EQ(ibcoll_operator_create(context_, &is_, &op_), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_operator_free(context_, op_), IBCOLL_OK);
  is_.struct_size = 4;
  expect_refused(ibcoll_operator_create(context_, &is_, &op_), "struct_size 4");
}

TEST_F(OwnOperatorsAlone, AreForElementsOfTheirSizeUntilTheyAreFreed) {
  expect_refused(reduce(IBCOLL_OWN, IBCOLL_SUM), "not for elements of the program's own");
  expect_refused(reduce(IBCOLL_OWN, IBCOLL_FIRST_OWN), "none of this context's");
  ASSERT_EQ(ibcoll_operator_create(context_, &is_, &op_), IBCOLL_OK);
  EXPECT_EQ(reduce(IBCOLL_OWN, op_), IBCOLL_OK) << ibcoll_last_error();
  expect_refused(reduce(IBCOLL_DOUBLE, op_),
                 "the operator is for elements of 12 bytes, those of type double have 8");
  ASSERT_EQ(ibcoll_operator_free(context_, op_), IBCOLL_OK);
  expect_refused(reduce(IBCOLL_OWN, op_), "it was freed, or never made");
  expect_refused(ibcoll_operator_free(context_, op_), "it was freed, or never made");
  expect_refused(ibcoll_operator_free(context_, IBCOLL_SUM), "operator 0 is none");
  ibcoll_operator next = IBCOLL_FIRST_OWN;
  ASSERT_EQ(ibcoll_operator_create(context_, &is_, &next), IBCOLL_OK);
  EXPECT_NE(next, op_) << "a late use would be taken for one of the next";
  EXPECT_EQ(ibcoll_operator_free(context_, next), IBCOLL_OK);
}

TEST_F(OwnOperatorsAlone, ThatAreLeftAreReleasedAndToldOf) {
  ASSERT_EQ(ibcoll_operator_create(context_, &is_, &op_), IBCOLL_OK);
  is_.context = &combined_;
  is_.release = [](void* context) { *static_cast<size_t*>(context) = 77; };
  ASSERT_EQ(ibcoll_operator_create(context_, &is_, &op_), IBCOLL_OK);
  expect_refused(ibcoll_finalize(context_), "but 2 operators had not been freed");
  context_ = nullptr;
  EXPECT_EQ(combined_, 77U);
}

}  // namespace
}  // namespace ibcoll
