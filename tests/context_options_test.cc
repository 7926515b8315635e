// What a context is made with, as the environment says it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/core/context.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

class OptionsOfAContext : public ::testing::Test {
 protected:
  ~OptionsOfAContext() override {
    for (const char* name : {"IBCOLL_MULTICAST_MEMORY", "IBCOLL_MULTICAST_WINDOW", "IBCOLL_LOGP",
                             "IBCOLL_RULES", "IBCOLL_RULES_STRICT"}) {
      unsetenv(name);
    }
  }
};

TEST_F(OptionsOfAContext, TheDefaultsAreThoseOfTheTable) {
  const ContextOptions defaults, read = ContextOptions::from_environment(4).value();
  EXPECT_EQ(read.multicast_memory, defaults.multicast_memory);
  EXPECT_EQ(read.multicast_window, defaults.multicast_window);
  EXPECT_EQ(read.logp_file, defaults.logp_file);
}

TEST_F(OptionsOfAContext, ComeFromTheEnvironment) {
  setenv("IBCOLL_MULTICAST_MEMORY", "3M", 1);
  setenv("IBCOLL_MULTICAST_WINDOW", "65535", 1);
  setenv("IBCOLL_LOGP", "costs.json", 1);
  const ContextOptions read = ContextOptions::from_environment(4).value();
  EXPECT_EQ(read.multicast_memory, size_t{3} << 20);
  EXPECT_EQ(read.multicast_window, 65535);
  EXPECT_EQ(read.logp_file, "costs.json");
}

TEST_F(OptionsOfAContext, RulesComeFromTheEnvironment) {
  EXPECT_EQ(ContextOptions::from_environment(4).value().rules_file, "");
  setenv("IBCOLL_RULES", "rules.jsonl", 1);
  setenv("IBCOLL_RULES_STRICT", "1", 1);
  const ContextOptions read = ContextOptions::from_environment(4).value();
  EXPECT_EQ(read.rules_file, "rules.jsonl");
  EXPECT_TRUE(read.rules_strict);
}

TEST_F(OptionsOfAContext, WhatIsNotAllowedIsRefused) {
  for (const char* window : {"0", "65536", "many"}) {
    setenv("IBCOLL_MULTICAST_WINDOW", window, 1);
    const auto read = ContextOptions::from_environment(4);
    ASSERT_FALSE(read) << window;
    EXPECT_THAT(read.error().message, HasSubstr("it takes a whole number, 1 to 65535"));
  }
  unsetenv("IBCOLL_MULTICAST_WINDOW");
  setenv("IBCOLL_MULTICAST_MEMORY", "1K", 1);
  EXPECT_THAT(ContextOptions::from_environment(4).error().message,
              HasSubstr("IBCOLL_MULTICAST_MEMORY='1K' is not allowed"));
}

}  // namespace
}  // namespace ibcoll
